// e4m3 (FP8, bias 7, no infinity, one NaN pattern) and ue4m3, its unsigned form that NVFP4 uses for block
// scales (PTX ISA 5.2.3): a ue4m3 byte has bit 7 clear. No standard header: kernels include this file too.
#pragma once

#include "fp4lab/portable.h"

namespace fp4lab {

inline constexpr unsigned char kE4m3Nan = 0x7F;
inline constexpr unsigned char kE4m3MaxCode = 0x7E;
inline constexpr float kE4m3Max = 448.0f;

FP4LAB_HD constexpr bool e4m3_is_nan(unsigned code) { return (code & 0x7F) == 0x7F; }

// Value = ue4m3_significand / 8 * 2^ue4m3_exponent. The sign bit is ignored, as block-scaled MMA does;
// denormals (exponent field 0) have exponent -6. For code 0x7F (NaN) the two are meaningless.
FP4LAB_HD constexpr int ue4m3_significand(unsigned code) {
  return int(code & 7) + ((code & 0x78) != 0 ? 8 : 0);
}
FP4LAB_HD constexpr int ue4m3_exponent(unsigned code) {
  const int field = int(code >> 3) & 15;
  return (field == 0 ? 1 : field) - 7;
}
// The value in units of 2^-9, the smallest denormal: an integer up to 448 * 512.
FP4LAB_HD constexpr int ue4m3_fixed(unsigned code) {
  return ue4m3_significand(code) << (ue4m3_exponent(code) + 6);
}

FP4LAB_HD constexpr float ue4m3_value(unsigned code) {
  if (e4m3_is_nan(code)) return float_from_bits(0x7FFFFFFFu);
  return float(ue4m3_fixed(code)) * (1.0f / 512.0f);
}
FP4LAB_HD constexpr float e4m3_value(unsigned code) {
  return code & 0x80 ? -ue4m3_value(code) : ue4m3_value(code);
}

// Nearest e4m3, ties to even, saturating at +-448 (infinities too), NaN to 0x7F: what
// cvt.rn.satfinite.e4m3x2.f32 does (PTX ISA 9.7.9.21). A sign on zero is kept.
FP4LAB_HD constexpr unsigned char e4m3_encode(float value) {
  const unsigned bits = float_bits(value);
  const unsigned magnitude = bits & 0x7FFFFFFFu;
  const unsigned sign = (bits >> 24) & 0x80;
  if (magnitude > 0x7F800000u) return kE4m3Nan;
  if (magnitude >= 0x43E00000u) return static_cast<unsigned char>(sign | kE4m3MaxCode);  // 448
  const int exponent = int(magnitude >> 23) - 127;
  unsigned long long code = 0;
  if (exponent >= -6) {
    // Rebias, then round away the 20 mantissa bits that e4m3 lacks; a carry runs into the exponent by itself.
    code = shift_right_rne(magnitude - (120u << 23), 20);
  } else if (exponent >= -10) {
    code = shift_right_rne((magnitude & 0x7FFFFFu) | 0x800000u, 14 - exponent);  // units of 2^-9
  }
  return static_cast<unsigned char>(sign | unsigned(code));
}

// The same for a block scale: negative values clamp to 0.
FP4LAB_HD constexpr unsigned char ue4m3_encode(float value) {
  return value < 0 ? static_cast<unsigned char>(0) : static_cast<unsigned char>(e4m3_encode(value) & 0x7F);
}

}  // namespace fp4lab
