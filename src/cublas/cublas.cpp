// libcublas.so.13, the part for matrix products: handles and the GEMM calls. Enumerators are numbers of
// cublas_api.h of CUDA 13.0, passed as int.
#include <fmt/format.h>

#include <algorithm>

#include "cublas/library.h"
#include "cublas/product.h"

using namespace fp4lab::blas;

namespace {

enum Compute : int {
  k16F = 64,
  k16FPedantic = 65,
  k64F = 70,
  k64FPedantic = 71,
  k32I = 72,
  k32IPedantic = 73
};

cudaDataType scale_type(int compute, cudaDataType result) {
  if (compute == k16F || compute == k16FPedantic) return CUDA_R_16F;
  if (compute == k64F || compute == k64FPedantic) return CUDA_R_64F;
  if (compute == k32I || compute == k32IPedantic) return result == CUDA_R_32I ? CUDA_R_32I : CUDA_R_32F;
  return CUDA_R_32F;
}

// A matrix in BLAS terms: column-major with leading dimension `pitch`; `operation` is a cublasOperation_t.
struct Stored {
  const void* data;
  cudaDataType type;
  int64_t pitch, batch = 0;
  const void* const* each = nullptr;
};
struct Gemm {
  const char* call;
  int op_a, op_b;
  int64_t m, n, k;
  Stored a, b, c;
  const void *alpha, *beta;
  cudaDataType scale;
  int64_t entries = 1;
};

// Rows and columns after the operation.
Matrix matrix(const Stored& s, int operation, int64_t rows, int64_t columns) {
  Matrix m;
  m.data = const_cast<void*>(s.data), m.type = s.type, m.batch = s.batch;
  m.each = const_cast<void* const*>(s.each);
  m.rows = rows, m.columns = columns;
  (operation ? m.column : m.row) = 1;
  (operation ? m.row : m.column) = s.pitch;
  return m;
}

Status multiply(void* handle, const Gemm& g) {
  if (!handle) return kNotInitialized;
  const Handle& h = *static_cast<const Handle*>(handle);
  const auto least = [](int64_t rows) { return std::max<int64_t>(1, rows); };
  const bool wrong = g.m < 0 || g.n < 0 || g.k < 0 || g.entries < 0 || g.op_a < 0 || g.op_a > 2 ||
                     g.op_b < 0 || g.op_b > 2 || g.a.pitch < least(g.op_a ? g.k : g.m) ||
                     g.b.pitch < least(g.op_b ? g.n : g.k) || g.c.pitch < least(g.m) || !g.alpha || !g.beta;
  if (wrong)
    return explain(kInvalidValue, g.call,
                   fmt::format("m {}, n {}, k {}, operations {} and {}, leading dimensions {}, {}, {}", g.m,
                               g.n, g.k, g.op_a, g.op_b, g.a.pitch, g.b.pitch, g.c.pitch));
  Product p;
  p.a = matrix(g.a, g.op_a, g.m, g.k);
  p.b = matrix(g.b, g.op_b, g.k, g.n);
  p.c = p.d = matrix(g.c, 0, g.m, g.n);
  p.entries = g.entries;
  const auto scalar = [&](const void* at) {
    return h.pointer_mode ? Scalar{0, at, g.scale} : Scalar{value_at(at, g.scale, 0), nullptr, g.scale};
  };
  p.alpha = scalar(g.alpha), p.beta = scalar(g.beta);
  return enqueue(g.call, p, h.stream);
}

// For calls with a single data type.
Status plain(const char* call, void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha,
             const Stored& a, const Stored& b, const void* beta, const Stored& c, int entries = 1) {
  return multiply(handle, {call, op_a, op_b, m, n, k, a, b, c, alpha, beta, c.type, entries});
}

}  // namespace

extern "C" {

Status cublasCreate_v2(void** handle) {
  if (!handle) return kInvalidValue;
  if (!have_context()) return kNotInitialized;
  *handle = new Handle;
  return kSuccess;
}
Status cublasDestroy_v2(void* handle) {
  delete static_cast<Handle*>(handle);
  return handle ? kSuccess : kNotInitialized;
}
Status cublasSetStream_v2(void* handle, CUstream stream) {
  if (!handle) return kNotInitialized;
  static_cast<Handle*>(handle)->stream = stream;
  return kSuccess;
}
Status cublasGetStream_v2(void* handle, CUstream* stream) {
  if (!handle || !stream) return handle ? kInvalidValue : kNotInitialized;
  *stream = static_cast<Handle*>(handle)->stream;
  return kSuccess;
}
Status cublasSetWorkspace_v2(void* handle, void*, size_t) { return handle ? kSuccess : kNotInitialized; }

#define MODE(Name, member)                                                 \
  Status cublasSet##Name(void* handle, int mode) {                         \
    if (!handle) return kNotInitialized;                                   \
    static_cast<Handle*>(handle)->member = mode;                           \
    return kSuccess;                                                       \
  }                                                                        \
  Status cublasGet##Name(void* handle, int* mode) {                        \
    if (!handle || !mode) return handle ? kInvalidValue : kNotInitialized; \
    *mode = static_cast<Handle*>(handle)->member;                          \
    return kSuccess;                                                       \
  }
MODE(MathMode, math_mode)
MODE(PointerMode_v2, pointer_mode)
MODE(AtomicsMode, atomics_mode)
#undef MODE

Status cublasGetVersion_v2(void*, int* version) {
  if (!version) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}
Status cublasGetProperty(int type, int* value) { return property(type, value); }
const char* cublasGetStatusName(int status) { return status_name(status); }
const char* cublasGetStatusString(int status) { return status_text(status); }

// With a single data type: cublasXgemm, ...StridedBatched, ...Batched.
#define GEMM(X, Name, T, kType)                                                                              \
  Status cublas##X##Name(void* h, int ta, int tb, int m, int n, int k, const T* alpha, const T* a, int lda,  \
                         const T* b, int ldb, const T* beta, T* c, int ldc) {                                \
    return plain("cublas" #X "gemm", h, ta, tb, m, n, k, alpha, {a, kType, lda}, {b, kType, ldb}, beta,      \
                 {c, kType, ldc});                                                                           \
  }                                                                                                          \
  Status cublas##X##gemmStridedBatched(void* h, int ta, int tb, int m, int n, int k, const T* alpha,         \
                                       const T* a, int lda, long long sa, const T* b, int ldb, long long sb, \
                                       const T* beta, T* c, int ldc, long long sc, int count) {              \
    return plain("cublas" #X "gemmStridedBatched", h, ta, tb, m, n, k, alpha, {a, kType, lda, sa},           \
                 {b, kType, ldb, sb}, beta, {c, kType, ldc, sc}, count);                                     \
  }                                                                                                          \
  Status cublas##X##gemmBatched(void* h, int ta, int tb, int m, int n, int k, const T* alpha,                \
                                const T* const a[], int lda, const T* const b[], int ldb, const T* beta,     \
                                T* const c[], int ldc, int count) {                                          \
    return plain("cublas" #X "gemmBatched", h, ta, tb, m, n, k, alpha,                                       \
                 {nullptr, kType, lda, 0, reinterpret_cast<const void* const*>(a)},                          \
                 {nullptr, kType, ldb, 0, reinterpret_cast<const void* const*>(b)}, beta,                    \
                 {nullptr, kType, ldc, 0, reinterpret_cast<const void* const*>(c)}, count);                  \
  }
GEMM(S, gemm_v2, float, CUDA_R_32F)
GEMM(D, gemm_v2, double, CUDA_R_64F)
GEMM(H, gemm, uint16_t, CUDA_R_16F)
#undef GEMM

Status cublasSgemmEx(void* h, int ta, int tb, int m, int n, int k, const float* alpha, const void* a,
                     cudaDataType at, int lda, const void* b, cudaDataType bt, int ldb, const float* beta,
                     void* c, cudaDataType ct, int ldc) {
  return multiply(
      h,
      {"cublasSgemmEx", ta, tb, m, n, k, {a, at, lda}, {b, bt, ldb}, {c, ct, ldc}, alpha, beta, CUDA_R_32F});
}
Status cublasGemmEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a,
                    cudaDataType at, int lda, const void* b, cudaDataType bt, int ldb, const void* beta,
                    void* c, cudaDataType ct, int ldc, int compute, int) {
  return multiply(h, {"cublasGemmEx",
                      ta,
                      tb,
                      m,
                      n,
                      k,
                      {a, at, lda},
                      {b, bt, ldb},
                      {c, ct, ldc},
                      alpha,
                      beta,
                      scale_type(compute, ct)});
}
Status cublasGemmStridedBatchedEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha,
                                  const void* a, cudaDataType at, int lda, long long sa, const void* b,
                                  cudaDataType bt, int ldb, long long sb, const void* beta, void* c,
                                  cudaDataType ct, int ldc, long long sc, int count, int compute, int) {
  return multiply(h, {"cublasGemmStridedBatchedEx",
                      ta,
                      tb,
                      m,
                      n,
                      k,
                      {a, at, lda, sa},
                      {b, bt, ldb, sb},
                      {c, ct, ldc, sc},
                      alpha,
                      beta,
                      scale_type(compute, ct),
                      count});
}
Status cublasGemmBatchedEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha,
                           const void* const a[], cudaDataType at, int lda, const void* const b[],
                           cudaDataType bt, int ldb, const void* beta, void* const c[], cudaDataType ct,
                           int ldc, int count, int compute, int) {
  return multiply(h, {"cublasGemmBatchedEx",
                      ta,
                      tb,
                      m,
                      n,
                      k,
                      {nullptr, at, lda, 0, a},
                      {nullptr, bt, ldb, 0, b},
                      {nullptr, ct, ldc, 0, c},
                      alpha,
                      beta,
                      scale_type(compute, ct),
                      count});
}
}
