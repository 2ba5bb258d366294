#include "fp4lab/half.h"

#include <cmath>

namespace fp4lab {
namespace {

using UInt128 = unsigned __int128;

int highest_bit(UInt128 v) {
  const auto high = std::uint64_t(v >> 64);
  return high ? 127 - std::countl_zero(high) : 63 - std::countl_zero(std::uint64_t(v));
}

// |value| * 2^exponent rounded to a multiple of 2^unit, as a count of that unit.
UInt128 round_to_unit(UInt128 magnitude, int exponent, int unit) {
  const int shift = unit - exponent;
  if (shift <= 0) return magnitude << -shift;
  if (shift > 127) return 0;  // magnitude < 2^127, so it is less than half a unit
  const UInt128 kept = magnitude >> shift, dropped = magnitude & ((UInt128(1) << shift) - 1);
  const UInt128 half = UInt128(1) << (shift - 1);
  return kept + (dropped > half || (dropped == half && (kept & 1)) ? 1 : 0);
}

// Biased pattern of a binary format with `fraction` stored bits and smallest normal exponent `min_exponent`;
// the carry of the rounding runs into the exponent by itself, up to and into infinity.
UInt128 encode(UInt128 magnitude, int exponent, int fraction, int min_exponent) {
  if (magnitude == 0) return 0;
  const int top = highest_bit(magnitude) + exponent;
  const int max_exponent = 1 - min_exponent;
  const UInt128 infinity = UInt128(max_exponent - min_exponent + 2) << fraction;
  if (top > max_exponent) return infinity;
  if (top < min_exponent) return round_to_unit(magnitude, exponent, min_exponent - fraction);
  const UInt128 count = round_to_unit(magnitude, exponent, top - fraction);
  return (UInt128(top - min_exponent) << fraction) + count;
}

}  // namespace

std::uint16_t half_from_fixed(Int128 value, int exponent) {
  const UInt128 magnitude = value < 0 ? -UInt128(value) : UInt128(value);
  const auto code = std::uint16_t(encode(magnitude, exponent, 10, -14));
  return code | (value < 0 ? 0x8000 : 0);
}

float float_from_fixed(Int128 value, int exponent) {
  const UInt128 magnitude = value < 0 ? -UInt128(value) : UInt128(value);
  const auto code = std::uint32_t(encode(magnitude, exponent, 23, -126));
  return std::bit_cast<float>(code | (value < 0 ? 0x80000000u : 0u));
}

std::uint16_t half_from_double(double value) {
  // To fp32 with the last bit set if anything was lost: the rounding to fp16 still sees on which side of a
  // tie it is.
  float narrow = float(value);
  const double back = narrow;
  if (back != value && !std::isnan(value)) {
    auto bits = std::bit_cast<std::uint32_t>(narrow);
    if (std::fabs(back) > std::fabs(value)) --bits;  // rounded away from zero, perhaps to infinity: undo it
    narrow = std::bit_cast<float>(bits | 1);
  }
  return half_from_float(narrow);
}

}  // namespace fp4lab
