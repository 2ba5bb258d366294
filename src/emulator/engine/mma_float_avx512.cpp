// The plain kinds' arithmetic with AVX-512, 16 rows at a time and bit-equal to the portable code:
// significands are small integers, so a product is exact in fp32; scalef moves it to the common exponent
// exactly, and the conversion to an integer truncates it.
// GCC 12 warns of its own intrinsics.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <vector>

#include "emulator/engine/mma_float_detail.h"

#define FP4LAB_AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))

namespace fp4lab::emu::detail {

namespace {

// Bits of fp32, toward zero, of (low + high) * 2^exponent: 8 lanes.
FP4LAB_AVX512 inline __m256i to_f32(__m512d sum, __m512d exponent) {
  const __m512d v = _mm512_scalef_pd(sum, exponent);
  const __m256 f = _mm512_cvt_roundpd_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __mmask8 over = _mm512_cmp_pd_mask(_mm512_abs_pd(v), _mm512_set1_pd(0x1p128), _CMP_GE_OQ);
  const __m256i sign =
      _mm256_and_si256(_mm256_castps_si256(f), _mm256_set1_epi32(static_cast<int>(0x80000000u)));
  return _mm256_mask_or_epi32(_mm256_castps_si256(f), over, sign, _mm256_set1_epi32(0x7f800000));
}

// kNarrow: products lie well inside fp32's range (f16, fp8, fp6, fp4 without scales), so operands are taken
// by value, and one factor brings a product to the common exponent.
template <bool kNarrow>
FP4LAB_AVX512 void multiply(const FloatMma& f) {
  const MmaElements &a = *f.a, &b = *f.b;
  const uint32_t k = a.k;
  thread_local std::vector<float> bs, be;  // [n][k]
  bs.resize(size_t(b.rows) * k), be.resize(size_t(b.rows) * k);
  for (size_t i = 0; i < bs.size(); ++i) bs[i] = static_cast<float>(b.significand[i]);
  for (uint32_t n = 0; n < b.rows; ++n) {
    const int32_t scale = f.scale_b ? f.scale_b[n] : 0;
    for (uint32_t i = 0; i < k; ++i) be[n * k + i] = static_cast<float>(b.exponent[n * k + i] + scale);
  }
  if constexpr (kNarrow)
    for (size_t i = 0; i < bs.size(); i += 16) {
      const __mmask16 lanes = static_cast<__mmask16>((1u << std::min<size_t>(16, bs.size() - i)) - 1);
      const __m512 exponent =
          _mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, &be[i]), _mm512_set1_ps(static_cast<float>(b.fraction)));
      _mm512_mask_storeu_ps(&bs[i], lanes, _mm512_scalef_ps(_mm512_maskz_loadu_ps(lanes, &bs[i]), exponent));
    }
  alignas(64) float as[64][16], ae[64][16];
  const __m512 left = _mm512_set1_ps(static_cast<float>(f.fraction_bits - a.fraction - b.fraction));
  const __m512i keep = _mm512_set1_epi32(static_cast<int>(~((1u << (23 - f.output_bits)) - 1)));
  const __m512 wide = _mm512_set1_ps(static_cast<float>(f.fraction_bits));
  // 16 terms below 2^27 fit in 32 bits; of a sparse A's 64 half are there, 16 in each half of K.
  const uint32_t half = std::max(k / 2, std::min(k, 16u));
  for (uint32_t m0 = 0; m0 < a.rows; m0 += 16) {
    const uint32_t rows = std::min(16u, a.rows - m0);
    const __mmask16 lanes = static_cast<__mmask16>((1u << rows) - 1);
    for (uint32_t i = 0; i < k; ++i) {
      for (uint32_t m = 0; m < 16; ++m) {
        const size_t at = size_t(m0 + m) * k + i;
        as[i][m] = m < rows ? static_cast<float>(a.significand[at]) : 0;
        ae[i][m] =
            m < rows ? static_cast<float>(a.exponent[at] + (f.scale_a ? f.scale_a[m0 + m] : 0)) : -2000;
      }
      if constexpr (kNarrow)
        _mm512_store_ps(
            as[i], _mm512_scalef_ps(
                       _mm512_load_ps(as[i]),
                       _mm512_sub_ps(_mm512_load_ps(ae[i]), _mm512_set1_ps(static_cast<float>(a.fraction)))));
    }
    for (uint32_t n = 0; n < b.rows; ++n) {
      uint32_t* d = f.d + n * f.column_stride + m0;
      const float *s = &bs[size_t(n) * k], *e = &be[size_t(n) * k];
      __m512 emax = _mm512_set1_ps(static_cast<float>(least_exponent(f))), c = _mm512_setzero_ps();
      if (f.accumulate) {
        const __m512i bits = _mm512_maskz_loadu_epi32(lanes, d);
        c = _mm512_castsi512_ps(bits);
        const __m512i field = _mm512_and_si512(_mm512_srli_epi32(bits, 23), _mm512_set1_epi32(255));
        const __m512i exponent = _mm512_sub_epi32(_mm512_max_epi32(field, _mm512_set1_epi32(1)),
                                                  _mm512_set1_epi32(127 + f.scale_input_d));
        const __mmask16 zero = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7fffffff));
        emax = _mm512_max_ps(
            emax, _mm512_cvtepi32_ps(_mm512_mask_mov_epi32(exponent, zero, _mm512_set1_epi32(-1000))));
      }
      for (uint32_t i = 0; i < k; ++i)
        emax = _mm512_max_ps(emax, _mm512_add_ps(_mm512_load_ps(ae[i]), _mm512_set1_ps(e[i])));
      const __m512 base = _mm512_sub_ps(left, emax);
      // An exponent this small is the accumulator's, and all products are zero then.
      const __m512 factor =
          _mm512_scalef_ps(_mm512_set1_ps(1), _mm512_sub_ps(wide, _mm512_max_ps(emax, _mm512_set1_ps(-90))));
      __m512i sum = _mm512_setzero_si512(), more = _mm512_setzero_si512();
      auto term = [&](uint32_t i) FP4LAB_AVX512 {
        const __m512 p = _mm512_mul_ps(_mm512_load_ps(as[i]), _mm512_set1_ps(s[i]));
        if constexpr (kNarrow) return _mm512_cvttps_epi32(_mm512_mul_ps(p, factor));
        const __m512 shift = _mm512_add_ps(_mm512_add_ps(_mm512_load_ps(ae[i]), _mm512_set1_ps(e[i])), base);
        return _mm512_cvttps_epi32(_mm512_scalef_ps(p, shift));
      };
      for (uint32_t i = 0; i < half; ++i) sum = _mm512_add_epi32(sum, term(i));
      for (uint32_t i = half; i < k; ++i) more = _mm512_add_epi32(more, term(i));
      if (f.accumulate) {
        const __m512 scale =
            _mm512_sub_ps(wide, _mm512_add_ps(emax, _mm512_set1_ps(static_cast<float>(f.scale_input_d))));
        more = _mm512_add_epi32(more, _mm512_cvttps_epi32(_mm512_scalef_ps(c, scale)));
      }
      const __m512 weight = _mm512_sub_ps(emax, wide);
      auto part = [&](int h) FP4LAB_AVX512 {
        const __m256i x = h ? _mm512_extracti64x4_epi64(sum, 1) : _mm512_castsi512_si256(sum);
        const __m256i y = h ? _mm512_extracti64x4_epi64(more, 1) : _mm512_castsi512_si256(more);
        const __m256 w = h ? _mm512_extractf32x8_ps(weight, 1) : _mm512_castps512_ps256(weight);
        return to_f32(_mm512_add_pd(_mm512_cvtepi32_pd(x), _mm512_cvtepi32_pd(y)), _mm512_cvtps_pd(w));
      };
      const __m512i result =
          _mm512_and_si512(_mm512_inserti64x4(_mm512_castsi256_si512(part(0)), part(1), 1), keep);
      const __mmask16 there = _mm512_test_epi32_mask(result, _mm512_set1_epi32(0x7fffffff));  // zeros are +0
      _mm512_mask_storeu_epi32(d, lanes, _mm512_maskz_mov_epi32(there, result));
    }
  }
}

bool narrow(ElementFormat f) {
  return f != ElementFormat::bf16 && f != ElementFormat::tf32 && f != ElementFormat::u8 &&
         f != ElementFormat::s8;
}

}  // namespace

FP4LAB_AVX512 void mma_f32_avx512(const FloatMma& f) {
  if (narrow(f.format_a) && narrow(f.format_b) && !f.scale_a && !f.scale_b)
    multiply<true>(f);
  else
    multiply<false>(f);
}

}  // namespace fp4lab::emu::detail
