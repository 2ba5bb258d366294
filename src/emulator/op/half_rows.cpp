#include "emulator/op/half_rows.h"

#include <immintrin.h>

#include <cstring>

#define FP4LAB_F16C __attribute__((target("avx2,f16c")))

namespace fp4lab::emu {

namespace {

constexpr unsigned kHalves = 64;

template <bool kBfloat>
FP4LAB_F16C inline __m256 widen(__m128i halves) {
  if constexpr (kBfloat)
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  else
    return _mm256_cvtph_ps(halves);
}

template <bool kBfloat>
FP4LAB_F16C inline __m128i narrow(__m256 v) {
  const __m256i unordered = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m128i nan =
      _mm_packs_epi32(_mm256_castsi256_si128(unordered), _mm256_extracti128_si256(unordered, 1));
  __m128i h;
  if constexpr (kBfloat) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff))), 16);
    h = _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
  } else {
    h = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  return _mm_blendv_epi8(h, _mm_set1_epi16(0x7fff), nan);
}

// x + y in fp32, rounded to odd: toward zero, with the last bit set if the sum is inexact. Rounding that to
// 11 or 8 bits equals a single rounding (24 >= 11 + 2; Boldo and Melquiond, "When double rounding is odd").
FP4LAB_F16C inline __m256 add_odd(__m256 x, __m256 y) {
  const __m256 sum = _mm256_add_ps(x, y), back = _mm256_sub_ps(sum, x);
  // Knuth's TwoSum: sum + lost = x + y exactly. NaN if the sum is not finite: nothing is lost then.
  const __m256 lost = _mm256_add_ps(_mm256_sub_ps(x, _mm256_sub_ps(sum, back)), _mm256_sub_ps(y, back));
  const __m256i inexact = _mm256_castps_si256(_mm256_cmp_ps(lost, _mm256_setzero_ps(), _CMP_NEQ_OQ));
  const __m256i bits = _mm256_castps_si256(sum);
  const __m256i away = _mm256_srai_epi32(_mm256_xor_si256(bits, _mm256_castps_si256(lost)), 31);
  const __m256i odd = _mm256_or_si256(_mm256_add_epi32(bits, away), _mm256_set1_epi32(1));  // away is -1 or 0
  return _mm256_castsi256_ps(_mm256_blendv_epi8(bits, odd, inexact));
}

// Whether every product of bf16 values has a factor 0, or a magnitude at which neither it nor a sum with it
// is rounded early. f16 products always have. A product that underflows to 0 still gives its sum a sign.
FP4LAB_F16C inline bool in_range(__m256 a, __m256 b, __m256 product) {
  const __m256 zero = _mm256_setzero_ps(), size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), product);
  const __m256 vanishes =
      _mm256_or_ps(_mm256_cmp_ps(a, zero, _CMP_EQ_OQ), _mm256_cmp_ps(b, zero, _CMP_EQ_OQ));
  const __m256 good =
      _mm256_or_ps(vanishes, _mm256_and_ps(_mm256_cmp_ps(size, _mm256_set1_ps(0x1p-100f), _CMP_GE_OQ),
                                           _mm256_cmp_ps(size, _mm256_set1_ps(0x1p126f), _CMP_LE_OQ)));
  return _mm256_movemask_ps(good) == 0xff;
}

template <HalfOp kOp, bool kBfloat>
FP4LAB_F16C bool rows(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* d, uint32_t keep) {
  uint32_t out[kHalves / 2];
  for (unsigned i = 0; i < kHalves / 2; i += 4) {
    const auto in = [i](const uint32_t* row) FP4LAB_F16C {
      return widen<kBfloat>(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + i)));
    };
    __m256 v;
    if constexpr (kOp == HalfOp::add) {
      v = add_odd(in(a), in(b));
    } else if constexpr (kOp == HalfOp::sub) {
      v = add_odd(in(a), _mm256_xor_ps(in(b), _mm256_set1_ps(-0.0f)));
    } else {
      v = _mm256_mul_ps(in(a), in(b));
      if (kBfloat && !in_range(in(a), in(b), v)) return false;
      if constexpr (kOp == HalfOp::fma) v = add_odd(v, in(c));
    }
    const __m128i masked = _mm_and_si128(narrow<kBfloat>(v), _mm_set1_epi32(static_cast<int>(keep)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), masked);
  }
  std::memcpy(d, out, sizeof out);
  return true;
}

}  // namespace

template <HalfOp kOp, bool kBfloat>
bool half_rows(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* d, uint32_t keep) {
  static const bool here = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return here && rows<kOp, kBfloat>(a, b, c, d, keep);
}

#define FP4LAB_ROWS(op)                                                                                    \
  template bool half_rows<HalfOp::op, false>(const uint32_t*, const uint32_t*, const uint32_t*, uint32_t*, \
                                             uint32_t);                                                    \
  template bool half_rows<HalfOp::op, true>(const uint32_t*, const uint32_t*, const uint32_t*, uint32_t*,  \
                                            uint32_t);
FP4LAB_ROWS(add)
FP4LAB_ROWS(sub)
FP4LAB_ROWS(mul)
FP4LAB_ROWS(fma)
#undef FP4LAB_ROWS

}  // namespace fp4lab::emu
