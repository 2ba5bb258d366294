// tcgen05.mma of kind::mxf4 and kind::mxf4nvf4, bit by bit: what one K = 64 step does to one fp32
// accumulator.
//
// PTX leaves order and rounding open; this is the model that MMA-Sim (arXiv 2511.10909) publishes as
// bit-accurate:
//   d_g = exact sum of 16 e2m1 products, g = 0..3           (a multiple of 1/4, at most 576)
//   t_g = d_g * significand(sfa_g) * significand(sfb_g) * 2^e_g, e_g = exponent(sfa_g) + exponent(sfb_g)
//   emax = max(e_0 .. e_3, exponent of c); only scale exponents count, d_g is not normalised, and a zero d_g
//     counts too
//   each of t_0 .. t_3 and c is truncated toward zero to a multiple of 2^(emax - 35)
//   the sum of the five is exact, and one conversion rounds it toward zero to fp32 (denormals kept, zero is
//   +0)
// ue4m3 denormals have exponent -6, a zero scale has -126, and bit 7 of a ue4m3 scale is ignored. A NaN scale
// or a NaN c gives 0x7FFFFFFF.
// sf-tensor/tcgen05 6f19f22, a model that its authors compared with a million results of a B200 for each
// path, is written otherwise (the largest product counts, in a window of 39 bits) and gives the same bits but
// in two corners (tests/numerics/tensor_core_test.cpp): a group whose products are all zero raises emax here
// alone, and products whose scales are 2^27 or more below the largest are cut in groups of four there. B200
// results that tell them apart are not published, and random ones would not: of 4 * 10^9 steps with uniform
// finite codes and scales none zero, 111 differ. Not covered by MMA-Sim, and chosen here: an infinite c
// stays itself; a sum of 2^128 or more is infinite.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fp4lab/simd.h"

namespace fp4lab {

enum class ScaleFormat { kUe4m3, kUe8m0 };

inline constexpr int kMmaK = 64;             // K of one step
inline constexpr int kMmaGroups = 4;         // groups of 16 products in it
inline constexpr int kMmaFractionBits = 35;  // kept below 2^emax
inline constexpr std::uint32_t kMmaNan = 0x7FFFFFFFu;

// One step on one accumulator. d4[g] is 4 * d_g, an integer. sfa and sfb hold one byte for each group of 16:
// where a scale covers 32 elements (scale_vec::2X), the caller repeats it.
float mma_step(const int d4[kMmaGroups], const std::uint8_t sfa[kMmaGroups],
               const std::uint8_t sfb[kMmaGroups], ScaleFormat format, float c);

// One step on a tile: d[i][j] = step(A row i, B row j, accumulate ? d[i][j] : 0).
struct MmaTile {
  int m = 0, n = 0;                   // rows of A, rows of B; any size from 0 on
  const std::int8_t* a = nullptr;     // [m][64], twice the e2m1 value (e2m1_twice)
  const std::int8_t* b = nullptr;     // [n][64]
  const std::uint8_t* sfa = nullptr;  // [m][4], as for mma_step
  const std::uint8_t* sfb = nullptr;  // [n][4]
  ScaleFormat format = ScaleFormat::kUe4m3;
  bool negate = false;          // flip the sign of every product (negate-a xor negate-b)
  bool accumulate = true;       // false: the old d is not read
  float* d = nullptr;           // [m] rows of n floats
  std::ptrdiff_t d_stride = 0;  // floats from row to row
};
void mma_tile(const MmaTile& tile, Simd simd = best_simd());

// Packed e2m1 codes (low nibble first) to twice their values, one int8 each. count is even.
void unpack_e2m1_twice(const std::uint8_t* packed, std::size_t count, std::int8_t* out,
                       Simd simd = best_simd());

}  // namespace fp4lab
