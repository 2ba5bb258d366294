// The panel kernels in plain C++: for machines without AVX2, and for reading.
#include <cstring>

#include "fp4lab/e2m1.h"
#include "fp4lab/ue4m3.h"
#include "numerics/mma_panel.h"
#include "numerics/scale_table.h"

namespace fp4lab::scalar {
namespace {

constexpr int W = 8;

void mma_tile(const MmaTile& tile) {
  for (int i = 0; i < tile.m; ++i)
    for (int j = 0; j < tile.n; ++j) {
      const std::int8_t *a = tile.a + std::size_t(i) * kMmaK, *b = tile.b + std::size_t(j) * kMmaK;
      int d4[kMmaGroups] = {};
      for (int k = 0; k < kMmaK; ++k) d4[k / 16] += tile.negate ? -a[k] * b[k] : a[k] * b[k];
      float& d = tile.d[i * tile.d_stride + j];
      d = mma_step(d4, tile.sfa + i * kMmaGroups, tile.sfb + j * kMmaGroups, tile.format,
                   tile.accumulate ? d : 0.0f);
    }
}

void unpack_e2m1_twice(const std::uint8_t* packed, std::size_t count, std::int8_t* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = std::int8_t(e2m1_twice(e2m1_unpack(packed, (long long)i)));
}

void pack_panel(const std::int8_t* codes, std::ptrdiff_t stride, const std::uint8_t* scale_codes,
                std::ptrdiff_t scale_stride, int cols, ScaleFormat format, bool negate, MmaPanel& panel) {
  panel.cols = cols;
  panel.nan = 0;
  panel.range = MmaRange{};
  std::memset(panel.plain, 0, sizeof panel.plain);
  std::memset(panel.scale_codes, 0, sizeof panel.scale_codes);
  for (int col = 0; col < cols; ++col) {
    std::int8_t* plain = panel.plain + col * kMmaK;
    for (int k = 0; k < kMmaK; ++k)
      plain[k] = std::int8_t(negate ? -codes[col * stride + k] : codes[col * stride + k]);
    panel.range.add_codes(plain, kMmaK);
    for (int g = 0; g < kMmaGroups; ++g) {
      const std::uint8_t code = panel.scale_codes[col * kMmaGroups + g] = scale_codes[col * scale_stride + g];
      panel.nan |= std::uint32_t(scale_table(format).entry[code].nan) << col;
      panel.range.add_scale(code, format);
    }
  }
}

// f(row, col, d4) for every element of the step.
template <class F>
void each(const MmaRows& a, const MmaPanel& b, F f) {
  for (int row = 0; row < a.rows; ++row)
    for (int col = 0; col < W; ++col) {
      const std::int8_t *left = a.codes + std::size_t(row) * kMmaK, *right = b.plain + col * kMmaK;
      int d4[kMmaGroups] = {};
      for (int k = 0; k < kMmaK; ++k) d4[k / 16] += left[k] * right[k];
      f(row, col, d4);
    }
}

// The step's exact sum in units of 2^-20: d4 counts quarters, a ue4m3 scale counts 2^-9. NaN scales count as
// 0.
std::int64_t exact_units(const MmaRows& a, const MmaPanel& b, int row, int col, const int* d4) {
  std::int64_t sum = 0;
  for (int g = 0; g < kMmaGroups; ++g) {
    const unsigned sa = a.scale_codes[row * kMmaGroups + g], sb = b.scale_codes[col * kMmaGroups + g];
    if (e4m3_is_nan(sa) || e4m3_is_nan(sb)) continue;
    sum += std::int64_t(d4[g]) * ue4m3_fixed(sa) * ue4m3_fixed(sb);
  }
  return sum;
}

void step_tensor_core(const MmaRows& a, const MmaPanel& b, ScaleFormat format, bool accumulate, float* d,
                      std::ptrdiff_t stride) {
  each(a, b, [&](int row, int col, const int* d4) {
    float& c = d[row * stride + col];
    c = mma_step(d4, a.scale_codes + row * kMmaGroups, b.scale_codes + col * kMmaGroups, format,
                 accumulate ? c : 0.0f);
  });
}

void step_exact_int32(const MmaRows& a, const MmaPanel& b, int lsb, std::int32_t* sum) {
  each(a, b, [&](int row, int col, const int* d4) {
    sum[row * W + col] += std::int32_t(exact_units(a, b, row, col, d4) >> (lsb + 20));
  });
}

void step_exact_double(const MmaRows& a, const MmaPanel& b, double* sum) {
  each(a, b, [&](int row, int col, const int* d4) {
    sum[row * W + col] += double(exact_units(a, b, row, col, d4)) * 0x1p-20;
  });
}

}  // namespace

extern const MmaKernels kKernels = {
    W, mma_tile, unpack_e2m1_twice, pack_panel, step_tensor_core, step_exact_int32, step_exact_double};

}  // namespace fp4lab::scalar
