#include "numerics/tensor_core.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "fp4lab/ue4m3.h"
#include "fp4lab/ue8m0.h"
#include "numerics/mma_panel.h"

namespace fp4lab {
namespace {

// value * 2^exponent, exact.
struct Term {
  std::int64_t value;
  int exponent;
};

constexpr int kZeroExponent = -126;  // of a zero scale, and the smallest of an fp32

struct Scale {
  int significand;  // in eighths for ue4m3, 1 for ue8m0
  int exponent;
};
Scale decode(std::uint8_t code, ScaleFormat format) {
  if (format == ScaleFormat::kUe8m0) return {1, ue8m0_exponent(code)};
  const int significand = ue4m3_significand(code);
  return {significand, significand ? ue4m3_exponent(code) : kZeroExponent};
}
bool is_nan(std::uint8_t code, ScaleFormat format) {
  return format == ScaleFormat::kUe8m0 ? ue8m0_is_nan(code) : e4m3_is_nan(code);
}

// Toward zero to a multiple of 2^unit, as a count of that unit.
std::int64_t truncate(Term term, int unit) {
  const int shift = term.exponent - unit;
  if (shift >= 0) return term.value << shift;
  if (shift < -62) return 0;
  return term.value < 0 ? -(-term.value >> -shift) : term.value >> -shift;
}

// sum * 2^unit rounded toward zero to fp32.
float to_float_toward_zero(std::int64_t sum, int unit) {
  if (sum == 0) return 0.0f;
  const std::uint32_t sign = sum < 0 ? 0x80000000u : 0;
  const std::uint64_t magnitude = sum < 0 ? -std::uint64_t(sum) : std::uint64_t(sum);
  const int top = 63 - std::countl_zero(magnitude) + unit;
  if (top > 127) return std::bit_cast<float>(sign | 0x7F800000u);
  const int last = std::max(top, -126) - 23;  // exponent of the last bit kept
  const int shift = last - unit;
  const std::uint64_t kept = shift >= 64 ? 0 : shift >= 0 ? magnitude >> shift : magnitude << -shift;
  if (top < -126) return std::bit_cast<float>(sign * (kept != 0) | std::uint32_t(kept));
  return std::bit_cast<float>(sign | ((std::uint32_t(top + 126) << 23) + std::uint32_t(kept)));
}

}  // namespace

float mma_step(const int d4[kMmaGroups], const std::uint8_t sfa[kMmaGroups],
               const std::uint8_t sfb[kMmaGroups], ScaleFormat format, float c) {
  const std::uint32_t c_bits = std::bit_cast<std::uint32_t>(c);
  const std::uint32_t c_magnitude = c_bits & 0x7FFFFFFFu;
  bool nan = c_magnitude > 0x7F800000u;
  for (int g = 0; g < kMmaGroups; ++g) nan |= is_nan(sfa[g], format) || is_nan(sfb[g], format);
  if (nan) return std::bit_cast<float>(kMmaNan);
  if (c_magnitude == 0x7F800000u) return c;

  const bool denormal = c_magnitude < 0x800000u;
  const int c_exponent = denormal ? kZeroExponent : int(c_magnitude >> 23) - 127;
  const std::int64_t c_significand = denormal ? c_magnitude : (c_magnitude & 0x7FFFFFu) | 0x800000u;
  int emax = c_exponent;
  Term terms[kMmaGroups + 1];
  for (int g = 0; g < kMmaGroups; ++g) {
    const Scale a = decode(sfa[g], format), b = decode(sfb[g], format);
    const int e = a.exponent + b.exponent;
    emax = std::max(emax, e);
    // d4 counts quarters, and each ue4m3 significand counts eighths.
    terms[g] = {std::int64_t(d4[g]) * a.significand * b.significand,
                e - (format == ScaleFormat::kUe4m3 ? 8 : 2)};
  }
  terms[kMmaGroups] = {c_bits >> 31 ? -c_significand : c_significand, c_exponent - 23};
  const int unit = emax - kMmaFractionBits;
  std::int64_t sum = 0;  // at most 4 * 2^46 + 2^36
  for (const Term& term : terms) sum += truncate(term, unit);
  return to_float_toward_zero(sum, unit);
}

void mma_tile(const MmaTile& tile, Simd simd) { mma_kernels(simd).mma_tile(tile); }

void unpack_e2m1_twice(const std::uint8_t* packed, std::size_t count, std::int8_t* out, Simd simd) {
  mma_kernels(simd).unpack_e2m1_twice(packed, count, out);
}

}  // namespace fp4lab
