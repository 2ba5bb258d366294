#include "fp4lab/scale_layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "fp4lab/error.h"
#include "fp4lab/operand.h"

using namespace fp4lab;

TEST_CASE("blocked scales: offsets of the published example") {
  // 16 scales per row; cuBLAS and CUTLASS both give these.
  CHECK(blocked_scale_offset(0, 0, 16) == 0);
  CHECK(blocked_scale_offset(0, 3, 16) == 3);
  CHECK(blocked_scale_offset(1, 0, 16) == 16);
  CHECK(blocked_scale_offset(32, 0, 16) == 4);
  CHECK(blocked_scale_offset(96, 3, 16) == 15);
  CHECK(blocked_scale_offset(0, 4, 16) == 512);
  CHECK(blocked_scale_offset(128, 0, 16) == 2048);
  CHECK(blocked_scale_offset(0, 0, 16, 1, 200) == 2 * 2048);
  static_assert(blocked_scale_offset(127, 15, 16) == 3 * 512 + 31 * 16 + 12 + 3);
}

TEST_CASE("blocked scales: every position is used once, and both directions agree") {
  for (int rows : {1, 31, 32, 33, 127, 128, 129, 300})
    for (int scales : {1, 3, 4, 5, 16, 21}) {
      CAPTURE(rows);
      CAPTURE(scales);
      Bytes plain(std::size_t(rows) * scales);
      for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = std::uint8_t(1 + i * 7 % 251);
      const Bytes blocked = block_scales(plain, rows, scales);
      CHECK(blocked.size() == std::size_t((rows + 127) / 128 * 128) * ((scales + 3) / 4 * 4));
      std::set<long long> seen;
      for (int row = 0; row < rows; ++row)
        for (int scale = 0; scale < scales; ++scale) {
          const long long at = blocked_scale_offset(row, scale, scales);
          seen.insert(at);
          REQUIRE(blocked[std::size_t(at)] == plain[std::size_t(row) * scales + scale]);
        }
      CHECK(seen.size() == plain.size());
      // The rest is padding, and padding is zero.
      CHECK(std::size_t(std::count(blocked.begin(), blocked.end(), 0)) == blocked.size() - plain.size());
      CHECK(unblock_scales(blocked, rows, scales) == plain);
    }
}

TEST_CASE("operands and layouts refuse sizes that do not fit") {
  CHECK_THROWS_AS(make_operand(4, 24), Error);
  CHECK_THROWS_AS(block_scales(Bytes(7), 2, 4), Error);
  CHECK_THROWS_AS(unblock_scales(Bytes(8), 2, 4), Error);
}
