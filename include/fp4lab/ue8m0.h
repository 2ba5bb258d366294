// ue8m0, the power-of-two block scale of the MX formats: value 2^(code - 127) for codes 0..254, 0xFF is NaN;
// there is no zero and no infinity (PTX ISA 5.2.3). No standard header: kernels include this file too.
#pragma once

#include "fp4lab/portable.h"

namespace fp4lab {

inline constexpr unsigned char kUe8m0Nan = 0xFF;

FP4LAB_HD constexpr bool ue8m0_is_nan(unsigned code) { return (code & 0xFF) == 0xFF; }
FP4LAB_HD constexpr int ue8m0_exponent(unsigned code) { return int(code & 0xFF) - 127; }

FP4LAB_HD constexpr float ue8m0_value(unsigned code) {
  if (ue8m0_is_nan(code)) return float_from_bits(0x7FFFFFFFu);
  // Code 0 is 2^-127, a denormal float.
  return float_from_bits((code & 0xFF) == 0 ? 0x00400000u : (code & 0xFF) << 23);
}

enum class Ue8m0Round { kTowardZero, kUp };  // cvt.rz and cvt.rp, the two that PTX has

// The magnitude's power of two, rounded down or up, saturating to 2^-127 .. 2^127
// (cvt.{rz,rp}.satfinite.ue8m0x2.f32, PTX ISA 9.7.9.21); the sign is dropped, NaN gives 0xFF.
FP4LAB_HD constexpr unsigned char ue8m0_encode(float value, Ue8m0Round round) {
  const unsigned magnitude = float_bits(value) & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return kUe8m0Nan;
  unsigned code = magnitude >> 23;
  const unsigned rest = magnitude & 0x7FFFFFu;
  if (round == Ue8m0Round::kUp && rest != 0) {
    // In the denormals code 0 already stands for 2^-127, so only larger values move up.
    if (code != 0 || rest > 0x400000u) ++code;
  }
  return static_cast<unsigned char>(code > 254 ? 254 : code);
}

}  // namespace fp4lab
