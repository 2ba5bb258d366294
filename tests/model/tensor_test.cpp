// tcgen05.mma in cycles, against SemiAnalysis' table of a B200.
#include "model/tensor.h"

#include <doctest/doctest.h>

using namespace fp4lab::model;

TEST_CASE("model: the interval between MMAs is the data path's or the shared-memory port's") {
  const auto interval = [](int m, int n, int ctas, From a) { return mma_interval({m, n, ctas, a}, 128, 17); };
  CHECK(interval(128, 256, 1, From::kShared) == 128);  // N/2
  CHECK(interval(128, 64, 1, From::kShared) == 48);    // 128 + 64 rows of 32 bytes over 128 bytes a cycle
  CHECK(interval(128, 64, 1, From::kTmem) == 32);
  CHECK(interval(64, 80, 1, From::kShared) == 40);
  CHECK(interval(256, 256, 2, From::kShared) == 128);
  CHECK(interval(256, 64, 2, From::kShared) == doctest::Approx(43.5));
  CHECK(interval(128, 64, 2, From::kShared) == doctest::Approx(25.3));
}

TEST_CASE("model: copies of scales take the port's time, and hide where the port has some left") {
  const auto nvfp4 = [](int n, double copies) {
    return mma_interval({.m = 128, .n = n, .scale_copies = copies, .block_scaled = true}, 128, 22);
  };
  // QuickRunCUDA's B300: N = 128 with one copy 88 cycles; N = 256 hides one, two make it 140.
  CHECK(nvfp4(128, 1) == doctest::Approx(88).epsilon(0.03));
  CHECK(nvfp4(256, 1) == 128);
  CHECK(nvfp4(256, 2) == 140);
}

TEST_CASE("model: the latency of one MMA") {
  CHECK(mma_latency({128, 256, 1, From::kShared}) == 264);
  CHECK(mma_latency({256, 256, 2, From::kShared}) == 298);
  CHECK(mma_latency({128, 128, 1, From::kTmem}) == 168);
  CHECK(mma_latency({128, 256, 1, From::kShared, 0, true}) == 265);
}

TEST_CASE("model: a wgmma is 64 rows") {
  CHECK(wgmma_interval(128, 128) == 2 * wgmma_interval(64, 128));
  CHECK(wgmma_interval(64, 256) == 128);
}
