// A sum of up to 63 bits is first cut to fp32's 24 bits, and the last bit kept is set if anything was cut off
// ("round to odd"). What was cut can then only have decided which side of a tie the value is on, and that bit
// remembers it; so the rounding to fp16, which has at least two bits less, is the only one that counts.
#include "numerics/half_bulk.h"

#include <algorithm>
#include <bit>

#include "fp4lab/half.h"

// g++ 12's own AVX-512 headers start from registers that they leave undefined on purpose, and warn about it.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

namespace fp4lab {
namespace {

float power_of_two(int exponent) { return std::bit_cast<float>(std::uint32_t(127 + exponent) << 23); }

std::uint16_t one_half(std::int64_t sum, int exponent) {
  const std::uint64_t magnitude = sum < 0 ? -std::uint64_t(sum) : std::uint64_t(sum);
  const int shift = std::max(0, 40 - std::countl_zero(magnitude | 1));
  const std::uint64_t kept = (magnitude >> shift) | ((magnitude & ((std::uint64_t(1) << shift) - 1)) != 0);
  const float value = float(kept) * power_of_two(shift) * power_of_two(exponent);
  return half_from_float(sum < 0 ? -value : value);
}

__attribute__((target("avx512f,avx512dq,avx512vl,f16c"))) std::size_t eights_avx512(const std::int64_t* sums,
                                                                                    std::size_t count,
                                                                                    int exponent,
                                                                                    std::uint16_t* out) {
  const __m256 scale = _mm256_set1_ps(power_of_two(exponent));
  constexpr int kTowardZero = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m512i sum = _mm512_loadu_si512(sums + i);
    __m512d wide = _mm512_cvt_roundepi64_pd(sum, kTowardZero);
    const __mmask8 cut = _mm512_cmpneq_epi64_mask(_mm512_cvttpd_epi64(wide), sum);
    const __m512i bits = _mm512_castpd_si512(wide);
    wide = _mm512_castsi512_pd(_mm512_mask_or_epi64(bits, cut, bits, _mm512_set1_epi64(1)));
    const __m256 narrow = _mm512_cvt_roundpd_ps(wide, kTowardZero);
    const __mmask8 cut_again = _mm512_cmp_pd_mask(_mm512_cvtps_pd(narrow), wide, _CMP_NEQ_OQ);
    __m256i odd = _mm256_castps_si256(narrow);
    odd = _mm256_mask_or_epi32(odd, cut_again, odd, _mm256_set1_epi32(1));
    const __m256 value = _mm256_mul_ps(_mm256_castsi256_ps(odd), scale);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}

}  // namespace

void halves_from_fixed(const std::int64_t* sums, std::size_t count, int exponent, std::uint16_t* out,
                       Simd simd) {
  std::size_t i = simd >= Simd::kAvx512 ? eights_avx512(sums, count, exponent, out) : 0;
  for (; i < count; ++i) out[i] = one_half(sums[i], exponent);
}

}  // namespace fp4lab
