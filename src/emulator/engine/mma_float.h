// The tensor core's arithmetic for everything but dense fp4: wgmma, and tcgen05.mma of kind f16, tf32,
// f8f6f4, i8 and mxf8f6f4. One instruction, bit by bit, as MMA-Sim (arXiv 2511.10909) publishes it:
//   the terms are the K products and the old accumulator; a product's exponent is the sum of its operands'
//   (significand in [1, 4), not renormalised, denormals have the smallest exponent of their format), emax is
//   the largest one of all terms that are not zero, and at least -133 (fp16 results: -21); every term is
//   truncated toward zero to a multiple of 2^(emax - fraction_bits); the sum is exact; one conversion
//   follows, toward zero for fp32, to nearest even for fp16.
// Any NaN, inf * 0 or inf - inf gives 0x7FFFFFFF (fp16: 0x7FFF).
// wgmma on an H200 (2026-11-21): f16, bf16, tf32, e4m3, e5m2 and mixed fp8 to fp32, f16 and e4m3 to fp16;
// random bits with Inf and NaN, exponents over the whole range, zeros and denormals: every one of two million
// results has these bits. That zeros have no exponent was learnt there; -133 is MATLAB-tensor-core's (arXiv
// 2512.07004), and anything from -149 to -127 fits what was seen.
// tcgen05.mma: the words of a B200 in tests/emulator/data/tcgen05_b200.txt.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

enum class ElementFormat : uint8_t { f16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1, u8, s8 };
// Of an operand that the instruction's text names; every integer type but s8 is as u8.
ElementFormat element_format(Type);
// The number that the low bits of `bits` mean; of tf32 its 19.
float element_value(ElementFormat, uint32_t bits);

// Decoded operand: signed significands (an integer with `fraction` bits behind the point) and exponents, as
// the operand lies: element (mn, k) at [mn * k_count + k].
struct MmaElements {
  uint32_t rows = 0, k = 0;
  int fraction = 0;
  std::vector<int32_t> significand;
  std::vector<int32_t> exponent;
  std::vector<uint8_t> special;  // per index along M or N: 0 none; 1 some element is Inf or NaN
  bool any_special = false;
  std::vector<std::byte> raw;  // the operand as given, for the special path
  bool negated = false;
  // Of a sparse operand: which elements are not there (engine/sparse.h). They are zeros that take no part
  // even where the other operand is Inf or NaN. Empty when all are there.
  std::vector<uint8_t> absent;

  // `bytes`: [rows][k] elements, each in 1, 2 or 4 bytes; fp6 and fp4 in the low bits of a byte.
  void decode(ElementFormat, const std::byte* bytes, uint32_t rows, uint32_t k, bool negate);
};

struct FloatMma {
  ElementFormat format_a{}, format_b{};
  int fraction_bits = 25;
  int output_bits = 23;      // mantissa bits kept of an fp32 result (13 for fp8 on Hopper)
  bool half_output = false;  // D is fp16 in the low half of each 32-bit word
  bool accumulate = true;
  int scale_input_d = 0;  // D is multiplied by 2^-this first
  // Exponents to add to every product of a row, or null.
  const int32_t *scale_a = nullptr, *scale_b = nullptr;
  const uint8_t *nan_a = nullptr, *nan_b = nullptr;  // with scales: rows whose scale is NaN
  const MmaElements *a = nullptr, *b = nullptr;
  // Element (m, n) at d[n * column_stride + m * row_stride].
  uint32_t* d = nullptr;
  int64_t row_stride = 1, column_stride = 0;
  bool vectors = true;  // false: the portable code, whatever the host has
};
void mma_float(const FloatMma&);

struct IntMma {
  const MmaElements *a = nullptr, *b = nullptr;
  bool accumulate = true, saturate = false;
  uint32_t* d = nullptr;
  int64_t row_stride = 1, column_stride = 0;
};
void mma_int(const IntMma&);

}  // namespace fp4lab::emu
