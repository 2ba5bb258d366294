// Exhaustive tests of small input spaces: every table of lop3, every selector of prmt, every shift amount,
// every code of the small formats, against plain re-implementations that share no code.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "emulator/core/machine.h"
#include "emulator/op/bits.h"
#include "emulator/op/float_format.h"
#include "emulator/ptx/load.h"
#include "emulator/ptx/parser.h"
#include "fp4lab/e2m1.h"
#include "fp4lab/half.h"
#include "fp4lab/ue4m3.h"
#include "fp4lab/ue8m0.h"

using namespace fp4lab;
using namespace fp4lab::emu;

namespace {

uint32_t bit(uint64_t v, unsigned n) { return uint32_t(v >> n & 1); }

// Runs `code`, which computes %r from the thread's index %i (and may use %h, %b and %d), for 0 .. count-1.
std::vector<uint32_t> for_all(uint32_t count, const std::string& target, const std::string& code) {
  const std::string text = fmt::format(
      ".version 8.8\n.target {}\n.address_size 64\n"
      ".visible .entry all(.param .u64 out_p)\n{{\n"
      "  .reg .b64 %out, %d;\n  .reg .b32 %i, %b, %n, %r, %x;\n  .reg .b16 %h, %g;\n  .reg .b8 %c;\n"
      "  ld.param.u64 %out, [out_p];\n  mov.u32 %i, %tid.x;\n  mov.u32 %b, %ctaid.x;\n  mov.u32 %n, "
      "%ntid.x;\n"
      "  mad.lo.u32 %i, %b, %n, %i;\n  mad.wide.u32 %out, %i, 4, %out;\n{}\n"
      "  st.global.u32 [%out], %r;\n  ret;\n}}\n",
      target, code);
  GlobalMemory memory;
  const auto module = parse(text, "all.ptx");
  load(*module, memory);
  const uint64_t out = memory.allocate(count * 4);
  LaunchConfig config;
  config.block.x = std::min(count, 256u);
  config.grid.x = count / config.block.x;
  config.params.resize(8);
  std::memcpy(config.params.data(), &out, 8);
  Schedule schedule;
  schedule.threads = 1;
  const LaunchResult result = launch(*module, module->functions[0], config,
                                     *device_model(target == "sm_100a" ? "b200" : "h200"), memory, schedule);
  REQUIRE_MESSAGE(result.ok, result.report);
  std::vector<uint32_t> words(count);
  std::memcpy(words.data(), memory.host(out), count * 4);
  return words;
}

}  // namespace

TEST_CASE("lop3: all tables on words that hold all combinations of bits") {
  const uint32_t a = 0xf0f0a55a, b = 0xcccc3c69, c = 0xaaaa0ff3;
  for (unsigned table = 0; table < 256; ++table) {
    uint32_t expected = 0;
    for (unsigned i = 0; i < 32; ++i) expected |= bit(table, 4 * bit(a, i) + 2 * bit(b, i) + bit(c, i)) << i;
    CHECK(bits::lop3(a, b, c, uint8_t(table)) == expected);
  }
}

TEST_CASE("prmt: all selectors") {
  const uint32_t a = 0x81c20344, b = 0x750688f7;
  const unsigned bytes[8] = {0x44, 0x03, 0xc2, 0x81, 0xf7, 0x88, 0x06, 0x75};
  unsigned wrong = 0;
  for (uint32_t selector = 0; selector < 65536; ++selector) {
    uint32_t expected = 0;
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned pick = selector / (1u << (4 * i)) % 16;
      const unsigned byte = bytes[pick % 8];
      expected += (pick < 8 ? byte : byte > 127 ? 255 : 0) << (8 * i);
    }
    wrong += bits::prmt(a, b, selector) != expected;
  }
  CHECK(wrong == 0);
}

TEST_CASE("shf: all amounts") {
  const uint32_t a = 0x12345678, b = 0xdeadbeef;
  const auto at = [&](int i) { return i < 0 || i > 63 ? 0u : i < 32 ? bit(a, i) : bit(b, i - 32); };
  for (uint32_t amount = 0; amount < 100; ++amount) {
    const int wrap = int(amount % 32), clamp = int(std::min(amount, 32u));
    uint32_t left_wrap = 0, left_clamp = 0, right_wrap = 0, right_clamp = 0;
    for (int i = 0; i < 32; ++i) {
      left_wrap |= at(i + 32 - wrap) << i;
      left_clamp |= at(i + 32 - clamp) << i;
      right_wrap |= at(i + wrap) << i;
      right_clamp |= at(i + clamp) << i;
    }
    CHECK(bits::shf_l<true>(a, b, amount) == left_wrap);
    CHECK(bits::shf_l<false>(a, b, amount) == left_clamp);
    CHECK(bits::shf_r<true>(a, b, amount) == right_wrap);
    CHECK(bits::shf_r<false>(a, b, amount) == right_clamp);
  }
}

TEST_CASE("the general encoder agrees with include/fp4lab") {
  const auto nearest = FormatRound::nearest_even;
  unsigned wrong = 0;
  // Every 509th float: all exponents, mantissas that walk through all low bits.
  for (uint64_t n = 0; n < (uint64_t(1) << 32); n += 509) {
    const float v = std::bit_cast<float>(uint32_t(n));
    wrong += encode(v, kF16, nearest, false) != half_from_float(v);
    wrong += encode(v, kE4m3, nearest, true) != e4m3_encode(v);
    wrong += encode(v, kE2m1, nearest, true) != e2m1_encode(v);
  }
  CHECK(wrong == 0);
  for (uint32_t h = 0; h < 65536; ++h) {
    const double v = decode(h, kF16);
    if (half_is_nan(uint16_t(h))) {
      wrong += v == v;
    } else {
      wrong += v != double(half_to_float(uint16_t(h))) || encode(v, kF16, nearest, false) != h;
      wrong += half_from_double(v) != h;
    }
  }
  for (uint32_t c = 0; c < 256; ++c) {
    wrong += !e4m3_is_nan(c) && decode(c, kE4m3) != double(e4m3_value(c));
    wrong += c < 16 && decode(c, kE2m1) != double(e2m1_value(c));
    // e5m2 is the upper byte of an f16.
    const double v = decode(c, kE5m2), h = half_to_float(uint16_t(c << 8));
    wrong += v != h && (v == v || h == h);
  }
  CHECK(wrong == 0);
}

TEST_CASE("the encoder's directed roundings enclose the value and are neighbours") {
  for (const FloatFormat& f : {kF16, kBf16, kTf32, kE4m3, kE5m2, kE2m3, kE3m2, kE2m1}) {
    unsigned wrong = 0;
    uint64_t state = 88172645463325252;
    for (unsigned n = 0; n < 200000; ++n) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      // Magnitudes around the format's range.
      const double v = std::ldexp(double(state >> 11) - 0x1p52, int(state % (2 * f.bias + 20)) - f.bias - 62);
      if (!(std::abs(v) < decode(f.max_finite(), f))) continue;
      const uint32_t down = encode(v, f, FormatRound::down, false), up = encode(v, f, FormatRound::up, false);
      const double lo = decode(down, f), hi = decode(up, f);
      wrong += !(lo <= v && v <= hi);
      const uint32_t near = encode(v, f, FormatRound::nearest_even, false);
      const uint32_t zero = encode(v, f, FormatRound::to_zero, false);
      wrong += near != down && near != up;
      wrong += zero != (v < 0 ? up : down);
      if (lo == hi) continue;
      // Nothing lies between the two, and the nearest is the nearer one, or the even one.
      wrong += std::abs(int64_t(down & f.magnitude_mask()) - int64_t(up & f.magnitude_mask())) != 1;
      const double to_lo = v - lo, to_hi = hi - v;
      if (to_lo != to_hi)
        wrong += near != (to_lo < to_hi ? down : up);
      else
        wrong += near % 2 != 0;
      wrong +=
          encode(v, f, FormatRound::nearest_away, false) != (to_lo == to_hi ? (v < 0 ? down : up) : near);
    }
    CHECK_MESSAGE(wrong == 0, "format of ", f.exponent_bits, " exponent and ", f.mantissa_bits,
                  " mantissa bits");
  }
}

TEST_CASE("cvt.f32.f16 and back: all 65536 values") {
  const auto wide = for_all(65536, "sm_90", "  cvt.u16.u32 %h, %i;\n  cvt.f32.f16 %r, %h;");
  const auto back = for_all(65536, "sm_90",
                            "  cvt.u16.u32 %h, %i;\n  cvt.f32.f16 %r, %h;\n  cvt.rn.f16.f32 %h, %r;\n"
                            "  cvt.u32.u16 %r, %h;");
  unsigned wrong = 0;
  for (uint32_t h = 0; h < 65536; ++h) {
    const bool nan = half_is_nan(uint16_t(h));
    wrong += wide[h] != (nan ? 0x7fffffff : std::bit_cast<uint32_t>(half_to_float(uint16_t(h))));
    wrong += back[h] != (nan ? 0x7fffu : h);
  }
  CHECK(wrong == 0);
}

TEST_CASE("cvt of fp8, fp6 and fp4 pairs to f16x2 and back: all codes") {
  struct Pair {
    const char* type;
    FloatFormat format;
    unsigned bits;
  };
  for (const Pair& p : {Pair{"e4m3x2", kE4m3, 8}, Pair{"e5m2x2", kE5m2, 8}, Pair{"e2m3x2", kE2m3, 6},
                        Pair{"e3m2x2", kE3m2, 6}}) {
    const auto wide =
        for_all(65536, "sm_100a", fmt::format("  cvt.u16.u32 %h, %i;\n  cvt.rn.f16x2.{} %r, %h;", p.type));
    const auto back = for_all(65536, "sm_100a",
                              fmt::format("  cvt.u16.u32 %h, %i;\n  cvt.rn.f16x2.{0} %r, %h;\n"
                                          "  cvt.rn.satfinite.{0}.f16x2 %h, %r;\n  cvt.u32.u16 %r, %h;",
                                          p.type));
    unsigned wrong = 0;
    const uint32_t mask = (1u << p.bits) - 1;
    for (uint32_t codes = 0; codes < 65536; ++codes)
      for (unsigned half = 0; half < 2; ++half) {
        const uint32_t code = codes >> (8 * half) & 0xff;
        if (code & ~mask) continue;  // the two top bits of 6-bit codes are zero
        const double v = decode(code, p.format);
        const uint16_t h = uint16_t(wide[codes] >> (16 * half));
        const uint32_t again = back[codes] >> (8 * half) & 0xff;
        if (v != v) {
          wrong += h != 0x7fff || again != p.format.nan;
        } else {
          wrong += double(half_to_float(h)) != v || std::signbit(half_to_float(h)) != std::signbit(v);
          // e5m2's infinity becomes finite with .satfinite.
          wrong += again != (std::isinf(v) ? (code & 0x80) | 0x7b : code);
        }
      }
    CHECK_MESSAGE(wrong == 0, p.type);
  }
  const auto wide =
      for_all(256, "sm_100a", "  cvt.u16.u32 %h, %i;\n  mov.b16 {%c, _}, %h;\n  cvt.rn.f16x2.e2m1x2 %r, %c;");
  for (uint32_t codes = 0; codes < 256; ++codes) {
    CHECK(half_to_float(uint16_t(wide[codes])) == e2m1_value(codes & 15));
    CHECK(half_to_float(uint16_t(wide[codes] >> 16)) == e2m1_value(codes >> 4));
  }
  const auto powers = for_all(65536, "sm_100a", "  cvt.u16.u32 %h, %i;\n  cvt.rn.bf16x2.ue8m0x2 %r, %h;");
  unsigned wrong = 0;
  for (uint32_t codes = 0; codes < 65536; ++codes)
    for (unsigned half = 0; half < 2; ++half) {
      const uint32_t code = codes >> (8 * half) & 0xff;
      const float v = std::bit_cast<float>((powers[codes] >> (16 * half) & 0xffff) << 16);
      wrong += ue8m0_is_nan(code) ? v == v : v != ue8m0_value(code);
    }
  CHECK(wrong == 0);
}

TEST_CASE("cvt to fp8 and fp4: every f16 value") {
  const auto e4m3 = for_all(65536, "sm_90",
                            "  cvt.u16.u32 %h, %i;\n  mov.b32 %r, {%h, %h};\n"
                            "  cvt.rn.satfinite.e4m3x2.f16x2 %h, %r;\n  cvt.u32.u16 %r, %h;");
  const auto e2m1 =
      for_all(65536, "sm_100a",
              "  cvt.u16.u32 %h, %i;\n  cvt.f32.f16 %r, %h;\n"
              "  cvt.rn.satfinite.e2m1x2.f32 %c, %r, %r;\n  mov.b16 %h, {%c, %c};\n  cvt.u32.u16 %r, %h;");
  unsigned wrong = 0;
  for (uint32_t h = 0; h < 65536; ++h) {
    const float v = half_to_float(uint16_t(h));
    wrong += e4m3[h] != e4m3_encode(v) * 0x101u;
    wrong += e2m1[h] != e2m1_encode(v) * 0x1111u;
  }
  CHECK(wrong == 0);
}
