// Products of 8-bit integers, with sums in 32 bits.
#include <immintrin.h>

#include <algorithm>

#include "emulator/engine/mma_float.h"
#include "fp4lab/simd.h"

namespace fp4lab::emu {

namespace {

constexpr uint32_t kChunk = 32;  // rows handled at a time

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
