// The panel kernels for AVX2 with FMA: 8 columns to a vector.
#include <cstring>

#include "fp4lab/portable.h"
#include "numerics/mma_panel.h"
#include "numerics/scale_table.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include <immintrin.h>

#define FP4LAB_INLINE static inline __attribute__((always_inline))

namespace fp4lab::avx2 {
namespace {

struct V {
  static constexpr int kWidth = 8;
  using F = __m256;
  using I = __m256i;
  struct D {
    __m256d low, high;
  };
  FP4LAB_INLINE F set1(float v) { return _mm256_set1_ps(v); }
  FP4LAB_INLINE I set1(std::int32_t v) { return _mm256_set1_epi32(v); }
  FP4LAB_INLINE F load(const float* p) { return _mm256_loadu_ps(p); }
  FP4LAB_INLINE I load(const std::int32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  FP4LAB_INLINE void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  FP4LAB_INLINE void store(std::int32_t* p, I v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  FP4LAB_INLINE D load_double(const double* p) { return {_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)}; }
  FP4LAB_INLINE void store_double(double* p, D v) {
    _mm256_storeu_pd(p, v.low);
    _mm256_storeu_pd(p + 4, v.high);
  }
  FP4LAB_INLINE D zero_double() { return {_mm256_setzero_pd(), _mm256_setzero_pd()}; }
  FP4LAB_INLINE F as_float(I v) { return _mm256_castsi256_ps(v); }
  FP4LAB_INLINE F bit_and(F a, F b) { return _mm256_and_ps(a, b); }
  FP4LAB_INLINE F bit_or(F a, F b) { return _mm256_or_ps(a, b); }
  FP4LAB_INLINE F bit_andnot(F not_a, F b) { return _mm256_andnot_ps(not_a, b); }
  FP4LAB_INLINE F add(F a, F b) { return _mm256_add_ps(a, b); }
  FP4LAB_INLINE I add(I a, I b) { return _mm256_add_epi32(a, b); }
  FP4LAB_INLINE D add(D a, D b) { return {_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)}; }
  FP4LAB_INLINE F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  FP4LAB_INLINE F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  FP4LAB_INLINE F max(F a, F b) { return _mm256_max_ps(a, b); }
  FP4LAB_INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  FP4LAB_INLINE D fma(D a, D b, D c) {
    return {_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
  }
  FP4LAB_INLINE F select_less(F a, F b, F yes, F no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  FP4LAB_INLINE F to_float(I v) { return _mm256_cvtepi32_ps(v); }
  FP4LAB_INLINE I to_int(F v) { return _mm256_cvtps_epi32(v); }
  FP4LAB_INLINE D to_double(F v) {
    return {_mm256_cvtps_pd(_mm256_castps256_ps128(v)), _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))};
  }
  FP4LAB_INLINE D to_double(I v) {
    return {_mm256_cvtepi32_pd(_mm256_castsi256_si128(v)),
            _mm256_cvtepi32_pd(_mm256_extracti128_si256(v, 1))};
  }
  FP4LAB_INLINE F round(D v) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(v.low)), _mm256_cvtpd_ps(v.high), 1);
  }
  // Lanes whose |c| is 0 or in [low, high), as float patterns.
  FP4LAB_INLINE std::uint32_t in_window(F c, I low, I high) {
    const I magnitude = _mm256_and_si256(_mm256_castps_si256(c), _mm256_set1_epi32(0x7FFFFFFF));
    const I inside =
        _mm256_andnot_si256(_mm256_cmpgt_epi32(low, magnitude), _mm256_cmpgt_epi32(high, magnitude));
    const I zero = _mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256());
    return std::uint32_t(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_or_si256(inside, zero))));
  }
  FP4LAB_INLINE bool all_in_window(F c, I low, I high) { return in_window(c, low, high) == 0xFF; }

  // Bytes multiply into 16-bit pair sums, at most 2 * 24 * 12 each and 2304 after four of them.
  struct Dot {
    I bias, pairs;
    __attribute__((always_inline)) void start(I b) { bias = b, pairs = _mm256_setzero_si256(); }
    __attribute__((always_inline)) void add(I columns, I row) {
      pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(columns, row));
    }
    __attribute__((always_inline)) I finish() {
      return _mm256_add_epi32(bias, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
  };
};

}  // namespace

#include "numerics/mma_kernels.inl"

}  // namespace fp4lab::avx2
#pragma GCC pop_options
