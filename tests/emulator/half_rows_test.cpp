// The vector code of f16 and bf16 arithmetic against one exact double rounded once.
#include "emulator/op/half_rows.h"

#include <doctest/doctest.h>

#include <random>

#include "emulator/op/half_value.h"

using namespace fp4lab::emu;

namespace {

template <class H, HalfOp kOp>
uint16_t expected(uint16_t a, uint16_t b, uint16_t c) {
  const double x = H::value(a), y = H::value(b), z = H::value(c);
  if (kOp == HalfOp::add) return H::nearest(add_to_odd(x, y));
  if (kOp == HalfOp::sub) return H::nearest(add_to_odd(x, -y));
  if (kOp == HalfOp::mul) return H::nearest(x * y);
  return H::nearest(add_to_odd(x * y, z));
}

// Numbers close enough for their sums to round in every way, and arbitrary patterns.
uint16_t draw(std::mt19937& rng, bool any) {
  constexpr uint16_t special[] = {0,      0x8000, 0x7c00, 0xfc00, 0x7f80, 0xff80,
                                  0x7fff, 1,      0x8001, 0x03ff, 0x7bff};
  const uint32_t r = rng();
  if (any) return r >> 28 == 0 ? special[r % std::size(special)] : uint16_t(r);
  return uint16_t((r & 0x83ff) | (0x3800 + (r >> 20 & 0x0c00)));
}

template <class H, HalfOp kOp>
void compare() {
  constexpr bool bfloat = std::is_same_v<H, BfloatValue>;
  std::mt19937 rng(3);
  unsigned taken = 0;
  for (int i = 0; i < 20000; ++i) {
    uint32_t rows[3][32], d[32];
    for (auto& row : rows)
      for (uint32_t& word : row) word = draw(rng, i % 2) | uint32_t(draw(rng, i % 2)) << 16;
    const uint32_t keep = i % 3 ? 0xffffffff : 0xffff;
    if (!half_rows<kOp, bfloat>(rows[0], rows[1], rows[2], d, keep)) continue;
    ++taken;
    for (int l = 0; l < 32; ++l)
      for (int shift : {0, 16}) {
        const auto in = [&](int row) { return uint16_t(rows[row][l] >> shift); };
        const uint16_t want = (keep >> shift & 0xffff) ? expected<H, kOp>(in(0), in(1), in(2)) : 0;
        if (uint16_t(d[l] >> shift) == want) continue;
        CAPTURE(in(0));
        CAPTURE(in(1));
        CAPTURE(in(2));
        REQUIRE(uint16_t(d[l] >> shift) == want);
      }
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) CHECK(taken >= 10000);
}

}  // namespace

TEST_CASE_TEMPLATE("vectors of halves: one rounding", H, HalfValue, BfloatValue) {
  compare<H, HalfOp::add>();
  compare<H, HalfOp::sub>();
  compare<H, HalfOp::mul>();
  compare<H, HalfOp::fma>();
}

TEST_CASE("vectors of halves: a product that underflows in fp32 takes the exact path, which keeps its sign") {
  uint32_t a[32], b[32], zero[32] = {}, d[32];
  std::fill(std::begin(a), std::end(a), 0xad5bu);  // about -1e-11
  std::fill(std::begin(b), std::end(b), 0x007fu);  // a denormal
  CHECK_FALSE(half_rows<HalfOp::fma, true>(a, b, zero, d, 0xffff));
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"))
    CHECK(half_rows<HalfOp::fma, true>(zero, b, a, d, 0xffff));
}
