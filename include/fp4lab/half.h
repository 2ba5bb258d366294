// IEEE fp16 as a 16-bit pattern, rounded to nearest even from float, double and from an exact wide value.
#pragma once

#include <bit>
#include <cstdint>

namespace fp4lab {

using Int128 = __int128;

inline constexpr std::uint16_t kHalfNan = 0x7FFF;  // what the tensor core and cvt.f16 give
inline constexpr std::uint16_t kHalfInfinity = 0x7C00;

constexpr bool half_is_nan(std::uint16_t h) { return (h & 0x7FFF) > 0x7C00; }

constexpr float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t(h & 0x8000) << 16;
  const std::uint32_t magnitude = h & 0x7FFF;
  if (magnitude >= 0x7C00) return std::bit_cast<float>(sign | 0x7F800000u | (magnitude & 0x3FF) << 13);
  if (magnitude < 0x0400) {
    const float value = float(magnitude) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

// Nearest fp16, ties to even; overflow to infinity, NaN to 0x7FFF (cvt.rn.f16.f32).
constexpr std::uint16_t half_from_float(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  const std::uint16_t sign = std::uint16_t((bits >> 16) & 0x8000);
  if (magnitude > 0x7F800000u) return kHalfNan;
  if (magnitude >= 0x477FF000u) return sign | kHalfInfinity;  // 65520 and up
  if (magnitude >= 0x38800000u) {                             // normal: 2^-14 and up
    const std::uint32_t rebiased = magnitude - (112u << 23);
    return sign | std::uint16_t((rebiased + 0x0FFFu + ((rebiased >> 13) & 1)) >> 13);
  }
  if (magnitude < 0x33000000u) return sign;  // below half of the smallest denormal
  const std::uint32_t significand = (magnitude & 0x7FFFFFu) | 0x800000u;
  const int shift = 126 - int(magnitude >> 23);  // to units of 2^-24
  const std::uint32_t kept = significand >> shift, dropped = significand & ((1u << shift) - 1);
  const std::uint32_t half = 1u << (shift - 1);
  return sign | std::uint16_t(kept + (dropped > half || (dropped == half && (kept & 1)) ? 1 : 0));
}

// Nearest fp16 of value * 2^exponent in one rounding, however many bits value has. Zero gives +0.
std::uint16_t half_from_fixed(Int128 value, int exponent);
// Nearest fp32 of the same, also in one rounding.
float float_from_fixed(Int128 value, int exponent);
// Nearest fp16 of a double in one rounding (going through float would round twice).
std::uint16_t half_from_double(double value);

// Signed distance in representable values: -0 and +0 coincide. Neither may be NaN.
constexpr int half_ulps(std::uint16_t a, std::uint16_t b) {
  const auto order = [](std::uint16_t h) { return h & 0x8000 ? -int(h & 0x7FFF) : int(h); };
  return order(a) - order(b);
}

}  // namespace fp4lab
