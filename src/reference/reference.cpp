#include "fp4lab/reference.h"

#include <bit>
#include <cmath>

#include "fp4lab/error.h"
#include "fp4lab/half.h"
#include "numerics/half_bulk.h"
#include "reference/product.h"

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
  bool is_one() const { return one_; }
  std::uint16_t half(std::int64_t sum) const {
    return half_from_fixed(Int128(sum) * significand_, exponent_);
  }
  float single(std::int64_t sum) const { return float_from_fixed(Int128(sum) * significand_, exponent_); }
  double rounded(std::int64_t sum) const {
    if (one_) return double(sum) * 0x1p-20;
    return std::ldexp(double(Int128(sum) * significand_), exponent_);
  }

 private:
  std::int64_t significand_;
  int exponent_;
  bool one_;
};
static_assert(kExactUnit == -20);

// fp16 of a rectangle's sums for alpha 1: converted along the direction in which the sums lie, then copied to
// rows of C.
void store_halves(const Rectangle& r, const Sums<std::int64_t>& sums, Simd simd, std::uint16_t* c,
                  std::ptrdiff_t stride) {
  if (sums.col_stride == 1) {
    for (int row = 0; row < r.rows; ++row)
      halves_from_fixed(sums.data + row * sums.row_stride, std::size_t(r.cols), kExactUnit, c + row * stride,
                        simd);
    return;
  }
  constexpr int kBlock = 32;  // columns at a time: their cache lines serve the next 32 rows too
  std::vector<std::uint16_t> halves(std::size_t(kBlock) * r.rows);
  for (int first = 0; first < r.cols; first += kBlock) {
    const int cols = std::min(kBlock, r.cols - first);
    for (int col = 0; col < cols; ++col)
      halves_from_fixed(sums.data + (first + col) * sums.col_stride, std::size_t(r.rows), kExactUnit,
                        halves.data() + std::size_t(col) * r.rows, simd);
    for (int row = 0; row < r.rows; ++row)
      for (int col = 0; col < cols; ++col)
        c[row * stride + first + col] = halves[std::size_t(col) * r.rows + row];
  }
}

float nan_float() { return std::bit_cast<float>(kMmaNan); }
float times(float sum, float alpha) { return alpha == 1.0f || std::isnan(sum) ? sum : sum * alpha; }
double silu(double x) { return x / (1.0 + std::exp(-x)); }

template <class T>
std::vector<T> gemm(const Operand& a, const Operand& b, const ReferenceOptions& options) {
  constexpr bool kHalf = sizeof(T) == 2;
  check(a, b, options);
  std::vector<T> c(std::size_t(a.rows) * b.rows);
  const Alpha alpha(options.alpha);
  const Product product(a, {&b}, options);
  product.each_rectangle([&](const Rectangle& r, SumEngine& engine) {
    const auto store = [&](auto value_of) {
      for (int row = r.row; row < r.row + r.rows; ++row)
        for (int col = r.col; col < r.col + r.cols; ++col)
          c[std::size_t(row) * b.rows + col] = value_of(row, col);
    };
    if (options.rounding == Rounding::kTensorCore) {
      const Sums<float> sums = engine.tensor_core(r, 0);
      return store([&](int row, int col) -> T {
        const float value = times(sums(row - r.row, col - r.col), options.alpha);
        if constexpr (kHalf)
          return half_from_float(value);
        else
          return value;
      });
    }
    const Sums<std::int64_t> sums = engine.exact(r, 0);
    if constexpr (kHalf)
      if (alpha.is_one() && !product.any_nan())
        return store_halves(r, sums, options.simd, c.data() + std::size_t(r.row) * b.rows + r.col, b.rows);
    store([&](int row, int col) -> T {
      const bool nan = product.nan_row(row) || product.nan_col(0, col);
      const std::int64_t sum = sums(row - r.row, col - r.col);
      if constexpr (kHalf)
        return nan ? kHalfNan : alpha.half(sum);
      else
        return nan ? nan_float() : alpha.single(sum);
    });
  });
  return c;
}

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
  const Alpha alpha(options.alpha);
  const Product product(a, {&b1, &b2}, options);
  product.each_rectangle([&](const Rectangle& r, SumEngine& engine) {
    std::vector<double> values[2];
    for (int which : {0, 1}) {
      values[which].reserve(std::size_t(r.rows) * r.cols);
      const auto keep = [&](auto value_of) {
        for (int row = 0; row < r.rows; ++row)
          for (int col = 0; col < r.cols; ++col) values[which].push_back(value_of(row, col));
      };
      if (options.rounding == Rounding::kTensorCore) {
        const Sums<float> sums = engine.tensor_core(r, which);
        keep([&](int row, int col) { return double(times(sums(row, col), options.alpha)); });
      } else {
        const Sums<std::int64_t> sums = engine.exact(r, which);
        keep([&](int row, int col) { return alpha.rounded(sums(row, col)); });
      }
    }
    for (int row = 0; row < r.rows; ++row)
      for (int col = 0; col < r.cols; ++col) {
        const std::size_t i = std::size_t(row) * r.cols + col;
        const bool nan = product.nan_row(r.row + row) || product.nan_col(0, r.col + col) ||
                         product.nan_col(1, r.col + col);
        c[std::size_t(r.row + row) * b1.rows + r.col + col] =
            nan ? kHalfNan : half_from_double(silu(values[0][i]) * values[1][i]);
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
