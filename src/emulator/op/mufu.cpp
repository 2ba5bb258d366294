#include "emulator/op/mufu.h"

#include <bit>
#include <cmath>
#include <limits>

#include "emulator/op/mufu_tables.h"
#include "emulator/op/rounding.h"

namespace fp4lab::emu::mufu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kFraction = 0x7fffff, kHidden = 0x800000;
constexpr uint32_t kFraction64 = 0xfffff, kHidden64 = 0x100000;
constexpr int kPlace = 17;  // bits of an argument's place within its segment

uint32_t bits_of(float v) { return std::bit_cast<uint32_t>(v); }
float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }
float nan() { return float_of(kNan32); }

// x^2 / 2^19 for 17 bits of x, as the unit's squarer computes it: each partial product x_i 2^i x is truncated
// below bit 18 before the sum. With x = 2^9 a + b that is a^2 and twice the rows of a times b.
uint32_t square(uint32_t x) {
  const uint32_t a = x >> 9, b = x & 0x1ff;
  uint32_t rows = 0;
  for (int j = 0; j < 8; ++j) rows += (0 - (a >> j & 1)) & (b >> (9 - j));
  return (a * a >> 1) + rows;
}

// A table's quadratic at an argument: the segment's number, then 17 bits of the place in it. The shifts scale
// C0 and the last term to C1 times the place; they depend on the function.
int64_t quadratic(const Segment* table, uint32_t argument, int shift0, int shift2) {
  const Segment& s = table[argument >> kPlace];
  const uint32_t x = argument & ((1u << kPlace) - 1);
  return (int64_t(s.c0) << shift0) + int64_t(s.c1) * x + ((int64_t(s.c2) * square(x)) << shift2);
}

// 1 / m and 1 / sqrt(m) with the rounding constants that precede the shift to 24 bits (f64: 21).
int64_t reciprocal(uint32_t fraction) { return quadratic(kReciprocal, fraction << 1, 14, 1) + 0x8fce; }
int64_t reciprocal_root(uint32_t odd_and_fraction) {
  return quadratic(kReciprocalRoot, odd_and_fraction, 14, 2) + 0x7fff;
}

// A significand with its leading bit, or the next power of two, at this biased exponent; flushed.
float assemble(uint32_t sign, int exponent, int64_t significand) {
  const int64_t bits = (int64_t(exponent) << 23) + significand - kHidden;
  return float_of(sign | (bits < kHidden ? 0 : uint32_t(bits)));
}

// magnitude / 2^scale, truncated to 24 bits.
float truncated(uint32_t sign, uint64_t magnitude, int scale) {
  if (magnitude == 0) return float_of(sign);
  const int top = 63 - std::countl_zero(magnitude);
  const uint64_t significand = top >= 23 ? magnitude >> (top - 23) : magnitude << (23 - top);
  return assemble(sign, 127 + top - scale, int64_t(significand));
}

// The fields of a float as the functions see them: sign, biased exponent, fraction; denormals are zeros.
struct Parts {
  uint32_t sign, fraction;
  int exponent;
  bool zero, infinite, nan;
  explicit Parts(float v)
      : sign(bits_of(v) & 0x80000000),
        fraction(bits_of(v) & kFraction),
        exponent(int(bits_of(v) >> 23 & 255)),
        zero(exponent == 0),
        infinite(exponent == 255 && fraction == 0),
        nan(exponent == 255 && fraction != 0) {}
  // 2^23 m, or 2^24 m for an odd power of two: the argument of the square roots, whose result has half of the
  // even power.
  uint32_t odd_and_fraction() const { return fraction | (uint32_t(exponent - 127) & 1) << 23; }
  int half() const { return (exponent - 127) >> 1; }
};

}  // namespace

float rcp(float v) {
  const Parts a(v);
  if (a.nan) return nan();
  if (a.infinite) return float_of(a.sign);
  if (a.zero) return float_of(a.sign | bits_of(kInfinity));
  return assemble(a.sign, 2 * 127 - a.exponent - 1, reciprocal(a.fraction) >> 16);
}

float rsq(float v) {
  const Parts a(v);
  if (a.nan) return nan();
  if (a.zero) return float_of(a.sign | bits_of(kInfinity));
  if (a.sign) return nan();
  if (a.infinite) return 0;
  const uint32_t m = a.odd_and_fraction();
  if (m == 0) return assemble(0, 127 - a.half(), kHidden);  // the table's 1 is a little less
  return assemble(0, 127 - a.half() - 1, reciprocal_root(m) >> 16);
}

float sqrt(float v) {
  const Parts a(v);
  if (a.nan) return nan();
  if (a.zero) return float_of(a.sign);
  if (a.sign) return nan();
  if (a.infinite) return kInfinity;
  return assemble(0, 127 + a.half(), (quadratic(kRoot, a.odd_and_fraction(), 15, 1) + 0x7fff) >> 17);
}

namespace {

// A sine of 23 bits of a quarter turn, counted from `quarter`.
float sine_of(uint32_t sign, uint32_t quarter, uint32_t fraction) {
  if (quarter & 1) fraction = ~fraction & kFraction;  // the falling quarters, in one's complement
  if (quarter & 2) sign ^= 0x80000000;
  return truncated(sign, uint64_t(quadratic(kSine, fraction, 11, 0)), 37);
}

// turns| modulo 1 in quarters with 23 fraction bits, truncated.
uint32_t quarters(const Parts& turns) {
  const int shift = turns.exponent - 127 + 2;
  const uint32_t m = turns.fraction | kHidden;
  return (shift >= 25 ? 0 : shift >= 0 ? m << shift : shift > -24 ? m >> -shift : 0) & 0x1ffffff;
}

}  // namespace

float sin(float turns) {
  const Parts a(turns);
  if (a.nan || a.infinite) return nan();
  const uint32_t q = quarters(a);
  return sine_of(a.sign, q >> 23, q & kFraction);
}

float cos(float turns) {
  const Parts a(turns);
  if (a.nan || a.infinite) return nan();
  const uint32_t q = quarters(a);
  return sine_of(0, (q >> 23) + 1, q & kFraction);
}

float ex2(float v) {
  const Parts a(v);
  if (a.nan) return nan();
  if (a.exponent >= 127 + 7) return a.sign ? 0 : kInfinity;
  const int shift = a.exponent - 127;
  const uint32_t m = a.fraction | kHidden;
  // a| with 23 fraction bits, truncated; a negative one becomes its floor and the rest.
  const int32_t fixed = int32_t(shift >= 0 ? m << shift : shift > -24 ? m >> -shift : 0);
  int floor = fixed >> 23;
  uint32_t fraction = uint32_t(fixed) & kFraction;
  if (a.sign) {
    floor = fraction ? -floor - 1 : -floor;
    if (fraction) fraction = ~fraction & kFraction;  // one's complement
  }
  if (floor >= 128) return kInfinity;
  return assemble(0, 127 + floor, (quadratic(kExponential, fraction, 13, 0) + 0x77e2) >> 15);
}

float lg2(float v) {
  const Parts a(v);
  if (a.nan) return nan();
  if (a.zero) return -kInfinity;
  if (a.sign) return nan();
  if (a.infinite) return kInfinity;
  constexpr int kScale = 36;
  int64_t log = 0;
  if (a.fraction || a.exponent != 127) log = (quadratic(kLogarithm, a.fraction, 12, 1) + 0x3345) >> 2;
  log += int64_t(a.exponent - 127) * (int64_t(1) << kScale);
  return log < 0 ? truncated(0x80000000, uint64_t(~log), kScale) : truncated(0, uint64_t(log), kScale);
}

float tanh(float v) {
  const Parts a(v);
  if (a.nan) return nan();
  const int binade = a.exponent - 127;
  if (binade >= 3) return float_of(a.sign | bits_of(1.f));
  constexpr int kLowest = -8;
  if (binade < kLowest) return v;
  // log2 of the number of segments in each binade from 2^-8 to 2^2, and where the first one begins.
  constexpr uint8_t kSegments[] = {0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3};
  constexpr uint8_t kFirst[] = {0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43};
  const int row = binade - kLowest;
  const uint32_t argument =
      (uint32_t(kFirst[row]) << kPlace) + (a.fraction >> (23 - kPlace - kSegments[row]));
  return truncated(a.sign, uint64_t(quadratic(kHyperbolic, argument, 13, 1)), 39);
}

namespace {

uint32_t assemble64(uint32_t sign, int exponent, int64_t significand) {
  const int64_t bits = (int64_t(exponent) << 20) + significand - kHidden64;
  return sign | (bits < kHidden64 ? 0 : uint32_t(bits));
}

constexpr uint32_t kInfinity64 = 0x7ff00000;

}  // namespace

uint32_t rcp64h(uint32_t high) {
  const uint32_t sign = high & 0x80000000, fraction = high & kFraction64;
  const int exponent = int(high >> 20 & 0x7ff);
  if (exponent == 0x7ff) return fraction ? kNan32 : sign;
  if (exponent == 0) return sign | kInfinity64;
  return assemble64(sign, 2 * 1023 - exponent - 1, reciprocal(fraction << 3) >> 19);
}

uint32_t rsq64h(uint32_t high) {
  const uint32_t sign = high & 0x80000000, fraction = high & kFraction64;
  const int exponent = int(high >> 20 & 0x7ff);
  if (exponent == 0x7ff && fraction) return kNan32;
  if (exponent == 0) return sign | kInfinity64;
  if (sign) return kNan32;
  if (exponent == 0x7ff) return 0;
  const int power = exponent - 1023;
  const uint32_t m = fraction << 3 | (uint32_t(power) & 1) << 23;
  if (m == 0) return assemble64(0, 1023 - (power >> 1), kHidden64);
  return assemble64(0, 1023 - (power >> 1) - 1, reciprocal_root(m) >> 19);
}

}  // namespace fp4lab::emu::mufu
