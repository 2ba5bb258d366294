// The panel kernels for AVX-512 with VNNI: 16 columns to a vector.
#include <cstring>

#include "fp4lab/portable.h"
#include "numerics/mma_panel.h"
#include "numerics/scale_table.h"

// g++ 12's own AVX-512 headers start from registers that they leave undefined on purpose, and warn about it.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")
#include <immintrin.h>

#define FP4LAB_INLINE static inline __attribute__((always_inline))

namespace fp4lab::avx512 {
namespace {

struct V {
  static constexpr int kWidth = 16;
  using F = __m512;
  using I = __m512i;
  struct D {
    __m512d low, high;
  };
  FP4LAB_INLINE F set1(float v) { return _mm512_set1_ps(v); }
  FP4LAB_INLINE I set1(std::int32_t v) { return _mm512_set1_epi32(v); }
  FP4LAB_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
  FP4LAB_INLINE I load(const std::int32_t* p) { return _mm512_loadu_si512(p); }
  FP4LAB_INLINE void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  FP4LAB_INLINE void store(std::int32_t* p, I v) { _mm512_storeu_si512(p, v); }
  FP4LAB_INLINE D load_double(const double* p) { return {_mm512_loadu_pd(p), _mm512_loadu_pd(p + 8)}; }
  FP4LAB_INLINE void store_double(double* p, D v) {
    _mm512_storeu_pd(p, v.low);
    _mm512_storeu_pd(p + 8, v.high);
  }
  FP4LAB_INLINE D zero_double() { return {_mm512_setzero_pd(), _mm512_setzero_pd()}; }
  FP4LAB_INLINE F as_float(I v) { return _mm512_castsi512_ps(v); }
  FP4LAB_INLINE F bit_and(F a, F b) { return _mm512_and_ps(a, b); }
  FP4LAB_INLINE F bit_or(F a, F b) { return _mm512_or_ps(a, b); }
  FP4LAB_INLINE F bit_andnot(F not_a, F b) { return _mm512_andnot_ps(not_a, b); }
  FP4LAB_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
  FP4LAB_INLINE I add(I a, I b) { return _mm512_add_epi32(a, b); }
  FP4LAB_INLINE D add(D a, D b) { return {_mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high)}; }
  FP4LAB_INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  FP4LAB_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  FP4LAB_INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }
  FP4LAB_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  FP4LAB_INLINE D fma(D a, D b, D c) {
    return {_mm512_fmadd_pd(a.low, b.low, c.low), _mm512_fmadd_pd(a.high, b.high, c.high)};
  }
  FP4LAB_INLINE F select_less(F a, F b, F yes, F no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  FP4LAB_INLINE F to_float(I v) { return _mm512_cvtepi32_ps(v); }
  FP4LAB_INLINE I to_int(F v) { return _mm512_cvtps_epi32(v); }
  FP4LAB_INLINE D to_double(F v) {
    return {_mm512_cvtps_pd(_mm512_castps512_ps256(v)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1))};
  }
  FP4LAB_INLINE D to_double(I v) {
    return {_mm512_cvtepi32_pd(_mm512_castsi512_si256(v)),
            _mm512_cvtepi32_pd(_mm512_extracti32x8_epi32(v, 1))};
  }
  FP4LAB_INLINE F round(D v) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(v.low)), _mm512_cvtpd_ps(v.high), 1);
  }
  // Lanes whose |c| is 0 or in [low, high), as float patterns.
  FP4LAB_INLINE std::uint32_t in_window(F c, I low, I high) {
    const I magnitude = _mm512_and_si512(_mm512_castps_si512(c), _mm512_set1_epi32(0x7FFFFFFF));
    const __mmask16 inside =
        _mm512_mask_cmplt_epi32_mask(_mm512_cmpge_epi32_mask(magnitude, low), magnitude, high);
    return inside | _mm512_testn_epi32_mask(magnitude, magnitude);
  }
  FP4LAB_INLINE bool all_in_window(F c, I low, I high) { return in_window(c, low, high) == 0xFFFF; }

  struct Dot {
    I sum;
    __attribute__((always_inline)) void start(I bias) { sum = bias; }
    __attribute__((always_inline)) void add(I columns, I row) {
      sum = _mm512_dpbusd_epi32(sum, columns, row);
    }
    __attribute__((always_inline)) I finish() { return sum; }
  };
};

}  // namespace

#include "numerics/mma_kernels.inl"

}  // namespace fp4lab::avx512
#pragma GCC pop_options
