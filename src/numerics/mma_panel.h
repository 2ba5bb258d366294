// Inside of the vectorised FP4 products: one K = 64 step of some rows of A against a panel of W columns (W =
// 16 for AVX-512, 8
// for AVX2). mma_kernels.inl is compiled once for each instruction set; all of it gives the
// bits of mma_step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numerics/tensor_core.h"

namespace fp4lab {

inline constexpr int kCodeBias = 12;  // makes twice an e2m1 value unsigned: 0..24
inline constexpr int kMaxPanel = 16;

// What a set of scales and codes can contribute, to decide whether a cheaper exact way is open.
struct MmaRange {
  int lsb = 127;        // exponent of the lowest set bit among the scales that are not zero
  int top = -127;       // largest scale exponent
  int bottom = 127;     // smallest scale exponent
  float scale_max = 0;  // largest scale
  int code_max = 0;     // largest |code|, codes being twice the value

  void add_scale(std::uint8_t code, ScaleFormat format);
  void add_codes(const std::int8_t* codes, std::size_t count);
  void add(const MmaRange& other);
};
// Of products: exponent of the lowest bit that one can have, and the bound of |sum of `count` scaled
// 16-groups| in units of it.
struct MmaBound {
  int lsb;
  double units;
};
MmaBound mma_bound(const MmaRange& a, const MmaRange& b, int count);

// A side of one step.
struct MmaRows {
  int rows = 0;
  const std::int8_t* codes = nullptr;         // [rows][64]
  const std::int32_t* bias = nullptr;         // [rows][4]: -kCodeBias * sum of the group's codes
  const float* scale = nullptr;               // [rows][4]; 0 for NaN
  const float* power = nullptr;               // [rows][4]: 2^exponent of the scale, 0 for a zero scale
  const std::uint8_t* nan = nullptr;          // [rows]: any of the four is NaN
  const std::uint8_t* scale_codes = nullptr;  // [rows][4]
  MmaRange range;
};
// Fills the arrays (sized by the caller as above) from codes and scale codes.
MmaRange pack_rows(const std::int8_t* codes, const std::uint8_t* scale_codes, int rows, ScaleFormat format,
                   std::int32_t* bias, float* scale, float* power, std::uint8_t* nan);

// B side of one step: W columns, those past `cols` being zero.
struct alignas(64) MmaPanel {
  std::uint8_t codes[16 * kMaxPanel * 4];  // [k / 4][W][k % 4], biased
  float
      scale[kMmaGroups * kMaxPanel];  // [group][W]: a quarter of the scale, because codes are twice the value
  float power[kMmaGroups * kMaxPanel];
  std::int8_t plain[kMaxPanel * kMmaK];  // [W][64], for the scalar repair of rare lanes
  std::uint8_t scale_codes[kMaxPanel * kMmaGroups];
  std::uint32_t nan;  // bit per column
  int cols;
  MmaRange range;
};

// The functions that exist once for each instruction set.
struct MmaKernels {
  int panel;  // W, columns of a panel
  void (*mma_tile)(const MmaTile& tile);
  void (*unpack_e2m1_twice)(const std::uint8_t* packed, std::size_t count, std::int8_t* out);
  // B rows (= columns of C) at codes + i * stride, scales at scale_codes + i * scale_stride, i < cols <= W.
  void (*pack_panel)(const std::int8_t* codes, std::ptrdiff_t stride, const std::uint8_t* scale_codes,
                     std::ptrdiff_t scale_stride, int cols, ScaleFormat format, bool negate, MmaPanel& panel);
  // d[row * stride + j] = the tensor-core step on it, j < W.
  void (*step_tensor_core)(const MmaRows& a, const MmaPanel& b, ScaleFormat format, bool accumulate, float* d,
                           std::ptrdiff_t stride);
  // sum[row * W + j] += the exact sum of the step's four scaled groups, in units of 2^lsb; the caller keeps
  // it within 31 bits.
  void (*step_exact_int32)(const MmaRows& a, const MmaPanel& b, int lsb, std::int32_t* sum);
  // The same in units of 1; exact while the sum stays within 2^53 of its lowest bit.
  void (*step_exact_double)(const MmaRows& a, const MmaPanel& b, double* sum);
};
namespace scalar {
extern const MmaKernels kKernels;
}
namespace avx2 {
extern const MmaKernels kKernels;
}
namespace avx512 {
extern const MmaKernels kKernels;
}
const MmaKernels& mma_kernels(Simd simd);

}  // namespace fp4lab
