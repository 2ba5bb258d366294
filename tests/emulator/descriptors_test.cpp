// Descriptors of tcgen05 and wgmma: constants of real kernels are decoded correctly, and every illegal field
// is refused by name (ptxas checks none of them).
#include "emulator/engine/descriptors.h"

#include <doctest/doctest.h>

#include <cstring>

#include "emulator/core/error.h"
#include "fp4lab/descriptors.h"

using namespace fp4lab::emu;
using Swizzle = SharedMatrix::Swizzle;

TEST_CASE("shared-memory descriptors of real kernels") {
  SharedMatrix d = decode_tcgen05_descriptor(fp4lab::operand_descriptor(0x0100'2400 + 32), "A");
  CHECK(d.start == 0x2420);  // without the CTA's rank
  CHECK(d.sbo == 1024);
  CHECK(d.swizzle == Swizzle::b128);
  CHECK(d.k_major_address(0, 0) == 0x2420);
  CHECK(d.k_major_address(9, 16) == ((0x2420 + 1024 + 128 + 16) ^ 0x10));
  d = decode_tcgen05_descriptor(fp4lab::scale_descriptor(0x800), "scales");
  CHECK(d.swizzle == Swizzle::none);
  CHECK(d.k_major_address(31, 15) == 0x800 + 31 * 16 + 15);
  CHECK(decode_tcgen05_descriptor(0x4000'4040'0000'0000, "A").lbo == 0);
  SharedMatrix w = decode_wgmma_descriptor(0x4000'0040'0001'0000, "A");
  CHECK(w.swizzle == Swizzle::b128);
  CHECK(w.sbo == 1024);
}

// CUTLASS's atom for MN-major tf32 is 128 bytes by 4 rows of k (cute/arch/mma_sm100_desc.hpp, BASE32B). A
// product of 8 rows has two, SBO apart and not necessarily adjacent.
TEST_CASE("atoms of the 32-byte-base swizzle have four rows of k") {
  const SharedMatrix d{
      .start = 0x2000, .lbo = 512, .sbo = 2048, .swizzle = Swizzle::b128_atom32, .k_major = false};
  CHECK(d.mn_major_address(0, 3, 4) == ((0x2000 + 3 * 128) ^ 0x60));
  CHECK(d.mn_major_address(0, 4, 4) == 0x2000 + 2048);
  CHECK(d.mn_major_address(33, 5, 4) == ((0x2000 + 512 + 2048 + 128 + 4) ^ 0x20));
}

// wgmma.m64n8k16.f32.f16.f16 on an H200, 2026-11-21, B K-major of 8 rows: the source of the first and the
// second 16 bytes of each row, as offsets from an address that is a multiple of 1024.
TEST_CASE("the base offset shifts the swizzle's pattern as on an H200") {
  const struct {
    unsigned swizzle, start, base;
    uint32_t read[8][2];
  } seen[] = {
      {1,
       128,
       3,
       {{224, 240}, {368, 352}, {384, 400}, {528, 512}, {672, 688}, {816, 800}, {960, 976}, {1104, 1088}}},
      {1,
       32,
       5,
       {{16, 0}, {224, 240}, {368, 352}, {448, 464}, {592, 576}, {672, 688}, {816, 800}, {896, 912}}},
      {1,
       896,
       7,
       {{896, 912},
        {1040, 1024},
        {1184, 1200},
        {1328, 1312},
        {1472, 1488},
        {1616, 1600},
        {1760, 1776},
        {1904, 1888}}},
      {2,
       384,
       2,
       {{400, 384}, {464, 448}, {544, 560}, {608, 624}, {688, 672}, {752, 736}, {768, 784}, {832, 848}}},
      {2,
       32,
       7,
       {{48, 32}, {112, 96}, {128, 144}, {192, 208}, {272, 256}, {336, 320}, {416, 432}, {480, 496}}},
      {3,
       160,
       1,
       {{160, 176}, {192, 208}, {224, 240}, {272, 256}, {304, 288}, {336, 320}, {368, 352}, {384, 400}}},
      {3,
       256,
       6,
       {{256, 272}, {288, 304}, {320, 336}, {352, 368}, {400, 384}, {432, 416}, {464, 448}, {496, 480}}},
  };
  for (const auto& s : seen) {
    CAPTURE(s.swizzle);
    CAPTURE(s.start);
    CAPTURE(s.base);
    const uint64_t bits = (0x2400 + s.start) >> 4 | uint64_t(1024 >> 4) << 32 | uint64_t(s.base) << 49 |
                          uint64_t(s.swizzle) << 62;
    const SharedMatrix d = decode_wgmma_descriptor(bits, "B");
    for (unsigned row = 0; row < 8; ++row)
      for (unsigned half = 0; half < 2; ++half)
        CHECK(d.k_major_address(row, 16 * half) == 0x2400 + s.read[row][half]);
  }
}

// A sample of products on an H200, 2026-11-22 (wgmma of u8 and f16, one operand the identity). For 6300
// random descriptors each chunk of the operand came from the address that these functions give: starts in the
// middle of a span, strides that are not a multiple of the pattern, base offsets, reserved bits, and 64 bytes
// of K (of a sparse A's B).
TEST_CASE("descriptors outside the canonical layouts work as on an H200") {
  struct Read {
    uint32_t row, k, address;  // row or column, byte or row of K
  };
  const struct {
    uint64_t bits;
    std::vector<Read> reads;
    bool mn_major = false;  // of 16-bit elements
  } seen[] = {
      {0x4000000300a0020f,
       {{0, 0, 0x20e0},
        {9, 0, 0x2190},
        {127, 0, 0x2720},
        {0, 16, 0x2120},
        {9, 16, 0x2180},
        {127, 16, 0x2730}}},
      {0x800600a401001de3,
       {{0, 0, 0x1de20}, {9, 0, 0x1e890}, {127, 0, 0x279b0}, {0, 16, 0x1de50}, {9, 16, 0x1e8e0}}},
      {0x250808242000334, {{1, 0, 0x3350}, {9, 0, 0x3b70}, {127, 0, 0xad90}, {9, 16, 0x5b70}}},
      {0xc0000200000c012d, {{0, 0, 0x12c0}, {63, 0, 0xf3a0}, {1, 16, 0x1300}, {63, 16, 0xf3d0}}},
      {0xc000004800141ec9,
       {{0, 0, 0x1ec80},
        {9, 16, 0x1f140},
        {0, 32, 0x1edc0},
        {9, 32, 0x1f270},
        {0, 48, 0x1edf0},
        {9, 48, 0x1f290}}},
      {0xc0000167002800d1, {{9, 16, 0x23a0}, {0, 32, 0xf80}, {9, 32, 0x2620}, {9, 48, 0x2630}}},
      {0x85408125800004fe,
       {{0, 0, 0x4fd0}, {9, 0, 0x6270}, {9, 16, 0x6290}, {0, 32, 0x5000}, {9, 32, 0x6280}, {9, 48, 0x62b0}}},
      {0x400a0006002000b8,
       {{0, 0, 0xba0}, {72, 0, 0xdf0}, {8, 1, 0xc20}, {72, 8, 0xd90}, {120, 15, 0x11b0}},
       true},
      {0x8008003e014b040f, {{8, 0, 0x4120}, {72, 0, 0x6a60}, {72, 8, 0x6e40}, {120, 15, 0x84c0}}, true},
  };
  for (const auto& s : seen) {
    CAPTURE(s.bits);
    const SharedMatrix d = decode_wgmma_descriptor(s.bits & ~kWgmmaReserved, "B");
    for (const Read& r : s.reads) {
      CAPTURE(r.row);
      CAPTURE(r.k);
      CHECK((s.mn_major ? d.mn_major_address(r.row, r.k, 2) : d.k_major_address(r.row, r.k)) == r.address);
    }
  }
}

TEST_CASE("refused fields of shared-memory descriptors are named with their value") {
  const uint64_t good = fp4lab::operand_descriptor(0x2400);
  auto refused = [&](uint64_t bits, const char* part) {
    CHECK_THROWS_WITH_AS(decode_tcgen05_descriptor(bits, "descriptor of A"), doctest::Contains(part), Fault);
  };
  refused(good & ~(uint64_t(7) << 46),
          "constant field (a wgmma descriptor has 0 there) (bits 48:46) is 0, must be 1");
  refused(good | uint64_t(1) << 14, "bits 15:14");
  refused(good | uint64_t(1) << 31, "bits 31:30");
  refused(good | uint64_t(1) << 52, "bit 52");
  refused(good | uint64_t(1) << 57, "bits 60:53");
  refused(good | uint64_t(1) << 61, "swizzle (bits 63:61) is 3");
  CHECK_THROWS_AS(decode_wgmma_descriptor(good, "A"), Fault);
}

TEST_CASE("instruction descriptors of real kernels") {
  InstructionDescriptor d = decode_instruction_descriptor(0x08400480, MmaKind::mxf4nvf4, 4, 1, false);
  CHECK(d.m == 128);
  CHECK(d.n == 256);
  CHECK_FALSE(d.scale_ue8m0);
  d = decode_instruction_descriptor(0x10400480, MmaKind::mxf4nvf4, 4, 2, false);
  CHECK(d.m == 256);
  d = decode_instruction_descriptor(0x08400490, MmaKind::f16, 0, 1, false);
  CHECK(d.m == 128);
  CHECK(d.n == 256);
  CHECK(d.a_format == 1);
  CHECK(d.d_format == 1);
}

TEST_CASE("M and N of NVFP4 by the table of shapes, all of them") {
  for (unsigned m = 0; m <= 3; ++m)
    for (unsigned n8 = 0; n8 < 64; ++n8)
      for (unsigned group = 1; group <= 2; ++group) {
        const uint32_t bits = 1u << 7 | 1u << 10 | n8 << 17 | m << 27;
        const bool legal =
            (group == 1 ? m == 1 : m == 1 || m == 2) && n8 >= group && n8 <= 32 && n8 % group == 0;
        bool accepted = true;
        try {
          decode_instruction_descriptor(bits, MmaKind::mxf4nvf4, 4, group, false);
        } catch (const Fault&) {
          accepted = false;
        }
        CAPTURE(m);
        CAPTURE(n8);
        CAPTURE(group);
        CHECK(accepted == legal);
      }
}

TEST_CASE("refused fields of instruction descriptors") {
  auto refused = [](uint32_t bits, MmaKind kind, unsigned vec, const char* part) {
    CHECK_THROWS_WITH_AS(decode_instruction_descriptor(bits, kind, vec, 1, false), doctest::Contains(part),
                         Fault);
  };
  const uint32_t good = 0x08200480;
  refused(good & ~(7u << 7), MmaKind::mxf4nvf4, 4, "A type (bits 9:7) is 0, valid for this kind: 1 e2m1");
  refused(good | 1u << 15, MmaKind::mxf4nvf4, 4, "K-major only");
  refused(good | 1u << 29, MmaKind::mxf4nvf4, 4, "scale factor id of A (bits 30:29) is 1");
  refused(good | 2u << 4, MmaKind::mxf4nvf4, 4, "scale factor id of B (bits 5:4) is 2");
  refused(good | 1u << 31, MmaKind::mxf4nvf4, 4, "K size");
  refused(good | 1u << 2, MmaKind::mxf4nvf4, 4, "sparse flag");
  refused(good, MmaKind::mxf4, 2, "scale type (bit 23) is 0");
  refused(good, MmaKind::mxf4nvf4, 2, "scale type (bit 23) is 0");
  CHECK_NOTHROW(decode_instruction_descriptor(good | 1u << 23 | 2u << 29, MmaKind::mxf4, 2, 1, false));
  refused(0x04400480, MmaKind::mxf4nvf4, 4, "bits 26:24");  // M = 64 as encoded for the plain kinds
  refused(0x08400490 & ~(63u << 17), MmaKind::f16, 0, "N = 0");
  refused(0x0c400490, MmaKind::f16, 0, "M = 192");
  refused(0x08400490, MmaKind::i8, 0, "D type (s32)");
  refused(0x08400480, MmaKind::f16, 0,
          "D type (bits 5:4) is 0 f16, which takes f16 operands only; A is bf16");
  refused(0x08400090, MmaKind::f16, 0, "A type (bits 9:7) is bf16, B type (bits 12:10) is f16");
  const auto stationary = [](uint32_t m, uint32_t shift) {
    return decode_instruction_descriptor(0x00100490 | m / 16 << 24 | shift << 30, MmaKind::f16, 0, 1, false,
                                         true);
  };
  for (uint32_t shift = 0; shift < 3; ++shift) CHECK_NOTHROW(stationary(32, shift));
  CHECK_NOTHROW(stationary(64, 3));
  CHECK_THROWS_WITH_AS(stationary(32, 3), doctest::Contains("with M = 32 it must be 0, 1 or 2"), Fault);
  // Bytes of a transposed B: N in steps of 16 in one CTA, of 32 in a pair (PTX ISA 9.7.16.10.1).
  const auto n_of = [](uint32_t n) { return 0x08000010 | n / 8 << 17; };
  CHECK_NOTHROW(decode_instruction_descriptor(n_of(24), MmaKind::f8f6f4, 0, 1, false));
  refused(n_of(24) | 1u << 16, MmaKind::f8f6f4, 0, "N = 24: must be a multiple of 16 where B is transposed");
  CHECK_NOTHROW(decode_instruction_descriptor(n_of(48) | 1u << 16, MmaKind::f8f6f4, 0, 1, false));
  CHECK_THROWS_WITH_AS(decode_instruction_descriptor(n_of(48) | 1u << 16, MmaKind::f8f6f4, 0, 2, false),
                       doctest::Contains("N = 48: must be a multiple of 32"), Fault);
  CHECK_NOTHROW(decode_instruction_descriptor(n_of(24) | 1u << 16, MmaKind::f16, 0, 1, false));
}

// The examples of PTX ISA 9.7.16.4.3, from the least significant bit on.
TEST_CASE("zero-column masks") {
  auto mask = [](uint64_t counts, uint64_t spans, unsigned m, const char* begins, unsigned part) {
    const auto bits = zero_column_mask(counts | spans << 32 | 1ull << 39 | 2ull << 40 | 3ull << 48, m, 128);
    std::string text;
    for (unsigned i = 0; i < std::strlen(begins); ++i) text += bits.at(part * m + i) ? '1' : '0';
    return text == begins;
  };
  CHECK(zero_column_mask(4ull << 40 | 3ull << 48, 128, 128).empty());
  CHECK(mask(0, 0, 128, "00001110000111", 0));
  CHECK(mask(0, 1, 64, "11100001110000111", 0));
  CHECK(mask(0, 1, 64, "00001110000111", 1));
  const uint64_t counts = 0 | 1 << 8 | 2 << 16 | 1 << 24;
  CHECK(mask(counts, 3, 32, "11100001110000", 0));
  CHECK(mask(counts, 3, 32, "1100001110000", 1));
  CHECK(mask(counts, 3, 32, "001110000111", 2));
  CHECK(mask(counts, 3, 32, "0001110000111", 3));
}
