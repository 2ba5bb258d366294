#include "fp4lab/quantize.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "fp4lab/error.h"
#include "fp4lab/ue4m3.h"

using namespace fp4lab;

namespace {

// Nearest representable by trying all, ties to the even code; long double holds every quotient's comparison
// exactly because it compares products: |x| * g against (v_i + v_i+1) / 2 * scale.
unsigned nearest_code(float x, float global, float scale) {
  const long double scaled = std::fabs((long double)x * global);
  unsigned code = 0;
  while (code < 7) {
    const long double middle = ((long double)e2m1_value(code) + e2m1_value(code + 1)) / 2 * scale;
    if (scaled < middle || (scaled == middle && code % 2 == 0)) break;
    ++code;
  }
  return code | (std::signbit(x) ? 8 : 0);
}

unsigned nearest_scale(float amax, float global) {
  const long double six_times = (long double)amax * global;
  unsigned code = 0;
  while (code < kE4m3MaxCode) {
    const long double middle = ((long double)ue4m3_value(code) + ue4m3_value(code + 1)) / 2 * 6;
    if (six_times < middle || (six_times == middle && code % 2 == 0)) break;
    ++code;
  }
  return code;
}

void check_block(const std::vector<float>& values, float global) {
  const QuantizedBlock block = quantize_block(std::span<const float, 16>(values.data(), 16), global);
  float amax = 0;
  for (float v : values) amax = std::max(amax, std::fabs(v));
  REQUIRE(block.scale == nearest_scale(amax, global));
  for (int i = 0; i < 16; ++i) {
    const unsigned want = block.scale ? nearest_code(values[i], global, ue4m3_value(block.scale))
                                      : (std::signbit(values[i]) ? 8u : 0u);
    REQUIRE(e2m1_unpack(block.codes, i) == want);
  }
}

}  // namespace

TEST_CASE("quantiser: random blocks match a search over all codes") {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (int trial = 0; trial < 20000; ++trial) {
    std::vector<float> values(16);
    const float spread = std::ldexp(1.0f, int(random() % 16) - 8);
    for (float& v : values) v = normal(random) * spread;
    check_block(values, std::ldexp(1.0f + float(random() % 1000) / 999.0f, int(random() % 8) - 4));
  }
}

TEST_CASE("quantiser: every scale boundary and every element boundary, and one ulp to both sides") {
  for (unsigned code = 0; code < kE4m3MaxCode; ++code) {
    const float middle =
        (ue4m3_value(code) + ue4m3_value(code + 1)) / 2 * 6;  // exact: amax whose scale is a tie
    for (float amax : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)}) {
      std::vector<float> values(16, 0.0f);
      values[5] = -amax;
      check_block(values, 1.0f);
    }
  }
  for (unsigned code = 1; code <= kE4m3MaxCode; ++code)
    for (float boundary : {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f}) {
      const float scale = ue4m3_value(code), x = boundary * scale;
      std::vector<float> values(16, 0.0f);
      values[0] = 6 * scale;
      values[1] = std::nextafter(x, 0.0f), values[2] = x, values[3] = std::nextafter(x, 1e9f), values[4] = -x;
      check_block(values, 1.0f);
    }
}

TEST_CASE("quantiser: the largest element keeps its value, and a matrix keeps its layout") {
  std::vector<float> values(3 * 32);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(float(i)) * 10;
  values[40] = 20;
  const float global = nvfp4_global_scale(20);
  const Operand operand = quantize_nvfp4(values, 3, 32, global);
  CHECK(operand.scales[2] == kE4m3MaxCode);
  const std::vector<float> back = dequantize(operand);
  CHECK(back[40] / global == doctest::Approx(20));
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK(std::fabs(back[i] / global - values[i]) <= 20.0 / 6 + 1e-4);
  CHECK(unblock_scales(operand.blocked, 3, 2) == operand.scales);
}

TEST_CASE("quantiser: zero tensors work, NaN and infinity are refused with their place") {
  CHECK(nvfp4_global_scale(0) == 1.0f);
  const std::vector<float> zeros(16, -0.0f);
  const QuantizedBlock block = quantize_block(std::span<const float, 16>(zeros.data(), 16), 1.0f);
  CHECK(block.scale == 0);
  CHECK(block.codes[3] == 0x88);
  std::vector<float> bad(16, 1.0f);
  bad[9] = NAN;
  CHECK_THROWS_WITH_AS(quantize_block(std::span<const float, 16>(bad.data(), 16), 1.0f),
                       doctest::Contains("element 9"), Error);
  CHECK_THROWS_AS(nvfp4_global_scale(INFINITY), Error);
}
