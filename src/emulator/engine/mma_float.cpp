#include "emulator/engine/mma_float.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "fp4lab/half.h"

namespace fp4lab::emu {

namespace {

constexpr int kZeroExponent = -126;
constexpr uint32_t kNan = 0x7fffffff;

struct Layout {
  int exponent_bits, mantissa_bits, bias;
  bool infinities;  // IEEE style: the top exponent is Inf and NaN
};
constexpr Layout kLayouts[] = {
    {5, 10, 15, true},   // f16
    {8, 7, 127, true},   // bf16
    {8, 10, 127, true},  // tf32: the upper 19 bits of a word
    {4, 3, 7, false},    // e4m3: only 0x7f is NaN
    {5, 2, 15, true},    // e5m2
    {2, 3, 1, false},    // e2m3
    {3, 2, 3, false},    // e3m2
    {2, 1, 1, false},    // e2m1
};

unsigned bytes_of(ElementFormat f) {
  return f == ElementFormat::tf32 ? 4 : f == ElementFormat::f16 || f == ElementFormat::bf16 ? 2 : 1;
}

bool is_special(ElementFormat f, uint32_t bits) {
  const Layout& l = kLayouts[static_cast<int>(f)];
  if (f == ElementFormat::e4m3) return (bits & 0x7f) == 0x7f;
  if (!l.infinities) return false;
  return (bits >> l.mantissa_bits & ((1u << l.exponent_bits) - 1)) == (1u << l.exponent_bits) - 1;
}

// For the special path only.
float value_of(ElementFormat f, uint32_t bits) {
  const Layout& l = kLayouts[static_cast<int>(f)];
  const uint32_t e = bits >> l.mantissa_bits & ((1u << l.exponent_bits) - 1),
                 m = bits & ((1u << l.mantissa_bits) - 1);
  const float sign = bits >> (l.mantissa_bits + l.exponent_bits) & 1 ? -1.0f : 1.0f;
  if (is_special(f, bits))
    return m && f != ElementFormat::e4m3 ? NAN : f == ElementFormat::e4m3 ? NAN : sign * INFINITY;
  if (e == 0) return sign * std::ldexp(static_cast<float>(m), 1 - l.bias - l.mantissa_bits);
  return sign * std::ldexp(static_cast<float>(m | 1u << l.mantissa_bits),
                           static_cast<int>(e) - l.bias - l.mantissa_bits);
}

// sum * 2^(scale) toward zero to fp32, denormals kept.
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
  if (exponent < -126) return sign | mantissa;
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
  return static_cast<uint16_t>(sign | (bits >= 0x7c00 ? 0x7c00 : bits));
}

struct Accumulator {
  int64_t significand;  // 24 bits behind... an integer with 23 fraction bits (fp16: 10)
  int exponent, fraction;
  bool special;
};

Accumulator decode_c(uint32_t bits, bool half, int scale_input_d) {
  Accumulator c{};
  int e, e_max, m_bits, bias;
  uint32_t m;
  bool negative;
  if (half) {
    m_bits = 10, bias = 15, e = bits >> 10 & 31, e_max = 31, m = bits & 1023, negative = bits >> 15 & 1;
  } else {
    m_bits = 23, bias = 127, e = bits >> 23 & 255, e_max = 255, m = bits & 0x7fffff, negative = bits >> 31;
  }
  c.special = e == e_max;
  c.fraction = m_bits;
  c.significand = e ? m | 1u << m_bits : m;
  c.exponent = c.significand == 0 ? kZeroExponent : (e ? e : 1) - bias;
  if (c.significand) c.exponent -= scale_input_d;
  if (negative) c.significand = -c.significand;
  return c;
}

// Inf and NaN: the sum in the ordinary sense of IEEE special values.
uint32_t special_result(const FloatMma& f, uint32_t m, uint32_t n, uint32_t c, bool nan_scale) {
  double sum = 0;
  bool nan = nan_scale;
  if (f.accumulate) sum = f.half_output ? half_to_float(static_cast<uint16_t>(c)) : std::bit_cast<float>(c);
  for (uint32_t k = 0; k < f.a->k; ++k) {
    const double x = value_of(f.format_a, f.a->raw[k * f.a->rows + m]),
                 y = value_of(f.format_b, f.b->raw[k * f.b->rows + n]);
    sum += x * y;
  }
  nan = nan || std::isnan(sum);
  if (f.half_output) return nan ? 0x7fff : sum > 0 ? 0x7c00 : 0xfc00;
  return nan ? kNan : sum > 0 ? 0x7f800000u : 0xff800000u;
}

constexpr uint32_t kChunk = 32;  // rows handled at a time

// The alignment and sum for up to kChunk rows and one column; written so that compilers vectorise it.
__attribute__((target_clones("arch=x86-64-v4", "avx2", "default"))) void align_and_sum(
    const int32_t* a_significand, const int32_t* a_exponent, const int32_t* a_scale, uint32_t a_stride,
    const int32_t* b_significand, const int32_t* b_exponent, const int32_t* b_scale, uint32_t b_stride,
    uint32_t k_count, uint32_t rows, int left, int32_t* emax, int64_t* sum) {
  for (uint32_t k = 0; k < k_count; ++k) {
    const int32_t eb = b_exponent[k * b_stride] + (b_scale ? *b_scale : 0);
    for (uint32_t m = 0; m < rows; ++m) {
      const int32_t e = a_exponent[k * a_stride + m] + eb + (a_scale ? a_scale[m] : 0);
      emax[m] = e > emax[m] ? e : emax[m];
    }
  }
  for (uint32_t k = 0; k < k_count; ++k) {
    const int32_t eb = b_exponent[k * b_stride] + (b_scale ? *b_scale : 0), sb = b_significand[k * b_stride];
    for (uint32_t m = 0; m < rows; ++m) {
      const int32_t e = a_exponent[k * a_stride + m] + eb + (a_scale ? a_scale[m] : 0);
      const int32_t p = a_significand[k * a_stride + m] * sb;
      const int32_t shift = emax[m] - e > 31 ? 31 : emax[m] - e;
      const int32_t t = ((p < 0 ? -p : p) << left) >> shift;  // below 2^27: products lie in [0, 4)
      sum[m] += p < 0 ? -t : t;
    }
  }
}

}  // namespace

void MmaElements::decode(ElementFormat f, const std::byte* bytes, uint32_t row_count, uint32_t k_count,
                         bool negate) {
  rows = row_count, k = k_count;
  significand.resize(size_t(rows) * k);
  exponent.resize(size_t(rows) * k);
  raw.resize(size_t(rows) * k);
  special.assign(rows, 0);
  const unsigned size = bytes_of(f);
  if (f == ElementFormat::u8 || f == ElementFormat::s8) {
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t i = 0; i < k; ++i) {
        const uint8_t b = static_cast<uint8_t>(bytes[size_t(r) * k + i]);
        significand[i * rows + r] = f == ElementFormat::u8 ? b : static_cast<int8_t>(b);
      }
    return;
  }
  const Layout& l = kLayouts[static_cast<int>(f)];
  fraction = l.mantissa_bits;
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t i = 0; i < k; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, bytes + (size_t(r) * k + i) * size, size);
      if (f == ElementFormat::tf32) bits >>= 13;  // the low bits do not take part
      bits &= (2u << (l.mantissa_bits + l.exponent_bits)) - 1;
      if (negate) bits ^= 1u << (l.mantissa_bits + l.exponent_bits);
      const uint32_t e = bits >> l.mantissa_bits & ((1u << l.exponent_bits) - 1),
                     m = bits & ((1u << l.mantissa_bits) - 1);
      const int32_t magnitude = static_cast<int32_t>(e ? m | 1u << l.mantissa_bits : m);
      const size_t at = size_t(i) * rows + r;
      significand[at] = bits >> (l.mantissa_bits + l.exponent_bits) & 1 ? -magnitude : magnitude;
      exponent[at] = magnitude == 0 ? kZeroExponent : static_cast<int32_t>(e ? e : 1) - l.bias;
      raw[at] = bits;
      if (is_special(f, bits)) special[r] = 1;
    }
}

void mma_float(const FloatMma& f) {
  const MmaElements &a = *f.a, &b = *f.b;
  const int left = f.fraction_bits - a.fraction - b.fraction;
  int32_t emax[kChunk], c_exponent[kChunk];
  int64_t sum[kChunk], c_significand[kChunk];
  int c_fraction = 23;
  bool c_special[kChunk];
  for (uint32_t n = 0; n < b.rows; ++n)
    for (uint32_t m0 = 0; m0 < a.rows; m0 += kChunk) {
      const uint32_t rows = std::min(kChunk, a.rows - m0);
      for (uint32_t m = 0; m < rows; ++m) {
        Accumulator c{0, kZeroExponent, 23, false};
        if (f.accumulate)
          c = decode_c(f.d[n * f.column_stride + (m0 + m) * f.row_stride], f.half_output, f.scale_input_d);
        c_fraction = c.fraction;
        c_exponent[m] = c.exponent, c_significand[m] = c.significand, c_special[m] = c.special;
        emax[m] = f.accumulate ? c.exponent : INT32_MIN / 2;
        sum[m] = 0;
      }
      align_and_sum(a.significand.data() + m0, a.exponent.data() + m0, f.scale_a ? f.scale_a + m0 : nullptr,
                    a.rows, b.significand.data() + n, b.exponent.data() + n,
                    f.scale_b ? f.scale_b + n : nullptr, b.rows, a.k, rows, left, emax, sum);
      for (uint32_t m = 0; m < rows; ++m) {
        uint32_t& d = f.d[n * f.column_stride + (m0 + m) * f.row_stride];
        const bool nan_scale = (f.nan_a && f.nan_a[m0 + m]) || (f.nan_b && f.nan_b[n]);
        if (a.special[m0 + m] || b.special[n] || c_special[m] || nan_scale) {
          d = special_result(f, m0 + m, n, d, nan_scale);
          continue;
        }
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

void mma_int(const IntMma& f) {
  const MmaElements &a = *f.a, &b = *f.b;
  for (uint32_t n = 0; n < b.rows; ++n)
    for (uint32_t m = 0; m < a.rows; ++m) {
      uint32_t& d = f.d[n * f.column_stride + m * f.row_stride];
      int64_t sum = f.accumulate ? static_cast<int32_t>(d) : 0;
      for (uint32_t k = 0; k < a.k; ++k)
        sum += int64_t(a.significand[k * a.rows + m]) * b.significand[k * b.rows + n];
      if (f.saturate) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
      d = static_cast<uint32_t>(sum);
    }
}

}  // namespace fp4lab::emu
