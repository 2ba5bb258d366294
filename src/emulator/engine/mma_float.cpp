#include "emulator/engine/mma_float.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "emulator/engine/mma_float_detail.h"
#include "fp4lab/half.h"
#include "fp4lab/simd.h"

namespace fp4lab::emu {

using detail::bytes_of, detail::kZeroExponent;

namespace {

constexpr uint32_t kNan = 0x7fffffff;

// sum * 2^(scale) toward zero to fp32, denormals kept. What vanishes is +0 whatever its sign was (seen on an
// H200).
uint32_t to_f32_rz(int64_t sum, int scale, int mantissa_bits) {
  if (sum == 0) return 0;
  const uint32_t sign = sum < 0 ? 0x80000000u : 0;
  const uint64_t magnitude = sum < 0 ? 0 - static_cast<uint64_t>(sum) : static_cast<uint64_t>(sum);
  const int top = 63 - std::countl_zero(magnitude);
  int exponent = top + scale;
  if (exponent > 127) return sign | 0x7f800000u;
  const int unit = std::max(exponent, -126) - 23;  // weight of the last fp32 bit
  const int shift = unit - scale;
  uint32_t mantissa = static_cast<uint32_t>(shift >= 64  ? 0
                                            : shift >= 0 ? magnitude >> shift
                                                         : magnitude << -shift);
  mantissa &= ~((1u << (23 - mantissa_bits)) - 1);
  if (exponent < -126) return mantissa ? sign | mantissa : 0;
  return sign | static_cast<uint32_t>(exponent + 127) << 23 | (mantissa & 0x7fffff);
}

uint16_t to_f16_rne(int64_t sum, int scale) {
  if (sum == 0) return 0;
  const uint16_t sign = sum < 0 ? 0x8000 : 0;
  const uint64_t magnitude = sum < 0 ? 0 - static_cast<uint64_t>(sum) : static_cast<uint64_t>(sum);
  const int top = 63 - std::countl_zero(magnitude);
  const int unit = std::max(top + scale, -14) - 10;
  const int shift = unit - scale;
  uint64_t kept;
  if (shift <= 0) {
    kept = magnitude << -shift;
  } else if (shift > 63) {
    kept = 0;
  } else {
    kept = magnitude >> shift;
    const uint64_t dropped = magnitude & ((uint64_t(1) << shift) - 1), half = uint64_t(1) << (shift - 1);
    kept += dropped > half || (dropped == half && (kept & 1));
  }
  const int exponent = unit + 10;  // of bit 10 of kept
  uint64_t bits = kept < 1024 ? kept : (static_cast<uint64_t>(exponent + 15) << 10) + (kept - 1024);
  if (bits == 0) return 0;
  return static_cast<uint16_t>(sign | (bits >= 0x7c00 ? 0x7c00 : bits));
}

struct Accumulator {
  int64_t significand;  // 24 bits behind... an integer with 23 fraction bits (fp16: 10)
  int exponent, fraction;
};

Accumulator decode_c(uint32_t bits, bool half, int scale_input_d) {
  Accumulator c{};
  int e, m_bits, bias;
  uint32_t m;
  bool negative;
  if (half) {
    m_bits = 10, bias = 15, e = bits >> 10 & 31, m = bits & 1023, negative = bits >> 15 & 1;
  } else {
    m_bits = 23, bias = 127, e = bits >> 23 & 255, m = bits & 0x7fffff, negative = bits >> 31;
  }
  c.fraction = m_bits;
  c.significand = e ? m | 1u << m_bits : m;
  c.exponent = c.significand == 0 ? kZeroExponent : (e ? e : 1) - bias;
  if (c.significand) c.exponent -= scale_input_d;
  if (negative) c.significand = -c.significand;
  return c;
}

constexpr uint32_t kChunk = 32;  // rows handled at a time

// The alignment and sum for up to kChunk rows, given as [k][kChunk], and one column; written so that
// compilers vectorise it.
__attribute__((target_clones("arch=x86-64-v4", "avx2", "default"))) void align_and_sum(
    const int32_t* a_significand, const int32_t* a_exponent, const int32_t* b_significand,
    const int32_t* b_exponent, int32_t b_scale, uint32_t k_count, uint32_t rows, int left, int32_t* emax,
    int64_t* sum) {
  for (uint32_t k = 0; k < k_count; ++k) {
    const int32_t eb = b_exponent[k] + b_scale;
    for (uint32_t m = 0; m < rows; ++m) {
      const int32_t e = a_exponent[k * kChunk + m] + eb;
      emax[m] = e > emax[m] ? e : emax[m];
    }
  }
  for (uint32_t k = 0; k < k_count; ++k) {
    const int32_t eb = b_exponent[k] + b_scale, sb = b_significand[k];
    for (uint32_t m = 0; m < rows; ++m) {
      const int32_t e = a_exponent[k * kChunk + m] + eb;
      const int32_t p = a_significand[k * kChunk + m] * sb;
      const int32_t shift = emax[m] - e > 31 ? 31 : emax[m] - e;
      const int32_t t = ((p < 0 ? -p : p) << left) >> shift;  // below 2^27: products lie in [0, 4)
      sum[m] += p < 0 ? -t : t;
    }
  }
}

// Element (row, i) of an operand as it was given.
float given(ElementFormat f, const MmaElements& x, uint32_t row, uint32_t i) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x.raw[(size_t(row) * x.k + i) * bytes_of(f)], bytes_of(f));
  if (f == ElementFormat::tf32) bits >>= 13;
  const float v = element_value(f, bits);
  return x.negated ? -v : v;
}

// Inf and NaN: the sum in the ordinary sense of IEEE special values. Without a value when none takes part
// after all: B's stands where a sparse A has nothing.
std::optional<uint32_t> special_result(const FloatMma& f, uint32_t m, uint32_t n, uint32_t c) {
  double sum = 0;
  if (f.accumulate) sum = f.half_output ? half_to_float(static_cast<uint16_t>(c)) : std::bit_cast<float>(c);
  for (uint32_t k = 0; k < f.a->k; ++k)
    if (f.a->absent.empty() || !f.a->absent[size_t(m) * f.a->k + k])
      sum += double(given(f.format_a, *f.a, m, k)) * given(f.format_b, *f.b, n, k);
  if (!f.a->absent.empty() && std::isfinite(sum) && !(f.nan_a && f.nan_a[m]) && !(f.nan_b && f.nan_b[n]))
    return {};
  const bool nan = (f.nan_a && f.nan_a[m]) || (f.nan_b && f.nan_b[n]) || std::isnan(sum);
  if (f.half_output) return nan ? 0x7fff : sum > 0 ? 0x7c00 : 0xfc00;
  return nan ? kNan : sum > 0 ? 0x7f800000u : 0xff800000u;
}

// Without a look at special values.
void ordinary(const FloatMma& f) {
  const MmaElements &a = *f.a, &b = *f.b;
  static const bool avx512 = best_simd() >= Simd::kAvx512;
  if (avx512 && f.vectors && !f.half_output && f.row_stride == 1) return detail::mma_f32_avx512(f);
  const int left = f.fraction_bits - a.fraction - b.fraction;
  int32_t emax[kChunk], c_exponent[kChunk];
  int64_t sum[kChunk], c_significand[kChunk];
  int c_fraction = 23;
  thread_local std::vector<int32_t> a_significand, a_exponent;  // [k][kChunk], scales included
  a_significand.assign(size_t(a.k) * kChunk, 0), a_exponent.assign(size_t(a.k) * kChunk, 0);
  for (uint32_t m0 = 0; m0 < a.rows; m0 += kChunk) {
    const uint32_t rows = std::min(kChunk, a.rows - m0);
    for (uint32_t m = 0; m < rows; ++m)
      for (uint32_t k = 0; k < a.k; ++k) {
        a_significand[k * kChunk + m] = a.significand[size_t(m0 + m) * a.k + k];
        a_exponent[k * kChunk + m] =
            a.exponent[size_t(m0 + m) * a.k + k] + (f.scale_a ? f.scale_a[m0 + m] : 0);
      }
    for (uint32_t n = 0; n < b.rows; ++n) {
      for (uint32_t m = 0; m < rows; ++m) {
        Accumulator c{0, kZeroExponent, 23};
        if (f.accumulate)
          c = decode_c(f.d[n * f.column_stride + (m0 + m) * f.row_stride], f.half_output, f.scale_input_d);
        c_fraction = c.fraction;
        c_exponent[m] = c.exponent, c_significand[m] = c.significand;
        emax[m] = std::max(c.exponent, detail::least_exponent(f));
        sum[m] = 0;
      }
      align_and_sum(a_significand.data(), a_exponent.data(), &b.significand[size_t(n) * b.k],
                    &b.exponent[size_t(n) * b.k], f.scale_b ? f.scale_b[n] : 0, a.k, rows, left, emax, sum);
      for (uint32_t m = 0; m < rows; ++m) {
        uint32_t& d = f.d[n * f.column_stride + (m0 + m) * f.row_stride];
        if (c_significand[m]) {
          const int shift = emax[m] - c_exponent[m] + c_fraction - f.fraction_bits;  // > 0: right
          const int64_t magnitude = c_significand[m] < 0 ? -c_significand[m] : c_significand[m];
          const int64_t t = shift > 62 ? 0 : shift >= 0 ? magnitude >> shift : magnitude << -shift;
          sum[m] += c_significand[m] < 0 ? -t : t;
        }
        const int scale = emax[m] - f.fraction_bits;
        d = f.half_output ? to_f16_rne(sum[m], scale) : to_f32_rz(sum[m], scale, f.output_bits);
      }
    }
  }
}

}  // namespace

void mma_float(const FloatMma& f) {
  // Where a special value takes part, the result comes from the old D before anything is overwritten.
  struct Special {
    uint32_t* at;
    uint32_t value;
  };
  thread_local std::vector<Special> specials;
  specials.clear();
  const MmaElements &a = *f.a, &b = *f.b;
  const uint32_t top = f.half_output ? 0x7c00u : 0x7f800000u;
  for (uint32_t n = 0; n < b.rows; ++n) {
    uint32_t* d = f.d + n * f.column_stride;
    bool any = a.any_special || b.special[n] || f.nan_a || f.nan_b;
    if (!any && f.accumulate) {
      uint32_t found = 0;
      for (uint32_t m = 0; m < a.rows; ++m) found |= (d[m * f.row_stride] & top) == top;
      any = found;
    }
    if (!any) continue;
    for (uint32_t m = 0; m < a.rows; ++m) {
      uint32_t& at = d[m * f.row_stride];
      if (a.special[m] || b.special[n] || (f.nan_a && f.nan_a[m]) || (f.nan_b && f.nan_b[n]) ||
          (f.accumulate && (at & top) == top))
        if (const auto value = special_result(f, m, n, at)) specials.push_back({&at, *value});
    }
  }
  ordinary(f);
  for (const Special& s : specials) *s.at = s.value;
}

}  // namespace fp4lab::emu
