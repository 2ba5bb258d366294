// e2m1 (FP4): 1 sign, 2 exponent (bias 1), 1 mantissa bit; no infinity, no NaN (PTX ISA 5.2.3, OCP MX 1.0).
// No standard header: kernels include this file too.
#pragma once

#include "fp4lab/portable.h"

namespace fp4lab {

inline constexpr float kE2m1Max = 6.0f;

// Twice the value, an exact integer: codes 0..7 give 0 1 2 3 4 6 8 12, codes 8..15 the same negated.
FP4LAB_HD constexpr int e2m1_twice(unsigned code) {
  const int magnitude = int((0xC8643210u >> ((code & 7) * 4)) & 0xF);
  return code & 8 ? -magnitude : magnitude;
}

// The value; code 8 is -0.
FP4LAB_HD constexpr float e2m1_value(unsigned code) {
  const int twice = e2m1_twice(code & 7);
  return code & 8 ? -0.5f * float(twice) : 0.5f * float(twice);
}

// Nearest e2m1, ties to the even code, saturating at +-6, NaN to +6: what cvt.rn.satfinite.e2m1x2.f32 does
// (PTX ISA 9.7.9.21). A sign on zero is kept.
FP4LAB_HD constexpr unsigned char e2m1_encode(float value) {
  if (!(value == value)) return 7;
  const unsigned sign = (float_bits(value) >> 28) & 8;
  const float a = value < 0 ? -value : value;
  // The boundaries lie half way between neighbours; >= where the upper neighbour has the even code.
  const unsigned code = unsigned(a > 0.25f) + unsigned(a >= 0.75f) + unsigned(a > 1.25f) +
                        unsigned(a >= 1.75f) + unsigned(a > 2.5f) + unsigned(a >= 3.5f) + unsigned(a > 5.0f);
  return static_cast<unsigned char>(sign | code);
}

// Two codes to a byte: the element with the even K index in bits 3:0, the odd one in bits 7:4.
FP4LAB_HD constexpr unsigned char e2m1_pack(unsigned even, unsigned odd) {
  return static_cast<unsigned char>((even & 15) | ((odd & 15) << 4));
}
// The code of element k of a packed row.
FP4LAB_HD constexpr unsigned e2m1_unpack(const unsigned char* row, long long k) {
  return (row[k >> 1] >> ((k & 1) * 4)) & 15u;
}

}  // namespace fp4lab
