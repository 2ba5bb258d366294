#include "emulator/engine/mma_float.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "emulator/engine/mma_float_detail.h"
#include "fp4lab/half.h"
#include "fp4lab/simd.h"

namespace fp4lab::emu {

namespace {

constexpr int kZeroExponent = -1000;  // zeros have no say in the common exponent
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

}  // namespace

namespace {

struct Decoded {
  int32_t significand, exponent;
};

Decoded decode_bits(const Layout& l, uint32_t bits) {
  const uint32_t e = bits >> l.mantissa_bits & ((1u << l.exponent_bits) - 1),
                 m = bits & ((1u << l.mantissa_bits) - 1);
  const int32_t magnitude = static_cast<int32_t>(e ? m | 1u << l.mantissa_bits : m);
  return {bits >> (l.mantissa_bits + l.exponent_bits) & 1 ? -magnitude : magnitude,
          magnitude == 0 ? kZeroExponent : static_cast<int32_t>(e ? e : 1) - l.bias};
}

// All codes of a format of up to 8 bits.
const std::array<Decoded, 256>& narrow_table(ElementFormat f) {
  static const auto tables = [] {
    std::array<std::array<Decoded, 256>, 8> t{};
    for (int i = 3; i < 8; ++i)
      for (uint32_t b = 0; b < 256; ++b) {
        const Layout& l = kLayouts[i];
        t[i][b] = decode_bits(l, b & ((2u << (l.mantissa_bits + l.exponent_bits)) - 1));
      }
    return t;
  }();
  return tables[static_cast<size_t>(f)];
}

// Contiguous in and out, so that it becomes vector code. True when some element is Inf or NaN.
template <class Word, int kDrop>
__attribute__((always_inline)) inline bool decode_row(const Layout& l, const std::byte* bytes, uint32_t count,
                                                      int32_t* significand, int32_t* exponent) {
  const uint32_t e_mask = (1u << l.exponent_bits) - 1, m_mask = (1u << l.mantissa_bits) - 1;
  const int sign = l.mantissa_bits + l.exponent_bits, m_bits = l.mantissa_bits, bias = l.bias;
  uint32_t special = 0;
  for (uint32_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, bytes + i * sizeof(Word), sizeof(Word));
    const uint32_t bits = static_cast<uint32_t>(word) >> kDrop;
    const uint32_t e = bits >> m_bits & e_mask, m = bits & m_mask;
    const int32_t magnitude = static_cast<int32_t>(m | (e ? m_mask + 1 : 0));
    const int32_t negative = -static_cast<int32_t>(bits >> sign & 1);
    significand[i] = (magnitude ^ negative) - negative;
    exponent[i] = magnitude == 0 ? kZeroExponent : static_cast<int32_t>(e ? e : 1) - bias;
    special |= e == e_mask;
  }
  return special;
}
__attribute__((target_clones("arch=x86-64-v4", "avx2", "default"))) bool decode_row_16(
    const Layout& l, const std::byte* bytes, uint32_t count, int32_t* significand, int32_t* exponent) {
  return decode_row<uint16_t, 0>(l, bytes, count, significand, exponent);
}
// tf32: the low 13 bits of a word do not take part.
__attribute__((target_clones("arch=x86-64-v4", "avx2", "default"))) bool decode_row_32(
    const Layout& l, const std::byte* bytes, uint32_t count, int32_t* significand, int32_t* exponent) {
  return decode_row<uint32_t, 13>(l, bytes, count, significand, exponent);
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

}  // namespace

ElementFormat element_format(Type t) {
  switch (t) {
    case Type::f16:
      return ElementFormat::f16;
    case Type::bf16:
      return ElementFormat::bf16;
    case Type::tf32:
      return ElementFormat::tf32;
    case Type::e4m3:
      return ElementFormat::e4m3;
    case Type::e5m2:
      return ElementFormat::e5m2;
    case Type::s8:
      return ElementFormat::s8;
    default:
      return ElementFormat::u8;
  }
}

float element_value(ElementFormat f, uint32_t bits) {
  if (f == ElementFormat::u8) return static_cast<uint8_t>(bits);
  if (f == ElementFormat::s8) return static_cast<int8_t>(bits);
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

void MmaElements::decode(ElementFormat f, const std::byte* bytes, uint32_t row_count, uint32_t k_count,
                         bool negate) {
  rows = row_count, k = k_count, negated = negate;
  significand.resize(size_t(rows) * k);
  exponent.resize(size_t(rows) * k);
  special.assign(rows, 0);
  raw.assign(bytes, bytes + size_t(rows) * k * bytes_of(f));
  any_special = false;
  absent.clear();
  const size_t count = size_t(rows) * k;
  if (f == ElementFormat::u8 || f == ElementFormat::s8) {
    for (size_t i = 0; i < count; ++i) {
      const uint8_t b = static_cast<uint8_t>(bytes[i]);
      significand[i] = f == ElementFormat::u8 ? b : static_cast<int8_t>(b);
    }
    return;
  }
  const Layout& l = kLayouts[static_cast<int>(f)];
  fraction = l.mantissa_bits;
  const unsigned size = bytes_of(f);
  if (size > 1) {
    const auto decode_all = size == 4 ? decode_row_32 : decode_row_16;
    // All at once; which row has the special values is looked for only when there are some.
    if (decode_all(l, bytes, static_cast<uint32_t>(count), significand.data(), exponent.data()))
      for (uint32_t r = 0; r < rows; ++r)
        special[r] = decode_all(l, bytes + size_t(r) * k * size, k, &significand[size_t(r) * k],
                                &exponent[size_t(r) * k]);
  } else {
    const auto& table = narrow_table(f);
    for (uint32_t r = 0; r < rows; ++r)
      for (size_t i = size_t(r) * k; i < size_t(r + 1) * k; ++i) {
        const uint8_t b = static_cast<uint8_t>(bytes[i]);
        significand[i] = table[b].significand, exponent[i] = table[b].exponent;
        if (is_special(f, b)) special[r] = 1;
      }
  }
  if (negate)
    for (int32_t& s : significand) s = -s;
  for (uint8_t s : special) any_special |= s != 0;
}

namespace {

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

namespace {

// Two neighbouring elements along K in a word: 8-bit integers, signed or not, fit in 16 bits, and their
// products' sums in 32 for any K of an instruction.
uint32_t pair_of(const int32_t* two) {
  return static_cast<uint16_t>(two[0]) | static_cast<uint32_t>(two[1]) << 16;
}

// kChunk rows of A, as [k / 2][kChunk] pairs, with one column of B.
void dot_products(const uint32_t* a, const uint32_t* b, uint32_t pairs, int32_t* sum) {
  std::fill_n(sum, kChunk, 0);
  for (uint32_t k = 0; k < pairs; ++k)
    for (uint32_t m = 0; m < kChunk; ++m) {
      const uint32_t x = a[k * kChunk + m], y = b[k];
      sum[m] += static_cast<int16_t>(x) * static_cast<int16_t>(y) +
                static_cast<int16_t>(x >> 16) * static_cast<int16_t>(y >> 16);
    }
}
__attribute__((target("avx2"))) void dot_products_avx2(const uint32_t* a, const uint32_t* b, uint32_t pairs,
                                                       int32_t* sum) {
  static_assert(kChunk == 32);
  __m256i total[4] = {};
  for (uint32_t k = 0; k < pairs; ++k) {
    const __m256i y = _mm256_set1_epi32(static_cast<int>(b[k]));
    for (int i = 0; i < 4; ++i) {
      const auto* x = reinterpret_cast<const __m256i*>(a + k * kChunk + 8 * i);
      total[i] = _mm256_add_epi32(total[i], _mm256_madd_epi16(_mm256_loadu_si256(x), y));
    }
  }
  for (int i = 0; i < 4; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(sum + 8 * i), total[i]);
}

}  // namespace

void mma_int(const IntMma& f) {
  const MmaElements &a = *f.a, &b = *f.b;
  static const bool avx2 = best_simd() >= Simd::kAvx2;
  const uint32_t pairs = a.k / 2;
  thread_local std::vector<uint32_t> columns, b_pairs;
  columns.assign(size_t(pairs) * kChunk, 0), b_pairs.resize(size_t(pairs) * b.rows);
  for (size_t i = 0; i < b_pairs.size(); ++i) b_pairs[i] = pair_of(&b.significand[2 * i]);
  int32_t sum[kChunk];
  for (uint32_t m0 = 0; m0 < a.rows; m0 += kChunk) {
    const uint32_t rows = std::min(kChunk, a.rows - m0);
    for (uint32_t m = 0; m < rows; ++m)
      for (uint32_t k = 0; k < pairs; ++k)
        columns[k * kChunk + m] = pair_of(&a.significand[size_t(m0 + m) * a.k + 2 * k]);
    for (uint32_t n = 0; n < b.rows; ++n) {
      (avx2 ? dot_products_avx2 : dot_products)(columns.data(), &b_pairs[size_t(n) * pairs], pairs, sum);
      for (uint32_t m = 0; m < rows; ++m) {
        uint32_t& d = f.d[n * f.column_stride + (m0 + m) * f.row_stride];
        int64_t total = sum[m] + int64_t(f.accumulate ? static_cast<int32_t>(d) : 0);
        if (f.saturate) total = std::clamp<int64_t>(total, INT32_MIN, INT32_MAX);
        d = static_cast<uint32_t>(total);
      }
    }
  }
}

}  // namespace fp4lab::emu
