#include "numerics/mma_panel.h"

#include <emmintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "fp4lab/ue4m3.h"
#include "fp4lab/ue8m0.h"
#include "numerics/scale_table.h"

namespace fp4lab {

const ScaleTable& scale_table(ScaleFormat format) {
  static const auto make = [](ScaleFormat f) {
    ScaleTable table;
    for (unsigned code = 0; code < 256; ++code) {
      ScaleEntry& entry = table.entry[code];
      if (f == ScaleFormat::kUe8m0) {
        entry.nan = ue8m0_is_nan(code);
        if (entry.nan) continue;
        entry.value = entry.power = ue8m0_value(code);
        entry.lsb = entry.exponent = entry.exponent_or_127 = std::int8_t(ue8m0_exponent(code));
      } else {
        entry.nan = e4m3_is_nan(code);
        if (entry.nan) continue;
        const int significand = ue4m3_significand(code);
        entry.value = ue4m3_value(code);
        if (significand == 0) continue;
        entry.exponent = entry.exponent_or_127 = std::int8_t(ue4m3_exponent(code));
        entry.power = std::ldexp(1.0f, entry.exponent);
        entry.lsb = std::int8_t(entry.exponent - 3 + std::countr_zero(unsigned(significand)));
      }
    }
    return table;
  };
  static const ScaleTable tables[2] = {make(ScaleFormat::kUe4m3), make(ScaleFormat::kUe8m0)};
  return tables[int(format)];
}

const MmaKernels& mma_kernels(Simd simd) {
  if (simd >= Simd::kAvx512) return avx512::kKernels;
  return simd == Simd::kAvx2 ? avx2::kKernels : scalar::kKernels;
}

void MmaRange::add_scale(std::uint8_t code, ScaleFormat format) {
  const ScaleEntry& entry = scale_table(format).entry[code];
  if (entry.value == 0) return;
  lsb = std::min<int>(lsb, entry.lsb);
  top = std::max<int>(top, entry.exponent);
  bottom = std::min<int>(bottom, entry.exponent);
  scale_max = std::max(scale_max, entry.value);
}

void MmaRange::add_codes(const std::int8_t* codes, std::size_t count) {
  int largest = code_max;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(int(codes[i])));
  code_max = largest;
}

void MmaRange::add(const MmaRange& other) {
  lsb = std::min(lsb, other.lsb);
  top = std::max(top, other.top);
  bottom = std::min(bottom, other.bottom);
  scale_max = std::max(scale_max, other.scale_max);
  code_max = std::max(code_max, other.code_max);
}

MmaBound mma_bound(const MmaRange& a, const MmaRange& b, int count) {
  if (a.scale_max == 0 || b.scale_max == 0) return {0, 0};
  const int lsb = a.lsb + b.lsb - 2;  // codes are twice the value on both sides
  const double largest =
      4.0 * a.code_max * b.code_max * double(a.scale_max) * double(b.scale_max);  // 16 / 4 products
  return {lsb, std::ldexp(largest * count, -lsb)};
}

MmaRange pack_rows(const std::int8_t* codes, const std::uint8_t* scale_codes, int rows, ScaleFormat format,
                   std::int32_t* bias, float* scale, float* power, std::uint8_t* nan) {
  const ScaleTable& table = scale_table(format);
  SeenScales seen;
  __m128i largest = _mm_setzero_si128();
  for (int row = 0; row < rows; ++row) {
    nan[row] = 0;
    for (int g = 0; g < kMmaGroups; ++g) {
      const int at = row * kMmaGroups + g;
      const __m128i group = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + std::size_t(at) * 16));
      // SSE2, which every x86-64 has, works on signed bytes only after widening them.
      const __m128i low = _mm_srai_epi16(_mm_unpacklo_epi8(group, group), 8);
      const __m128i high = _mm_srai_epi16(_mm_unpackhi_epi8(group, group), 8);
      largest =
          _mm_max_epi16(largest, _mm_max_epi16(_mm_max_epi16(low, high),
                                               _mm_sub_epi16(_mm_setzero_si128(), _mm_min_epi16(low, high))));
      __m128i sum = _mm_madd_epi16(_mm_add_epi16(low, high), _mm_set1_epi16(1));
      sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
      sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
      const ScaleEntry& entry = table.entry[scale_codes[at]];
      bias[at] = -kCodeBias * _mm_cvtsi128_si32(sum);
      scale[at] = entry.value;
      power[at] = entry.power;
      nan[row] |= entry.nan;
      seen.add(entry);
    }
  }
  MmaRange range = seen.range();
  for (int shift = 0; shift < 8; ++shift) {
    range.code_max = std::max(range.code_max, _mm_extract_epi16(largest, 0));
    largest = _mm_srli_si128(largest, 2);
  }
  return range;
}

}  // namespace fp4lab
