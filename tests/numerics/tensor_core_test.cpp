// The tensor-core model against an oracle written from its description in another arithmetic, and the tiles
// of every instruction set against the model.
#include "numerics/tensor_core.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "fp4lab/e2m1.h"
#include "fp4lab/ue4m3.h"
#include "fp4lab/ue8m0.h"

using namespace fp4lab;

namespace {

std::uint32_t bits(float v) { return std::bit_cast<std::uint32_t>(v); }

// Significand and exponent as long doubles: 64 bits hold every quantity of the model exactly.
struct Parts {
  long double significand;
  int exponent;
};
Parts split(long double value, int smallest) {
  if (value == 0) return {0, -126};
  int exponent = 0;
  std::frexp(value, &exponent);
  exponent = std::max(exponent - 1, smallest);
  return {std::ldexp(value, -exponent), exponent};
}
float oracle(const int d4[4], const std::uint8_t sfa[4], const std::uint8_t sfb[4], ScaleFormat format,
             float c) {
  const bool e8 = format == ScaleFormat::kUe8m0;
  const auto value = [&](unsigned code) { return e8 ? ue8m0_value(code) : ue4m3_value(code & 0x7F); };
  std::vector<Parts> terms{split(c, -126)};
  bool nan = std::isnan(c);
  for (int g = 0; g < 4; ++g) {
    nan |= std::isnan(value(sfa[g])) || std::isnan(value(sfb[g]));
    const Parts a = split(value(sfa[g]), e8 ? -127 : -6), b = split(value(sfb[g]), e8 ? -127 : -6);
    terms.push_back({d4[g] * 0.25L * a.significand * b.significand, a.exponent + b.exponent});
  }
  if (nan) return std::bit_cast<float>(0x7FFFFFFFu);
  if (std::isinf(c)) return c;
  int emax = -1000;
  for (const Parts& t : terms) emax = std::max(emax, t.exponent);
  long double sum = 0;
  for (const Parts& t : terms) sum += std::trunc(std::ldexp(t.significand, 35 + t.exponent - emax));
  const Parts r = split(std::ldexp(sum, emax - 35), -126);
  const long double result = std::ldexp(std::trunc(std::ldexp(r.significand, 23)), r.exponent - 23);
  return std::fabs(result) >= 0x1p128L ? (result < 0 ? -INFINITY : INFINITY) : float(result) + 0.0f;
}

// The rule for ue4m3 that sf-tensor/tcgen05 6f19f22 (tcgen05_model/MODEL.md, section 5) states and its
// authors compared with a B200: terms are cut at 2^max(largest product or c - 39, largest pair of scales -
// 35), products in groups of four; below a c that is as large as any product at 2^(c - 35), in groups of 16.
// Only products that are not zero count. `a` and `b` are twice the elements. Nothing where there is none, or
// c is no number.
std::optional<float> other_model(const std::int8_t a[64], const std::int8_t b[64], const std::uint8_t sfa[4],
                                 const std::uint8_t sfb[4], float c) {
  constexpr int kNone = -100000;
  const auto exponent_of = [](int twice) { return std::abs(twice) < 4 ? 0 : std::abs(twice) < 8 ? 1 : 2; };
  int product = kNone, pair = kNone;
  for (int k = 0; k < 64; ++k) {
    const Parts sa = split(ue4m3_value(sfa[k / 16]), -6), sb = split(ue4m3_value(sfb[k / 16]), -6);
    if (a[k] * b[k] == 0 || sa.significand * sb.significand == 0) continue;
    pair = std::max(pair, sa.exponent + sb.exponent);
    product = std::max(product, exponent_of(a[k]) + exponent_of(b[k]) + sa.exponent + sb.exponent);
  }
  if (product == kNone || !std::isfinite(c)) return std::nullopt;
  const Parts old = split(c, -126);
  const bool c_leads = c != 0 && old.exponent >= product;
  const int weight = c_leads ? old.exponent - 35
                             : std::max(std::max(product, c != 0 ? old.exponent : kNone) - 39, pair - 35);
  const auto cut = [&](long double value) { return std::trunc(std::ldexp(value, -weight)); };
  long double sum = cut(c);
  for (int first = 0, size = c_leads ? 16 : 4; first < 64; first += size) {
    long double group = 0;  // exact: its products share their scales
    for (int k = first; k < first + size; ++k)
      group += 0.25L * a[k] * b[k] * ue4m3_value(sfa[k / 16]) * ue4m3_value(sfb[k / 16]);
    sum += cut(group);
  }
  const Parts r = split(std::ldexp(sum, weight), -126);
  return float(std::ldexp(std::trunc(std::ldexp(r.significand, 23)), r.exponent - 23)) + 0.0f;
}

enum class Codes { kAll, kSmall, kZero, kLargest, kSparse };
enum class Scales {
  kPair,
  kAll,
  kOneTwo,
  kUnit,
  kModerate,
  kWithZero,
  kWithNan,
  kWithSign,
  kOneHuge,
  kE8All,
  kE8Near,
  kE8Edge,
  kE8Wide
};
enum class C { kZero, kAccumulated, kAnyBits, kSmallMagnitude, kLarge, kSweep };

// Two scales for a tile, which together set how wide its sums can be; used by Scales::kPair.
std::uint8_t pair_low = 0, pair_high = 0;

std::uint8_t scale_code(std::mt19937& random, Scales scales) {
  switch (scales) {
    case Scales::kPair:
      return random() % 4 ? pair_high : pair_low;
    case Scales::kE8Edge:
      return random() % 2 ? 127 - 30 : 127 + 30;
    case Scales::kE8Wide:
      return 127 - 60 + random() % 121;
    case Scales::kAll:
      return random() % 127;
    case Scales::kOneTwo:
      return random() % 2 ? 0x38 : 0x40;
    case Scales::kUnit:
      return ue4m3_encode(float(random() % 65536) / 65536);
    case Scales::kModerate:
      return 40 + random() % 32;
    case Scales::kWithZero:
      return random() % 3 ? random() % 127 : 0;
    case Scales::kWithNan:
      return random() % 40 ? random() % 127 : 0x7F;
    case Scales::kWithSign:
      return random() % 256;
    case Scales::kOneHuge:
      return random() % 4 ? 1 + random() % 7 : 0x7E;
    case Scales::kE8All:
      return random() % 256;
    case Scales::kE8Near:
      return 117 + random() % 20;
  }
  return 0;
}
std::int8_t twice(std::mt19937& random, Codes codes) {
  if (codes == Codes::kZero) return 0;
  if (codes == Codes::kLargest) return random() % 12 ? 12 : 1;
  if (codes == Codes::kSparse) return random() % 48 ? 0 : random() % 2 ? 1 : -1;
  return std::int8_t(e2m1_twice(codes == Codes::kSmall ? random() & 11 : random() & 15));
}
float old_value(std::mt19937& random, C c) {
  const float unit = float(int(random() % 0x2000000) - 0x1000000) * 0x1p-24f;
  switch (c) {
    case C::kZero:
      return random() % 2 ? 0.0f : -0.0f;
    case C::kAccumulated:
      return std::ldexp(unit, int(random() % 24));
    case C::kAnyBits:
      return std::bit_cast<float>(std::uint32_t(random()));
    case C::kSmallMagnitude:
      return std::ldexp(unit, -int(random() % 160));
    case C::kSweep: {  // full 24 bits at every exponent near those of the terms
      const float odd =
          std::bit_cast<float>(0x3F800001u | (random() % 4 ? 0u : std::uint32_t(random()) & 0x7FFFFFu));
      return std::ldexp(random() % 2 ? odd : -odd, int(random() % 90) - 45);
    }
    case C::kLarge:
      return std::ldexp(unit, 20 + int(random() % 110));
  }
  return 0;
}

struct Data {
  std::vector<std::int8_t> a, b;
  std::vector<std::uint8_t> sfa, sfb;
  std::vector<float> d;
  std::ptrdiff_t stride;
};
Data make(std::mt19937& random, int m, int n, Codes codes, Scales scales, C c) {
  Data data;
  for (int i = 0; i < m * 64; ++i) data.a.push_back(twice(random, codes));
  for (int i = 0; i < n * 64; ++i) data.b.push_back(twice(random, codes));
  for (int i = 0; i < m * 4; ++i) data.sfa.push_back(scale_code(random, scales));
  for (int i = 0; i < n * 4; ++i) data.sfb.push_back(scale_code(random, scales));
  data.stride = n + 3;
  for (std::ptrdiff_t i = 0; i < m * data.stride; ++i) data.d.push_back(old_value(random, c));
  return data;
}

void check_tile(std::mt19937& random, int m, int n, Codes codes, Scales scales, C c, bool negate,
                bool accumulate) {
  const Data data = make(random, m, n, codes, scales, c);
  const ScaleFormat format = scales >= Scales::kE8All ? ScaleFormat::kUe8m0 : ScaleFormat::kUe4m3;
  std::vector<float> want = data.d;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      int d4[4] = {};
      for (int k = 0; k < 64; ++k) d4[k / 16] += data.a[i * 64 + k] * data.b[j * 64 + k] * (negate ? -1 : 1);
      float& d = want[i * data.stride + j];
      d = oracle(d4, &data.sfa[i * 4], &data.sfb[j * 4], format, accumulate ? d : 0.0f);
    }
  for (Simd simd : simd_levels()) {
    std::vector<float> got = data.d;
    MmaTile tile{m,      n,      data.a.data(), data.b.data(), data.sfa.data(), data.sfb.data(),
                 format, negate, accumulate,    got.data(),    data.stride};
    mma_tile(tile, simd);
    int wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      if (bits(got[i]) != bits(want[i]) && wrong++ == 0) {
        INFO(fmt::format(
            "{}, codes {}, scales {}, c kind {}, {} x {}, negate {}, accumulate {}, row {} col {}, c {}",
            simd_name(simd), int(codes), int(scales), int(c), m, n, negate, accumulate,
            std::ptrdiff_t(i) / data.stride, std::ptrdiff_t(i) % data.stride, data.d[i]));
        CHECK(bits(got[i]) == bits(want[i]));
      }
    REQUIRE(wrong == 0);
  }
}

constexpr Scales kAllScales[] = {Scales::kAll,      Scales::kOneTwo,  Scales::kUnit,     Scales::kModerate,
                                 Scales::kWithZero, Scales::kWithNan, Scales::kWithSign, Scales::kOneHuge,
                                 Scales::kE8All,    Scales::kE8Near,  Scales::kE8Edge,   Scales::kE8Wide};
constexpr C kAllC[] = {C::kZero, C::kAccumulated, C::kAnyBits, C::kSmallMagnitude, C::kLarge, C::kSweep};

}  // namespace

TEST_CASE("tensor core: one step agrees with the oracle on every kind of scale and accumulator") {
  std::mt19937 random(1);
  int wrong = 0;
  for (Scales scales : kAllScales)
    for (C kind : kAllC)
      for (int trial = 0; trial < 20000; ++trial) {
        int d4[4];
        std::uint8_t sfa[4], sfb[4];
        for (int g = 0; g < 4; ++g) {
          d4[g] = random() % 5 ? int(random() % 4609) - 2304 : 0;
          sfa[g] = scale_code(random, scales), sfb[g] = scale_code(random, scales);
        }
        const auto format = scales >= Scales::kE8All ? ScaleFormat::kUe8m0 : ScaleFormat::kUe4m3;
        const float c = old_value(random, kind);
        if (bits(mma_step(d4, sfa, sfb, format, c)) != bits(oracle(d4, sfa, sfb, format, c))) ++wrong;
      }
  CHECK(wrong == 0);
}

TEST_CASE("tensor core: the corners of the model, in numbers") {
  const std::uint8_t one[4] = {0x38, 0x38, 0x38, 0x38};
  const std::uint8_t huge_and_tiny[4] = {0x7E, 1, 1, 1};
  const int d4[4] = {0, 1, 0, 0};  // 1/4 in the second group
  CHECK(mma_step(d4, one, one, ScaleFormat::kUe4m3, 1.0f) == 1.25f);
  // 1/4 * 2^-9 * 2^-9 = 2^-20 is below 2^(16 - 35): the zero block with scale 448 cuts it away.
  CHECK(mma_step(d4, huge_and_tiny, huge_and_tiny, ScaleFormat::kUe4m3, 0.0f) == 0.0f);
  const std::uint8_t tiny[4] = {1, 1, 1, 1};
  CHECK(mma_step(d4, tiny, tiny, ScaleFormat::kUe4m3, 0.0f) == 0x1p-20f);
  // Rounds toward zero, not to nearest: 2^24 + 3/4 stays, on both sides.
  const int three[4] = {3, 0, 0, 0}, minus_three[4] = {-3, 0, 0, 0};
  CHECK(mma_step(three, one, one, ScaleFormat::kUe4m3, 0x1p24f) == 0x1p24f);
  CHECK(mma_step(minus_three, one, one, ScaleFormat::kUe4m3, 0x1p24f) == 0x1p24f - 1);
  // A sum of zero is +0 even from -0; NaN is the one pattern.
  const int zero[4] = {};
  CHECK(bits(mma_step(zero, one, one, ScaleFormat::kUe4m3, -0.0f)) == 0);
  const std::uint8_t nan[4] = {0x38, 0x38, 0xFF, 0x38};
  CHECK(bits(mma_step(d4, nan, one, ScaleFormat::kUe4m3, 1.0f)) == 0x7FFFFFFFu);
  CHECK(bits(mma_step(d4, one, one, ScaleFormat::kUe4m3, -NAN)) == 0x7FFFFFFFu);
  // Bit 7 of a scale is ignored.
  const std::uint8_t minus_one[4] = {0xB8, 0xB8, 0xB8, 0xB8};
  CHECK(mma_step(d4, minus_one, one, ScaleFormat::kUe4m3, 0.0f) == 0.25f);
}

TEST_CASE("tensor core: the model that was compared with a B200 gives the same bits, but for two corners") {
  std::mt19937 random(4);
  // Blocks of zeros, whose scale counts here; and scales 2^27 apart, where products are cut in groups of 16
  // here.
  unsigned compared = 0, corners = 0, different = 0;
  for (const Scales scales : {Scales::kAll, Scales::kModerate, Scales::kWithZero, Scales::kOneHuge})
    for (const C kind : {C::kZero, C::kAccumulated, C::kAnyBits, C::kSmallMagnitude, C::kSweep})
      for (unsigned round = 0; round < 2000; ++round) {
        const unsigned sparsity = round % 2 ? 5 : 1;  // of the elements, one in so many is not 0
        std::int8_t a[64], b[64];
        int d4[4] = {};
        bool has_zeros = false;
        for (int g = 0; g < 4; ++g) {
          bool any = false;
          for (int k = 16 * g; k < 16 * (g + 1); ++k) {
            a[k] = random() % sparsity ? 0 : twice(random, Codes::kAll), b[k] = twice(random, Codes::kAll);
            d4[g] += a[k] * b[k], any |= a[k] * b[k] != 0;
          }
          has_zeros |= !any;
        }
        std::uint8_t sfa[4], sfb[4];
        int low = 1000, high = -1000;  // exponents of pairs of scales
        for (int g = 0; g < 4; ++g) {
          sfa[g] = scale_code(random, scales), sfb[g] = scale_code(random, scales);
          const int pair = split(ue4m3_value(sfa[g]), -6).exponent + split(ue4m3_value(sfb[g]), -6).exponent;
          low = std::min(low, pair), high = std::max(high, pair);
        }
        const float c = old_value(random, kind);
        const auto other = other_model(a, b, sfa, sfb, c);
        if (!other) continue;
        const bool same = bits(mma_step(d4, sfa, sfb, ScaleFormat::kUe4m3, c)) == bits(*other);
        const bool is_corner = has_zeros || high - low >= 27;
        corners += is_corner, different += is_corner && !same;
        if (is_corner) continue;
        ++compared;
        CHECK(same);
      }
  CHECK(compared > 15000);
  MESSAGE(different << " of " << corners << " steps in the two corners differ, none of " << compared
                    << " others");
  CHECK(different > 0);
}

TEST_CASE("tensor core: tiles of every instruction set give the model's bits") {
  std::mt19937 random(2);
  const int shapes[][2] = {{1, 1}, {3, 5}, {16, 16}, {9, 40}, {33, 31}};
  for (Scales scales : kAllScales)
    for (C c : kAllC)
      for (Codes codes : {Codes::kAll, Codes::kSmall, Codes::kZero, Codes::kLargest, Codes::kSparse})
        for (const auto& shape : shapes)
          check_tile(random, shape[0], shape[1], codes, scales, c, random() % 2, random() % 4);
}

TEST_CASE("tensor core: every width of sum that two scales can make, at every exponent of c") {
  // The cheap ways of the tiles are open up to a width of the sums and in a window of c; this walks across
  // all those limits.
  std::mt19937 random(5);
  for (unsigned low : {1u, 3u, 0x09u, 0x1Fu, 0x2Du, 0x38u})
    for (unsigned high = 1; high < 0x7F; high += 1 + high % 2) {
      pair_low = std::uint8_t(low), pair_high = std::uint8_t(high);
      for (Codes codes : {Codes::kLargest, Codes::kSparse, Codes::kAll})
        check_tile(random, 4, 21, codes, Scales::kPair, C::kSweep, random() % 2, true);
      check_tile(random, 4, 21, Codes::kLargest, Scales::kPair, C::kAccumulated, random() % 2, true);
    }
}

TEST_CASE("tensor core: one lowest bit against an accumulator of every exponent") {
  // A single product of the lowest bit that the scales allow: whether it is cut depends on c alone.
  for (unsigned scale : {1u, 2u, 0x09u, 0x30u, 0x38u, 0x7Eu}) {
    const std::vector<std::uint8_t> scales(20 * 4, std::uint8_t(scale));
    std::vector<std::int8_t> a(2 * 64, 0), b(20 * 64, 0);
    a[0] = 1, a[64 + 17] = -1;  // row 0 in the first group, row 1 in the second
    for (int col = 0; col < 20; ++col) b[col * 64] = b[col * 64 + 17] = std::int8_t(col % 2 ? 1 : 3);
    for (int exponent = -60; exponent < 60; ++exponent)
      for (std::uint32_t mantissa : {0u, 1u, 0x7FFFFFu}) {
        const float c = std::ldexp(std::bit_cast<float>(0x3F800000u | mantissa), exponent);
        std::vector<float> old(2 * 20);
        for (int i = 0; i < 40; ++i) old[i] = i % 4 < 2 ? c : -c;
        for (Simd simd : simd_levels()) {
          std::vector<float> d = old;
          mma_tile({2, 20, a.data(), b.data(), scales.data(), scales.data(), ScaleFormat::kUe4m3, false, true,
                    d.data(), 20},
                   simd);
          for (int i = 0; i < 40; ++i) {
            const int d4[4] = {i < 20 ? int(b[i % 20 * 64]) : 0, i < 20 ? 0 : -int(b[i % 20 * 64]), 0, 0};
            REQUIRE(bits(d[i]) ==
                    bits(oracle(d4, scales.data(), scales.data(), ScaleFormat::kUe4m3, old[i])));
          }
        }
      }
  }
}

TEST_CASE("tensor core: a full 128 x 256 tile, a tile above 128 rows, and empty ones") {
  std::mt19937 random(3);
  check_tile(random, 128, 256, Codes::kAll, Scales::kAll, C::kAccumulated, false, true);
  check_tile(random, 128, 256, Codes::kAll, Scales::kModerate, C::kAccumulated, true, true);
  check_tile(random, 261, 17, Codes::kSmall, Scales::kOneTwo, C::kAccumulated, false, false);
  check_tile(random, 0, 8, Codes::kAll, Scales::kAll, C::kZero, false, true);
  check_tile(random, 8, 0, Codes::kAll, Scales::kAll, C::kZero, false, true);
}

TEST_CASE("tensor core: chains of steps stay bit-equal, as an accumulator grows") {
  std::mt19937 random(4);
  for (Scales scales : {Scales::kAll, Scales::kUnit, Scales::kOneTwo, Scales::kModerate, Scales::kOneHuge}) {
    const int m = 5, n = 19;
    std::vector<std::vector<float>> d(simd_levels().size(), std::vector<float>(m * n, 0.0f));
    for (int step = 0; step < 60; ++step) {
      const Data data = make(random, m, n, Codes::kAll, scales, C::kZero);
      for (std::size_t level = 0; level < d.size(); ++level)
        mma_tile({m, n, data.a.data(), data.b.data(), data.sfa.data(), data.sfb.data(), ScaleFormat::kUe4m3,
                  false, step != 0, d[level].data(), n},
                 simd_levels()[level]);
      for (std::size_t level = 1; level < d.size(); ++level)
        for (int i = 0; i < m * n; ++i) REQUIRE(bits(d[level][i]) == bits(d[0][i]));
    }
  }
}

TEST_CASE("unpacking codes: every instruction set, every byte, odd lengths") {
  std::vector<std::uint8_t> packed(1000);
  for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = std::uint8_t(i);
  for (Simd simd : simd_levels())
    for (std::size_t count : {0u, 2u, 30u, 32u, 34u, 512u, 2000u}) {
      std::vector<std::int8_t> out(count + 1, 99);
      unpack_e2m1_twice(packed.data(), count, out.data(), simd);
      for (std::size_t i = 0; i < count; ++i)
        REQUIRE(int(out[i]) == e2m1_twice(e2m1_unpack(packed.data(), (long long)i)));
      CHECK(out[count] == 99);
    }
}
