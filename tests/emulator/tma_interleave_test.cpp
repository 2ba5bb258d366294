// Interleaved tensor maps (PTX ISA 5.5 names the layouts NC/8HWC8 and NC/16HWC16).
#include <doctest/doctest.h>

#include "tma_kernel.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

// Behaviour of an H200 for maps of rank 3 to 5 (2026-11-22): units of 16 or 32 bytes are contiguous; one
// slice of channels (dimension 1 of 3) whatever the box says; bounds and coordinates in units.
TEST_CASE("interleaved maps: dimension 0 counts units, and a box holds one slice of channels") {
  const std::vector<uint8_t> source = pattern(16 * 1024);
  constexpr uint32_t kUnits = 8, kImages = 2;  // of the box {8, 3, 2}
  struct Place {
    int unit, slice, image;
  };
  for (const uint32_t unit : {16u, 32u})
    for (const Place at :
         {Place{0, 0, 0}, Place{3, 2, 1}, Place{-2, 1, 0}, Place{5, 0, 3}, Place{0, -1, 0}}) {
      const uint32_t bytes = unit * kUnits * kImages;
      TensorMap m;
      m.type = TensorType::u16, m.rank = 3, m.interleave = unit == 16 ? 1 : 2;
      m.swizzle = unit == 16 ? TensorSwizzle::none : TensorSwizzle::b32;
      m.dim = {10, 4, 4}, m.stride = {0, 512, 4096};
      m.box = {kUnits, 3, kImages}, m.element_stride = {1, 1, 1};
      const std::string coordinates = fmt::format("{{{}, {}, {}}}", at.unit, at.slice, at.image);
      const auto run = [&](Kernel& k, uint64_t tensor) {
        m.address = tensor;
        CHECK(m.invalid(true).empty());
        k.map(m);
        const uint64_t out = k.buffer(bytes);
        k.param(out);
        k.config.dynamic_shared = bytes;
        const LaunchResult r = k.run(4);
        INFO(r.report);
        REQUIRE(r.ok);
        return out;
      };
      CAPTURE(unit);
      CAPTURE(coordinates);
      // The places of the box's bytes: in the tensor (none if out of bounds), and in shared memory at 0x800.
      const auto each = [&](auto&& visit) {
        for (uint32_t i = 0; i < bytes; ++i) {
          const int x = at.unit + static_cast<int>(i / unit % kUnits),
                    z = at.image + static_cast<int>(i / unit / kUnits);
          const bool inside = x >= 0 && x < 10 && at.slice >= 0 && z < 4;
          const int in = z * 4096 + at.slice * 512 + x * static_cast<int>(unit) + static_cast<int>(i % unit);
          visit(inside ? in : -1, unit == 32 ? i ^ (i >> 3 & 0x10) : i);
        }
      };
      Kernel load(copy_kernel(bytes, "mov.u32 %r6, 0xcbcbcbcb;",
                              fmt::format("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {};\n"
                                          "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::"
                                          "complete_tx::bytes [%r0], [%rd0, {}], [%r1];",
                                          bytes, coordinates),
                              wait("%r1", 0)));
      std::vector<uint8_t> want(bytes);
      each([&](int in, uint32_t shared) { want[shared] = in < 0 ? 0 : source[static_cast<size_t>(in)]; });
      const uint64_t out = run(load, load.upload(source));
      CHECK(load.download<uint8_t>(out, bytes) == want);

      if (at.unit < 0 || at.slice < 0) continue;  // a store there traps
      Kernel store(copy_kernel(bytes, "mad.lo.u32 %r6, %r4, 0x01030507, 99;",
                               fmt::format("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
                                           "[%rd0, {}], [%r0];\n"
                                           "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;",
                                           coordinates),
                               ""));
      const uint64_t tensor = store.upload(source);
      const std::vector<uint8_t> stored = store.download<uint8_t>(run(store, tensor), bytes);
      std::vector<uint8_t> after = source;
      each([&](int in, uint32_t shared) {
        if (in >= 0) after[static_cast<size_t>(in)] = stored[shared];
      });
      CHECK(store.download<uint8_t>(tensor, after.size()) == after);
    }
}

// Behaviour of an H200 for 41 such maps of rank 3 to 5 (2026-11-22): dimension 0 is the pictures' width, the
// corners are those of the dimensions from 0 on, and a pixel is one unit, whatever channelsPerPixel says.
TEST_CASE("interleaved im2col maps: a unit of each pixel of one slice of channels") {
  constexpr int kWidth = 6, kHeight = 5, kSlices = 3, kImages = 3, kPixels = 30, kStride[3] = {2, 1, 2};
  constexpr int kLower[2] = {-1, 0}, kUpper[2] = {-2, -1}, kStart[4] = {1, 2, 1, 0}, kOffset[2] = {1, 0};
  const std::vector<uint8_t> source = pattern(kWidth * kHeight * kSlices * kImages * 16);
  TensorMap m;
  m.type = TensorType::f16, m.rank = 4, m.interleave = 1, m.im2col = true, m.pixels = kPixels;
  m.dim = {kWidth, kHeight, kSlices, kImages};
  m.stride = {0, kWidth * 16, kWidth * kHeight * 16, kWidth * kHeight * kSlices * 16};
  m.box = {24, 1, 1, 1}, m.element_stride = {kStride[0], kStride[1], 1, kStride[2]};
  m.lower = {kLower[0], kLower[1]}, m.upper = {kUpper[0], kUpper[1]};
  Kernel k(copy_kernel(
      kPixels * 16, "mov.u32 %r6, 0xcbcbcbcb;",
      fmt::format("mov.b16 %h0, {}; mov.b16 %h1, {};\n"
                  "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {};\n"
                  "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r0], "
                  "[%rd0, {{{}, {}, {}, {}}}], [%r1], {{%h0, %h1}};",
                  kOffset[0], kOffset[1], kPixels * 16, kStart[0], kStart[1], kStart[2], kStart[3]),
      wait("%r1", 0)));
  m.address = k.upload(source);
  CHECK(m.invalid(true).empty());
  k.map(m);
  const uint64_t out = k.buffer(kPixels * 16);
  k.param(out);
  k.config.dynamic_shared = kPixels * 16;
  const LaunchResult r = k.run(4);
  INFO(r.report);
  REQUIRE(r.ok);
  std::vector<uint8_t> want;
  int x = kStart[0], y = kStart[1], image = kStart[3];
  for (int p = 0; p < kPixels; ++p) {
    const int px = x + kOffset[0], py = y + kOffset[1];
    const bool inside = px >= 0 && px < kWidth && py >= 0 && py < kHeight && image < kImages;
    for (int i = 0; i < 16; ++i)
      want.push_back(inside ? source[static_cast<size_t>(
                                  (((image * kSlices + kStart[2]) * kHeight + py) * kWidth + px) * 16 + i)]
                            : 0);
    x += kStride[0];
    if (x <= kWidth - 1 + kUpper[0]) continue;
    x = kLower[0], y += kStride[1];
    if (y <= kHeight - 1 + kUpper[1]) continue;
    y = kLower[1], image += kStride[2];
  }
  CHECK(k.download<uint8_t>(out, kPixels * 16) == want);
  m.lower[1] = 4;  // of dimension 1, which has 5 - 1
  CHECK(m.invalid(true) == "the bounding box of dimension 1 is empty: from 4 to 5 - 1 + -1");
}
