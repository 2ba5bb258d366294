#include "emulator/op/float_fma.h"

#include <immintrin.h>

#include "emulator/op/rounding.h"

namespace fp4lab::emu {

namespace {

__attribute__((target("avx2,fma"))) void fma_rows(const float* a, const float* b, const float* c, float* d) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(int(kNan32)));
  for (unsigned l = 0; l < kLanes; l += 8) {
    const __m256 v = _mm256_fmadd_ps(_mm256_loadu_ps(a + l), _mm256_loadu_ps(b + l), _mm256_loadu_ps(c + l));
    _mm256_storeu_ps(d + l, _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
  }
}

template <bool kVector>
void fma_f32(Warp& w, const Instr& i) {
  const auto* a = w.source<float>(i.op[1]);
  const auto* b = w.source<float>(i.op[2]);
  const auto* c = w.source<float>(i.op[3]);
  auto* d = w.target<float>(i.op[0]);
  if constexpr (kVector) {
    if (w.active == 0xffffffffu) {
      // Rows are arrays of bits; the conversion to float is the same vector load.
      fma_rows(reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b),
               reinterpret_cast<const float*>(c), reinterpret_cast<float*>(d));
      return;
    }
  }
  for_lanes(w.active, [&](unsigned l) {
    const float v = fused(from_row<float>(a[l]), from_row<float>(b[l]), from_row<float>(c[l]));
    d[l] = to_row<float>(canonical(v));
  });
}

}  // namespace

Body fma_f32_body() {
  static const bool vector = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return vector ? fma_f32<true> : fma_f32<false>;
}

}  // namespace fp4lab::emu
