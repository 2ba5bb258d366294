// Every small float format of cvt as data, and one encoder and one decoder for all of them. The formats that
// include/fp4lab/ also knows give the same codes there (tested against each other for every code).
#pragma once

#include <bit>
#include <cstdint>

namespace fp4lab::emu {

struct FloatFormat {
  int exponent_bits, mantissa_bits, bias;
  // Codes above the largest finite value: IEEE (infinity, then NaNs), one NaN code and no infinity (e4m3), or
  // none (all codes are finite: e2m1, e2m3, e3m2).
  enum class Top : uint8_t { ieee, one_nan, finite } top;
  uint32_t nan;  // the canonical NaN code

  constexpr uint32_t magnitude_mask() const { return (1u << (exponent_bits + mantissa_bits)) - 1; }
  constexpr uint32_t sign_bit() const { return magnitude_mask() + 1; }
  constexpr uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  constexpr uint32_t max_finite() const {
    return top == Top::ieee ? infinity() - 1 : top == Top::one_nan ? magnitude_mask() - 1 : magnitude_mask();
  }
};

inline constexpr FloatFormat kF16{5, 10, 15, FloatFormat::Top::ieee, 0x7fff};
inline constexpr FloatFormat kBf16{8, 7, 127, FloatFormat::Top::ieee, 0x7fff};
inline constexpr FloatFormat kF32{8, 23, 127, FloatFormat::Top::ieee, 0x7fffffff};
inline constexpr FloatFormat kTf32{8, 10, 127, FloatFormat::Top::ieee, 0x3ffff};
inline constexpr FloatFormat kE4m3{4, 3, 7, FloatFormat::Top::one_nan, 0x7f};
inline constexpr FloatFormat kE5m2{5, 2, 15, FloatFormat::Top::ieee, 0x7f};
inline constexpr FloatFormat kE2m3{2, 3, 1, FloatFormat::Top::finite, 0x1f};
inline constexpr FloatFormat kE3m2{3, 2, 3, FloatFormat::Top::finite, 0x1f};
inline constexpr FloatFormat kE2m1{2, 1, 1, FloatFormat::Top::finite, 0x07};

enum class FormatRound : uint8_t { nearest_even, nearest_away, to_zero, down, up, stochastic };

// The addend of stochastic rounding to the dropped bits; a carry rounds away from zero. The manual only
// defines its alignment for normal fp16 and bf16 results, which drop as many bits as there are random ones:
// here the highest random bit is always aligned just below the last bit of the result.
struct RandomBits {
  uint32_t value = 0;
  int count = 0;
};

// The code of v rounded once. Overflow follows IEEE (infinity, or the largest finite value if the rounding
// points inwards), or saturates to the largest finite value with `saturate` and in formats without infinity.
// NaN gives format.nan (for formats without NaN that is +MAX_NORM, as PTX says).
constexpr uint32_t encode(double v, const FloatFormat& f, FormatRound round, bool saturate,
                          RandomBits random = {}) {
  const uint64_t bits = std::bit_cast<uint64_t>(v);
  const uint64_t magnitude = bits & ~(uint64_t(1) << 63);
  const bool negative = bits >> 63;
  const uint32_t sign = negative ? f.sign_bit() : 0;
  if (magnitude > 0x7ff0000000000000) return f.nan;
  const bool inwards = round == FormatRound::to_zero || (round == FormatRound::down && !negative) ||
                       (round == FormatRound::up && negative);
  const bool clamp = saturate || f.top != FloatFormat::Top::ieee;
  if (magnitude == 0x7ff0000000000000) return sign | (clamp ? f.max_finite() : f.infinity());
  if (magnitude == 0) return sign;

  // |v| = significand * 2^exponent, and the code counts steps of 2^unit in v's binade (denormals: in the
  // lowest one).
  int field = int(magnitude >> 52);
  uint64_t significand = magnitude & ((uint64_t(1) << 52) - 1);
  if (field == 0)
    field = 1;
  else
    significand |= uint64_t(1) << 52;
  const int leading = field - 1023 - 52 + 63 - std::countl_zero(significand);  // floor(log2 |v|)
  const int lowest = 1 - f.bias;
  const int binade = leading < lowest ? lowest : leading;
  const int shift = (binade - f.mantissa_bits) - (field - 1023 - 52);  // bits to drop
  uint64_t kept = 0, dropped = 0, half = 1;
  if (shift <= 0) {
    kept = significand << -shift;
  } else if (shift <= 62) {
    kept = significand >> shift;
    dropped = significand & ((uint64_t(1) << shift) - 1);
    half = uint64_t(1) << (shift - 1);
  } else {
    dropped = 1;  // far below half a step
    half = 2;
  }
  bool up = false;
  switch (round) {
    case FormatRound::nearest_even:
      up = dropped > half || (dropped == half && (kept & 1));
      break;
    case FormatRound::nearest_away:
      up = dropped >= half && dropped != 0;
      break;
    case FormatRound::to_zero:
      break;
    case FormatRound::down:
      up = negative && dropped;
      break;
    case FormatRound::up:
      up = !negative && dropped;
      break;
    case FormatRound::stochastic:  // fp32 values: at least 29 bits of a double are dropped
      up = shift > random.count && shift <= 62 &&
           ((dropped >> (shift - random.count)) + random.value) >> random.count;
      break;
  }
  kept += up;
  // A carry out of the mantissa runs into the exponent field by itself.
  const uint64_t code = kept + (uint64_t(binade - lowest) << f.mantissa_bits);
  if (code > f.max_finite()) return sign | (clamp || inwards ? f.max_finite() : f.infinity());
  return sign | uint32_t(code);
}

// The value of a code: exact. NaN codes give a quiet NaN.
constexpr double decode(uint32_t code, const FloatFormat& f) {
  const uint32_t magnitude = code & f.magnitude_mask();
  const bool negative = code & f.sign_bit();
  if (f.top == FloatFormat::Top::ieee && magnitude >= f.infinity())
    return std::bit_cast<double>((uint64_t(negative) << 63) |
                                 (magnitude > f.infinity() ? 0x7ff8000000000000 : 0x7ff0000000000000));
  if (f.top == FloatFormat::Top::one_nan && magnitude == f.magnitude_mask())
    return std::bit_cast<double>(uint64_t(0x7ff8000000000000));
  const uint32_t field = magnitude >> f.mantissa_bits;
  const uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  const uint64_t significand = field ? mantissa | 1u << f.mantissa_bits : mantissa;
  const int exponent = int(field ? field : 1) - f.bias - f.mantissa_bits;
  const double value =
      double(significand) * std::bit_cast<double>(uint64_t(exponent + 1023) << 52);  // a normal power of two
  return negative ? -value : value;
}

// a + b with the last bit of the result made odd when the sum is not exact (a and b finite, no overflow):
// rounding that again to a format of at most 51 bits gives the correctly rounded sum in any mode.
inline double add_to_odd(double a, double b) {
  const double sum = a + b;
  const double a_part = sum - b, b_part = sum - a_part;
  const double error = (a - a_part) + (b - b_part);
  uint64_t bits = std::bit_cast<uint64_t>(sum);
  if (error == 0 || error != error || bits & 1) return sum;
  // The exact sum lies between sum and its neighbour on the error's side; the odd one of the two stands for
  // it.
  bits += (error > 0) == (sum > 0) ? 1 : -1;
  return std::bit_cast<double>(bits);
}

}  // namespace fp4lab::emu
