// Operands for libraries that have no NVFP4, made once and before any timing: packed codes [rows][k / 2] with
// blocked 128x4 scales to fp16 or e4m3 [rows][k], and the silu(x) y that a library's two products of a dual
// GEMM still need.
//
// e2m1 times ue4m3 has at most 6 significant bits and lies between 2^-10 and 2688: exact in fp16. It is not
// exact in e4m3 (4 bits, up to 448).
#include <cuda_fp16.h>

#include "fp4lab/e2m1.h"
#include "fp4lab/scale_layout.h"
#include "fp4lab/ue4m3.h"

namespace fp4lab {

// One thread: the 16 values under one scale.
template <class Out, class Convert>
__device__ __forceinline__ void expand(const unsigned char* codes, const unsigned char* scales, int rows,
                                       int k, Out* out, Convert convert) {
  const long long blocks = static_cast<long long>(rows) * (k / kScaleBlock);
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < blocks; i += stride) {
    const long long row = i / (k / kScaleBlock), block = i % (k / kScaleBlock);
    const float scale = ue4m3_value(scales[blocked_scale_offset(row, block, k / kScaleBlock)]);
    const unsigned char* in = codes + row * (k / 2) + block * (kScaleBlock / 2);
    alignas(16) Out values[kScaleBlock];
    for (int j = 0; j < kScaleBlock; ++j) values[j] = convert(e2m1_value(e2m1_unpack(in, j)) * scale);
    for (int j = 0; j < static_cast<int>(sizeof values / sizeof(uint4)); ++j)
      reinterpret_cast<uint4*>(out + i * kScaleBlock)[j] = reinterpret_cast<const uint4*>(values)[j];
  }
}

// One thread: 8 columns of C [m][n] from XY [m][2 n], X in the first n columns.
template <class In, class Value>
__device__ __forceinline__ void silu_mul(const In* xy, __half* c, int m, int n, Value value) {
  const long long pieces = static_cast<long long>(m) * (n / 8);
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < pieces; i += stride) {
    const long long row = i / (n / 8), column = i % (n / 8) * 8;
    alignas(16) In x[8], y[8];
    alignas(16) __half out[8];
    const In* from = xy + row * 2 * n + column;
    for (int j = 0; j < static_cast<int>(sizeof x / sizeof(uint4)); ++j) {
      reinterpret_cast<uint4*>(x)[j] = reinterpret_cast<const uint4*>(from)[j];
      reinterpret_cast<uint4*>(y)[j] = reinterpret_cast<const uint4*>(from + n)[j];
    }
    for (int j = 0; j < 8; ++j) {
      const float v = value(x[j]);
      out[j] = __float2half_rn(v / (1.0f + __expf(-v)) * value(y[j]));
    }
    *reinterpret_cast<uint4*>(c + row * n + column) = *reinterpret_cast<const uint4*>(out);
  }
}

}  // namespace fp4lab

extern "C" __global__ void __launch_bounds__(256)
    expand_f16(const unsigned char* codes, const unsigned char* scales, int rows, int k, __half* out) {
  fp4lab::expand(codes, scales, rows, k, out, [](float v) { return __float2half_rn(v); });
}

// `factor`, a power of two, brings the largest value under e4m3's 448.
extern "C" __global__ void __launch_bounds__(256)
    expand_e4m3(const unsigned char* codes, const unsigned char* scales, int rows, int k, unsigned char* out,
                float factor) {
  fp4lab::expand(codes, scales, rows, k, out, [factor](float v) { return fp4lab::e4m3_encode(v * factor); });
}

extern "C" __global__ void __launch_bounds__(256) silu_mul_f32(const float* xy, __half* c, int m, int n) {
  fp4lab::silu_mul(xy, c, m, n, [](float v) { return v; });
}

extern "C" __global__ void __launch_bounds__(256) silu_mul_f16(const __half* xy, __half* c, int m, int n) {
  fp4lab::silu_mul(xy, c, m, n, [](__half v) { return __half2float(v); });
}
