#include "fp4lab/compare.h"

#include <doctest/doctest.h>

#include <vector>

#include "fp4lab/error.h"
#include "fp4lab/half.h"

using namespace fp4lab;

namespace {
std::vector<std::uint16_t> halves(std::initializer_list<float> values) {
  std::vector<std::uint16_t> out;
  for (float v : values) out.push_back(half_from_float(v));
  return out;
}
}  // namespace

TEST_CASE("comparison: equal bits pass, and one ulp is seen but tolerated") {
  const auto want = halves({1, -2, 0, 1000, 0.5f, 3});
  auto got = want;
  CHECK(compare_half(got, want, 2, 3).bit_exact());
  got[3] += 1;
  const Comparison c = compare_half(got, want, 2, 3);
  CHECK(c.passed());
  CHECK(c.bit_equal == 5);
  CHECK(c.max_ulps == 1);
  CHECK(c.max_abs == 0.5);
  CHECK(c.first_different->row == 1);
  CHECK(c.first_different->col == 0);
}

TEST_CASE("comparison: the first value outside names row, column, both patterns and ulps") {
  const auto want = halves({1, 1, 1, 1, 1, 1});
  auto got = want;
  got[4] = half_from_float(1.25f);
  got[5] = half_from_float(-1.0f);
  const Comparison c = compare_half(got, want, 3, 2);
  CHECK_FALSE(c.passed());
  CHECK(c.outside == 2);
  CHECK(c.describe().find("row 2 col 0: got 1.25 (0x3d00), want 1 (0x3c00), +256 ulps") != std::string::npos);
}

TEST_CASE("comparison: the limit is atol + rtol * |want|, inclusive") {
  const auto want = halves({0, 0});
  CHECK(compare_half(halves({0x1p-10f, 0}), want, 1, 2, {0, 0x1p-10}).passed());
  CHECK_FALSE(compare_half(halves({0x1p-10f, 0}), want, 1, 2, {0, 0x1p-11}).passed());
  CHECK(compare_half(halves({-0.0f, 0}), want, 1, 2, {0, 0}).passed());
  CHECK_FALSE(compare_half(halves({-0.0f, 0}), want, 1, 2).bit_exact());
}

TEST_CASE("comparison: a NaN where none is due, a missing NaN and a wrong infinity never pass") {
  const Tolerance wide{1e9, 1e9};
  const auto one = halves({1}), inf = halves({INFINITY}), minus = halves({-INFINITY});
  const std::vector<std::uint16_t> nan{0x7E01}, other_nan{kHalfNan};
  CHECK_FALSE(compare_half(nan, one, 1, 1, wide).passed());
  CHECK(compare_half(nan, one, 1, 1, wide).nan == 1);
  CHECK_FALSE(compare_half(one, nan, 1, 1, wide).passed());
  CHECK(compare_half(nan, other_nan, 1, 1, wide).passed());
  CHECK_FALSE(compare_half(inf, one, 1, 1, wide).passed());
  CHECK_FALSE(compare_half(one, inf, 1, 1, wide).passed());
  CHECK_FALSE(compare_half(inf, minus, 1, 1, wide).passed());
  CHECK(compare_half(inf, inf, 1, 1).passed());
}

TEST_CASE("comparison: an infinity is 65520 from where the slack reaches it") {
  const auto within = [](float got, float want, float slack) {
    const Comparison c = compare_half(halves({got}), halves({want}), 1, 1, {}, std::vector<float>{slack});
    CHECK(c.by_slack == c.passed());
    return c.passed();
  };
  CHECK(within(INFINITY, 65504, 16));
  CHECK_FALSE(within(INFINITY, 65504, 15));
  CHECK(within(-65504, INFINITY, 131024));  // huge terms that cancel: even the sign is open
  CHECK_FALSE(within(-65504, INFINITY, 131023));
  CHECK(within(INFINITY, -INFINITY, 131040));
  CHECK_FALSE(within(INFINITY, -INFINITY, 131039));
}

TEST_CASE("comparison: output that nobody wrote is named as such, and never passes") {
  const std::vector<std::uint16_t> got{0x3C00, kHalfPoison};
  const auto want = halves({1, 1});
  const Comparison c = compare_half(got, want, 1, 2, {1e9, 1e9});
  CHECK(c.unwritten == 1);
  CHECK_FALSE(c.passed());
  CHECK(c.describe().find("never written") != std::string::npos);
  CHECK_FALSE(compare_half(got, std::vector<std::uint16_t>{0x3C00, kHalfNan}, 1, 2).passed());
}

TEST_CASE("comparison: sizes that do not fit are refused") {
  const auto want = halves({1, 1});
  CHECK_THROWS_AS(compare_half(want, want, 1, 3), Error);
}
