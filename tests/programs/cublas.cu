// The products that programs compare their kernels with: GEMM calls of cuBLAS and cuBLASLt, with small
// integers, whose sums are exact.
// nvcc: -lcublas -lcublasLt
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <vector>

#include "check.h"

#define BLAS(call)                                                                             \
  do {                                                                                         \
    const cublasStatus_t status_ = (call);                                                     \
    if (status_ != CUBLAS_STATUS_SUCCESS) {                                                    \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cublasGetStatusName(status_)); \
      std::exit(1);                                                                            \
    }                                                                                          \
  } while (0)

template <class T>
T* managed(size_t count) {
  T* p;
  CUDA(cudaMallocManaged(&p, count * sizeof(T)));
  return p;
}
int small(size_t i, int seed) { return int(((i * 2654435761u >> 7) + seed * 7u) % 5) - 2; }
template <class T>
T* numbers(size_t count, int seed) {
  T* p = managed<T>(count);
  for (size_t i = 0; i < count; ++i) p[i] = T(float(small(i, seed)));
  return p;
}

constexpr int kM = 70, kN = 9, kK = 33;  // no multiples of a tile

// Element (r, c) of an operand that is stored column by column, behind its operation.
template <class T>
double at(const T* p, int pitch, cublasOperation_t op, int r, int c) {
  return double(float(op == CUBLAS_OP_N ? p[r + c * pitch] : p[c + r * pitch]));
}
template <class A, class C>
bool right(const A* a, int lda, cublasOperation_t ta, const A* b, int ldb, cublasOperation_t tb, const C* c,
           int ldc, double alpha, double beta, const C* before) {
  for (int m = 0; m < kM; ++m)
    for (int n = 0; n < kN; ++n) {
      double sum = 0;
      for (int k = 0; k < kK; ++k) sum += at(a, lda, ta, m, k) * at(b, ldb, tb, k, n);
      const double want = alpha * sum + (beta != 0 ? beta * double(float(before[m + n * ldc])) : 0);
      if (double(float(c[m + n * ldc])) != want) return false;
    }
  return true;
}

void every_operation(cublasHandle_t h) {
  const int pitch = 80;
  float *a = numbers<float>(pitch * pitch, 1), *b = numbers<float>(pitch * pitch, 2),
        *c = numbers<float>(pitch * kN, 3);
  std::vector<float> before(c, c + pitch * kN);
  for (auto ta : {CUBLAS_OP_N, CUBLAS_OP_T})
    for (auto tb : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      std::copy(before.begin(), before.end(), c);
      const float alpha = 2, beta = -1;
      BLAS(cublasSgemm(h, ta, tb, kM, kN, kK, &alpha, a, pitch, b, pitch, &beta, c, pitch));
      CUDA(cudaDeviceSynchronize());
      EXPECT(right(a, pitch, ta, b, pitch, tb, c, pitch, 2, -1, before.data()));
      EXPECT(c[kM] == before[kM]);  // behind a column
    }
  // With beta 0 what stood in C does not count, be it a NaN. Scalars of the device are read when it runs.
  c[0] = NAN;
  float* scalars = managed<float>(2);
  BLAS(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE));
  scalars[0] = 1, scalars[1] = 0;
  BLAS(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, kM, kN, kK, &scalars[0], a, pitch, b, pitch, &scalars[1], c,
                   pitch));
  BLAS(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST));
  CUDA(cudaDeviceSynchronize());
  EXPECT(right(a, pitch, CUBLAS_OP_N, b, pitch, CUBLAS_OP_N, c, pitch, 1, 0, c));
  const float one = 1, zero = 0;
  EXPECT(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, kM, kN, kK, &one, a, kM - 1, b, pitch, &zero, c, pitch) ==
         CUBLAS_STATUS_INVALID_VALUE);
}

template <class A, class C, class S>
void mixed(cublasHandle_t h, cudaDataType ab, cudaDataType result, cublasComputeType_t compute) {
  const S alpha = S(1), beta = S(0);
  A *a = numbers<A>(kM * kK * 2, 4), *b = numbers<A>(kK * kN * 2, 5);
  C* c = managed<C>(kM * kN * 2);
  BLAS(cublasGemmStridedBatchedEx(h, CUBLAS_OP_T, CUBLAS_OP_N, kM, kN, kK, &alpha, a, ab, kK, kM * kK, b, ab,
                                  kK, kK * kN, &beta, c, result, kM, kM * kN, 2, compute,
                                  CUBLAS_GEMM_DEFAULT));
  CUDA(cudaDeviceSynchronize());
  for (int i : {0, 1})
    EXPECT(right(a + i * kM * kK, kK, CUBLAS_OP_T, b + i * kK * kN, kK, CUBLAS_OP_N, c + i * kM * kN, kM, 1,
                 0, c));
}

// In the order of a stream, by pointers, and as part of a graph.
void in_order(cublasHandle_t h) {
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  BLAS(cublasSetStream(h, stream));
  __half *a = numbers<__half>(kM * kK, 6), *b = numbers<__half>(kK * kN, 7), *c = managed<__half>(kM * kN);
  const __half **as = managed<const __half*>(1), **bs = managed<const __half*>(1);
  __half** cs = managed<__half*>(1);
  as[0] = a, bs[0] = b, cs[0] = c;
  const __half one = 1.0f, zero = 0.0f;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CUDA(cudaMemsetAsync(c, 0xff, kM * kN * sizeof *c, stream));
  BLAS(cublasHgemmBatched(h, CUBLAS_OP_N, CUBLAS_OP_N, kM, kN, kK, &one, as, kM, bs, kK, &zero, cs, kM, 1));
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; ++i) {
    std::fill(c, c + kM * kN, __half(3.0f));
    CUDA(cudaGraphLaunch(exec, stream));
    CUDA(cudaStreamSynchronize(stream));
    EXPECT(right(a, kM, CUBLAS_OP_N, b, kK, CUBLAS_OP_N, c, kM, 1, 0, c));
  }
  BLAS(cublasSetStream(h, nullptr));
}

// Triangular systems: what was multiplied comes back, for every side, half, operation and diagonal.
void triangles(cublasHandle_t h) {
  constexpr int kOrder = 6, kLines = 4, kPitch = 7;
  double *a = managed<double>(kPitch * kOrder), *b = managed<double>(2 * kPitch * kOrder);
  const double** as = managed<const double*>(2);
  double** bs = managed<double*>(2);
  as[0] = as[1] = a, bs[0] = b, bs[1] = b + kPitch * kOrder;
  for (int i = 0; i < kPitch * kOrder; ++i)
    a[i] = i % (kPitch + 1) ? small(i, 1) : 2;  // 2 along the diagonal
  const auto x = [](int i, int line) { return double(small(i + line * 10, 9)); };
  for (int cases = 0; cases < 16; ++cases) {
    const bool right = cases & 1, upper = cases & 2, transposed = cases & 4, unit = cases & 8;
    const auto entry = [&](int row, int column) {  // of op(A)
      const int r = transposed ? column : row, c = transposed ? row : column;
      return r == c ? unit ? 1 : a[r + c * kPitch] : (r < c) == upper ? a[r + c * kPitch] : 0;
    };
    const auto place = [&](int i, int line) { return right ? line + i * kPitch : i + line * kPitch; };
    for (int line = 0; line < kLines; ++line)
      for (int i = 0; i < kOrder; ++i) {
        double sum = 0;
        for (int j = 0; j < kOrder; ++j) sum += (right ? entry(j, i) : entry(i, j)) * x(j, line);
        bs[0][place(i, line)] = bs[1][place(i, line)] = sum;
      }
    const double alpha = 2;
    const auto side = right ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT;
    const auto fill = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
    const auto op = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const auto diagonal = unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    const int m = right ? kLines : kOrder, n = right ? kOrder : kLines;
    BLAS(cublasDtrsmBatched(h, side, fill, op, diagonal, m, n, &alpha, as, kPitch, bs, kPitch, 1));
    BLAS(cublasDtrsm(h, side, fill, op, diagonal, m, n, &alpha, a, kPitch, bs[1], kPitch));
    CUDA(cudaDeviceSynchronize());
    for (int line = 0; line < kLines; ++line)
      for (int i = 0; i < kOrder; ++i)
        EXPECT(bs[0][place(i, line)] == 2 * x(i, line) && bs[1][place(i, line)] == 2 * x(i, line));
  }
}

struct Lt {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t op;
  cublasLtMatrixLayout_t a, b, c;

  Lt(cudaDataType ab, cudaDataType result, int m, int n, int k) {  // A and B with K along their columns
    BLAS(cublasLtCreate(&handle));
    BLAS(cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, int(CUBLAS_OP_T));
    BLAS(cublasLtMatrixLayoutCreate(&a, ab, k, m, k));
    BLAS(cublasLtMatrixLayoutCreate(&b, ab, k, n, k));
    BLAS(cublasLtMatrixLayoutCreate(&c, result, m, n, m));
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    BLAS(cublasLtMatmulDescSetAttribute(op, attribute, &value, sizeof value));
  }
  void run(const void* x, const void* y, void* z) {
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    BLAS(cublasLtMatmulPreferenceCreate(&preference));
    BLAS(cublasLtMatmulAlgoGetHeuristic(handle, op, a, b, c, c, preference, 1, &found, &count));
    EXPECT(count == 1 && found.state == CUBLAS_STATUS_SUCCESS);
    const float alpha = 1, beta = 0;
    BLAS(cublasLtMatmul(handle, op, &alpha, x, a, y, b, &beta, z, c, z, c, &found.algo, nullptr, 0, nullptr));
    CUDA(cudaDeviceSynchronize());
  }
};

// e4m3 with a scale of the whole of A, a bias for each row and ReLU.
void lt_epilogue() {
  Lt lt(CUDA_R_8F_E4M3, CUDA_R_16BF, kM, kN, kK);
  auto *a = numbers<__nv_fp8_e4m3>(kM * kK, 8), *b = numbers<__nv_fp8_e4m3>(kK * kN, 9);
  auto *c = managed<__nv_bfloat16>(kM * kN), *bias = numbers<__nv_bfloat16>(kM, 10);
  float* scale = managed<float>(1);
  *scale = 0.5f;
  lt.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<void*>(scale));
  lt.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(bias));
  lt.set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(CUBLASLT_EPILOGUE_RELU_BIAS));
  lt.run(a, b, c);
  for (int m = 0; m < kM; ++m)
    for (int n = 0; n < kN; ++n) {
      double sum = 0;
      for (int k = 0; k < kK; ++k) sum += double(float(a[m * kK + k])) * double(float(b[n * kK + k]));
      EXPECT(double(float(c[m + n * kM])) == std::fmax(0, 0.5 * sum + double(float(bias[m]))));
    }
}

// Blocks of 16 (e2m1, scales ue4m3) or 32 (e4m3, ue8m0) along K, each row's scales in atoms of 128 rows and 4
// scales.
void lt_blocks(bool nv) {
  constexpr int m = 130, n = 16, k = 256;
  const int width = nv ? 16 : 32, scales = k / width;
  Lt lt(nv ? CUDA_R_4F_E2M1 : CUDA_R_8F_E4M3, CUDA_R_32F, m, n, k);
  auto *a = managed<uint8_t>(m * k), *b = managed<uint8_t>(n * k);
  const int bytes = 256 * scales;
  auto *sa = managed<uint8_t>(bytes), *sb = managed<uint8_t>(bytes);
  const uint8_t e2m1[] = {0xc, 0xa, 0, 2, 4}, e4m3[] = {0xc0, 0xb8, 0, 0x38, 0x40},
                ue4m3[] = {0x30, 0x38, 0x40}, ue8m0[] = {126, 127, 128};
  auto fill = [&](uint8_t* x, uint8_t* s, int rows, int seed) {
    for (int i = 0; i < rows * k; ++i)
      if (!nv)
        x[i] = e4m3[small(i, seed) + 2];
      else if (i % 2 == 0)
        x[i / 2] = e2m1[small(i, seed) + 2] | e2m1[small(i + 1, seed) + 2] << 4;
    for (int i = 0; i < bytes; ++i) s[i] = (nv ? ue4m3 : ue8m0)[(i * 7 + seed) % 3];
  };
  fill(a, sa, m, 11), fill(b, sb, n, 12);
  const auto mode = nv ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 : CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
  lt.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, int32_t(mode)),
      lt.set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, int32_t(mode));
  lt.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<void*>(sa)),
      lt.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<void*>(sb));
  float* c = managed<float>(m * n);
  lt.run(a, b, c);
  auto scale = [&](const uint8_t* s, int row, int block) {
    const int place =
        (row / 128 * (scales / 4) + block / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
    return double(s[place] == (nv ? 0x30 : 126) ? 0.5 : s[place] == (nv ? 0x38 : 127) ? 1 : 2);
  };
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int x = 0; x < k; ++x)
        sum +=
            small(i * k + x, 11) * scale(sa, i, x / width) * small(j * k + x, 12) * scale(sb, j, x / width);
      EXPECT(c[i + j * m] == sum);
    }
}

void copies() {
  const int from[] = {1, 2, 3, 4, 5, 6}, want[] = {1, 0, 3, 0, 5};
  int *p = managed<int>(6), got[5] = {};
  BLAS(cublasSetVector(6, sizeof(int), from, 1, p, 1));
  BLAS(cublasGetVector(3, sizeof(int), p, 2, got, 2));
  EXPECT(std::equal(got, got + 5, want));
  BLAS(cublasSetMatrix(2, 2, sizeof(int), from, 3, p, 2));
  EXPECT(p[0] == 1 && p[1] == 2 && p[2] == 4 && p[3] == 5);
}

// What is not the device's memory is refused, not read.
void refused(cublasHandle_t h) {
  float* const x = managed<float>(kM * kK);
  const float one = 1, zero = 0, *const nowhere = reinterpret_cast<const float*>(0x10);
  BLAS(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE));
  EXPECT(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, nowhere, x, 4, x, 4, nowhere, x + 32, 4));
  const auto strsm = [&](cublasFillMode_t fill, const float* alpha, const float* a) {
    return cublasStrsm(h, CUBLAS_SIDE_LEFT, fill, CUBLAS_OP_N, CUBLAS_DIAG_UNIT, 4, 4, alpha, a, 4, x, 4);
  };
  EXPECT(strsm(CUBLAS_FILL_MODE_UPPER, nowhere, x) == CUBLAS_STATUS_INVALID_VALUE);
  BLAS(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST));
  EXPECT(strsm(CUBLAS_FILL_MODE_FULL, &one, x + 16) == CUBLAS_STATUS_INVALID_VALUE);
  EXPECT(strsm(CUBLAS_FILL_MODE_UPPER, &one, nowhere) == CUBLAS_STATUS_INVALID_VALUE);
  x[0] = NAN;
  BLAS(strsm(CUBLAS_FILL_MODE_UPPER, &zero, nowhere));  // zeros, whatever A and B hold
  CUDA(cudaDeviceSynchronize());
  EXPECT(x[0] == 0 && x[15] == 0);
  EXPECT(cublasSgemmStridedBatched(h, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, x, 4, -(1 << 20), x, 4, 16,
                                   &zero, x + 32, 4, 16, 2));
  float** each = managed<float*>(2);
  each[0] = x, each[1] = reinterpret_cast<float*>(0x10);
  EXPECT(cublasSgemmBatched(h, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, each, 4, each, 4, &zero, each, 4,
                            2) == CUBLAS_STATUS_INVALID_VALUE);
  Lt lt(CUDA_R_8F_E4M3, CUDA_R_32F, kM, kN, kK);
  lt.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, const_cast<float*>(nowhere));
  EXPECT(cublasLtMatmul(lt.handle, lt.op, &one, x, lt.a, x, lt.b, &zero, x, lt.c, x, lt.c, nullptr, nullptr,
                        0, nullptr));
  Lt narrow(CUDA_R_32F, CUDA_R_32F, kM, kN, kK);
  const int64_t pitch = kM - 1;
  BLAS(cublasLtMatrixLayoutSetAttribute(narrow.c, CUBLASLT_MATRIX_LAYOUT_LD, &pitch, sizeof pitch));
  EXPECT(cublasLtMatmul(narrow.handle, narrow.op, &one, x, narrow.a, x, narrow.b, &zero, x, narrow.c, x,
                        narrow.c, nullptr, nullptr, 0, nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  CUDA(cudaDeviceSynchronize());
}

int main() {
  cublasHandle_t h;
  BLAS(cublasCreate(&h));
  every_operation(h);
  mixed<__nv_bfloat16, float, float>(h, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F);
  mixed<__half, __half, __half>(h, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F);
  mixed<double, double, double>(h, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F);
  mixed<int8_t, int32_t, int32_t>(h, CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I);
  in_order(h);
  triangles(h);
  copies();
  refused(h);
  BLAS(cublasDestroy(h));
  lt_epilogue();
  lt_blocks(true);
  lt_blocks(false);
  std::puts("ok");
}
