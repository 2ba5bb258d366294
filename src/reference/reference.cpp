#include "fp4lab/reference.h"

#include <bit>
#include <cmath>

#include "fp4lab/error.h"
#include "fp4lab/half.h"
#include "fp4lab/ue4m3.h"
#include "reference/tiles.h"

namespace fp4lab {
namespace {

void check(const Operand& a, const Operand& b, const ReferenceOptions& options) {
  if (a.k != b.k) fail("reference: A has K {}, B has K {}", a.k, b.k);
  if (a.k > kMaxExactK)
    fail("reference: K {} is above {}, beyond which sums may leave 64 bits", a.k, kMaxExactK);
  if (!std::isfinite(options.alpha)) fail("reference: alpha is {}", options.alpha);
  for (const Operand* operand : {&a, &b})
    if (operand->codes.size() != std::size_t(operand->rows) * (operand->k / 2) ||
        operand->scales.size() != std::size_t(operand->rows) * (operand->k / kScaleBlock))
      fail("reference: an operand of {} rows x K {} holds {} code bytes and {} scale bytes", operand->rows,
           operand->k, operand->codes.size(), operand->scales.size());
}

std::vector<std::uint8_t> nan_columns(const Operand& b) {
  std::vector<std::uint8_t> nan(std::size_t(b.rows), 0);
  for (int row = 0; row < b.rows; ++row)
    for (int s = 0; s < b.scales_per_row(); ++s) nan[row] |= e4m3_is_nan(b.scale_row(row)[s]);
  return nan;
}

// alpha * sum * 2^kExactUnit, rounded once: alpha has 24 bits and the sum 63, so their product is exact in
// 128.
class Alpha {
 public:
  explicit Alpha(float alpha) {
    int exponent = 0;
    const float fraction = std::frexp(alpha, &exponent);
    significand_ = std::int64_t(std::ldexp(fraction, 24));
    exponent_ = exponent - 24 + kExactUnit;
    while (significand_ != 0 && significand_ % 2 == 0) significand_ /= 2, ++exponent_;
    one_ = alpha == 1.0f;
  }
  std::uint16_t half(std::int64_t sum) const {
    return one_ ? half_of_sum(sum) : half_from_fixed(Int128(sum) * significand_, exponent_);
  }
  float single(std::int64_t sum) const { return float_from_fixed(Int128(sum) * significand_, exponent_); }
  double rounded(std::int64_t sum) const { return std::ldexp(double(Int128(sum) * significand_), exponent_); }

 private:
  // The same for alpha 1, quickly: cut to 24 bits with the rest folded into the last one, which no longer
  // decides anything but a tie, then round once.
  static std::uint16_t half_of_sum(std::int64_t sum) {
    const std::uint64_t magnitude = sum < 0 ? -std::uint64_t(sum) : std::uint64_t(sum);
    const int shift = std::max(0, 40 - std::countl_zero(magnitude | 1));
    const std::uint64_t kept = (magnitude >> shift) | ((magnitude & ((std::uint64_t(1) << shift) - 1)) != 0);
    const float value = float(kept) * std::bit_cast<float>(std::uint32_t(127 + shift + kExactUnit) << 23);
    return half_from_float(sum < 0 ? -value : value);
  }
  std::int64_t significand_;
  int exponent_;
  bool one_;
};

// Runs finish(block, first column, columns, engine) for every tile of [rows of a][columns].
template <class Finish>
void each_tile(const PackedRows& rows, int columns, const ReferenceOptions& options, Finish finish) {
  const int width = mma_kernels(options.simd).panel;
  const std::int64_t panels = (columns + width - 1) / width;
  parallel_for(options.threads, panels * rows.blocks(), [&](std::int64_t task) {
    TileEngine engine(rows, options.simd);
    const int first = int(task / rows.blocks()) * width;
    finish(int(task % rows.blocks()), first, std::min(width, columns - first), engine);
  });
}

float nan_float() { return std::bit_cast<float>(kMmaNan); }

template <class T>
std::vector<T> gemm(const Operand& a, const Operand& b, const ReferenceOptions& options) {
  constexpr bool kHalf = sizeof(T) == 2;
  check(a, b, options);
  std::vector<T> c(std::size_t(a.rows) * b.rows);
  const PackedRows rows(a, options.simd, options.threads);
  const std::vector<std::uint8_t> nan = nan_columns(b);
  const Alpha alpha(options.alpha);
  each_tile(rows, b.rows, options, [&](int block, int first, int cols, TileEngine& engine) {
    const int height = rows.block_rows(block);
    T* out = c.data() + std::size_t(block) * kRowBlock * b.rows + first;
    if (options.rounding == Rounding::kTensorCore) {
      const float* sums = engine.tensor_core(block, b, first);
      for (int row = 0; row < height; ++row)
        for (int col = 0; col < cols; ++col) {
          float value = sums[row * engine.panel() + col];
          if (options.alpha != 1.0f && !std::isnan(value)) value *= options.alpha;
          if constexpr (kHalf)
            out[std::size_t(row) * b.rows + col] = half_from_float(value);
          else
            out[std::size_t(row) * b.rows + col] = value;
        }
      return;
    }
    const std::int64_t* sums = engine.exact(block, b, first);
    for (int row = 0; row < height; ++row)
      for (int col = 0; col < cols; ++col) {
        const bool is_nan = rows.nan(block)[row] || nan[first + col];
        const std::int64_t sum = sums[row * engine.panel() + col];
        if constexpr (kHalf)
          out[std::size_t(row) * b.rows + col] = is_nan ? kHalfNan : alpha.half(sum);
        else
          out[std::size_t(row) * b.rows + col] = is_nan ? nan_float() : alpha.single(sum);
      }
  });
  return c;
}

double silu(double x) { return x / (1.0 + std::exp(-x)); }

}  // namespace

const char* rounding_name(Rounding rounding) {
  return rounding == Rounding::kExact ? "exact" : "tensor-core";
}

std::vector<std::uint16_t> reference_gemm(const Operand& a, const Operand& b,
                                          const ReferenceOptions& options) {
  return gemm<std::uint16_t>(a, b, options);
}

std::vector<float> reference_gemm_f32(const Operand& a, const Operand& b, const ReferenceOptions& options) {
  return gemm<float>(a, b, options);
}

std::vector<std::uint16_t> reference_dual(const Operand& a, const Operand& b1, const Operand& b2,
                                          const ReferenceOptions& options) {
  check(a, b1, options);
  check(a, b2, options);
  if (b1.rows != b2.rows) fail("reference: B1 has {} rows, B2 has {}", b1.rows, b2.rows);
  std::vector<std::uint16_t> c(std::size_t(a.rows) * b1.rows);
  const PackedRows rows(a, options.simd, options.threads);
  const std::vector<std::uint8_t> nan1 = nan_columns(b1), nan2 = nan_columns(b2);
  const Alpha alpha(options.alpha);
  each_tile(rows, b1.rows, options, [&](int block, int first, int cols, TileEngine& engine) {
    const int height = rows.block_rows(block), panel = engine.panel();
    std::vector<double> x(std::size_t(height) * panel), y(x.size());
    for (auto& [values, b] : {std::pair{&x, &b1}, std::pair{&y, &b2}}) {
      if (options.rounding == Rounding::kTensorCore) {
        const float* sums = engine.tensor_core(block, *b, first);
        for (std::size_t i = 0; i < values->size(); ++i)
          (*values)[i] = options.alpha == 1.0f || std::isnan(sums[i]) ? sums[i] : sums[i] * options.alpha;
      } else {
        const std::int64_t* sums = engine.exact(block, *b, first);
        for (std::size_t i = 0; i < values->size(); ++i) (*values)[i] = alpha.rounded(sums[i]);
      }
    }
    for (int row = 0; row < height; ++row)
      for (int col = 0; col < cols; ++col) {
        const std::size_t i = std::size_t(row) * panel + col;
        const bool is_nan = rows.nan(block)[row] || nan1[first + col] || nan2[first + col];
        c[(std::size_t(block) * kRowBlock + row) * b1.rows + first + col] =
            is_nan ? kHalfNan : half_from_double(silu(x[i]) * y[i]);
      }
  });
  return c;
}

std::vector<std::vector<std::uint16_t>> reference(const Problem& problem, const ReferenceOptions& options) {
  std::vector<std::vector<std::uint16_t>> outputs;
  for (const GroupData& group : problem.groups)
    outputs.push_back(problem.spec.operation == Operation::kDual
                          ? reference_dual(group.a, group.b, group.b2, options)
                          : reference_gemm(group.a, group.b, options));
  return outputs;
}

}  // namespace fp4lab
