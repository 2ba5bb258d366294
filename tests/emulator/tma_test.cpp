// cp.async.bulk.tensor and cp.async.bulk on the emulator: boxes at the edges, swizzles, byte counts, stores,
// reductions, and wrong waits or expect_tx.
#include <doctest/doctest.h>

#include <cstring>

#include "tma_kernel.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

TensorMap byte_map(uint64_t address, TensorSwizzle swizzle, uint32_t box0, uint32_t box1) {
  TensorMap m;
  m.type = TensorType::u8, m.swizzle = swizzle, m.rank = 2, m.address = address;
  m.dim = {256, 40, 1, 1, 1}, m.stride = {0, 256, 0, 0, 0};
  m.box = {box0, box1, 1, 1, 1}, m.element_stride = {1, 1, 1, 1, 1};
  return m;
}

// Loads the box at (x, y) to smem + `at`, expecting `bytes`, over `copied` bytes of 0xcb.
std::string load_kernel(uint32_t at, uint32_t bytes, int x, int y, uint32_t copied) {
  return copy_kernel(copied, "mov.u32 %r6, 0xcbcbcbcb;",
                     fmt::format(R"(add.u32 %r2, %r0, {};
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {};
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd0, {{{}, {}}}], [%r1];)",
                                 at, bytes, x, y),
                     wait("%r1", 0));
}

}  // namespace

// The expected bytes of the destination, computed from coordinates alone by the manual's rule.
TEST_CASE("loads: every swizzle, inside and across each edge, at destinations off the pattern's period") {
  const std::vector<uint8_t> source = pattern(256 * 40);
  struct Place {
    int x, y;
  };
  for (TensorSwizzle swizzle :
       {TensorSwizzle::none, TensorSwizzle::b32, TensorSwizzle::b64, TensorSwizzle::b128})
    for (Place place : {Place{64, 8}, Place{-16, -5}, Place{240, 36}, Place{0, 100}, Place{-512, 0}})
      for (uint32_t at : {0u, 128u, 512u}) {
        const uint32_t width = swizzle == TensorSwizzle::b32   ? 32
                               : swizzle == TensorSwizzle::b64 ? 64
                                                               : 128,
                       height = 16;
        const uint32_t bytes = width * height, copied = bytes + 1024;
        Kernel k(load_kernel(at, bytes, place.x, place.y, copied));
        k.map(byte_map(k.upload(source), swizzle, width, height));
        const uint64_t out = k.buffer(copied);
        k.param(out);
        k.config.dynamic_shared = copied + 64;
        LaunchResult r = k.run(at + static_cast<uint64_t>(place.x + 1000));
        INFO(r.report);
        REQUIRE(r.ok);
        std::vector<uint8_t> want(copied, 0xcb);
        for (uint32_t row = 0; row < height; ++row)
          for (uint32_t column = 0; column < width; ++column) {
            const int x = place.x + static_cast<int>(column), y = place.y + static_cast<int>(row);
            const bool inside = x >= 0 && x < 256 && y >= 0 && y < 40;
            // `smem` follows the 8 bytes of the barrier: 1024-aligned, so at 0x800
            uint32_t a = 0x800 + at + row * width + column;
            const uint32_t line = a / 128;
            uint32_t chunk = a / 16 % 8;
            if (swizzle == TensorSwizzle::b128) chunk ^= line % 8;
            if (swizzle == TensorSwizzle::b64) chunk ^= line % 4;
            if (swizzle == TensorSwizzle::b32) chunk ^= line % 2;
            a = line * 128 + chunk * 16 + a % 16;
            want[a - 0x800] = inside ? source[static_cast<size_t>(y * 256 + x)] : 0;
          }
        CAPTURE(static_cast<int>(swizzle));
        CAPTURE(place.x);
        CAPTURE(at);
        CHECK(k.download<uint8_t>(out, copied) == want);
      }
}

// Done by a contest's group GEMM for each call (see tensor_map_test.cpp).
TEST_CASE("a load by a map into which a program wrote the address: a note, or a fault") {
  const std::vector<uint8_t> source = pattern(256 * 40);
  for (const bool tolerant : {true, false}) {
    Kernel k(load_kernel(0, 128, 32, 3, 128));
    const uint64_t address = k.upload(source);
    k.map(byte_map(0, TensorSwizzle::none, 128, 1));
    std::memcpy(k.params.data(), &address, sizeof address);
    const uint64_t out = k.buffer(128);
    k.param(out);
    k.config.dynamic_shared = 256;
    k.schedule.tolerant = tolerant;
    const LaunchResult r = k.run(1);
    INFO(r.report);
    CHECK((tolerant ? r.notes : r.report).find("wrote into the tensor map") != std::string::npos);
    REQUIRE(r.ok == tolerant);
    if (!tolerant) continue;
    const auto* first = source.data() + 3 * 256 + 32;
    CHECK(k.download<uint8_t>(out, 128) == std::vector<uint8_t>(first, first + 128));
  }
}

TEST_CASE(
    "loads by a TFLOAT32 map round f32 to tf32, with or without flushing; the fill value is not rounded") {
  const std::vector<uint32_t> source = {0x3f801234, 0xbf801000, 0x3f803000,
                                        0xffffffff, 0x00001800, 0x7f7fffff};
  const std::vector<uint32_t> rounded = {0x3f802000, 0xbf800000, 0x3f804000,
                                         0x7fffe000, 0x00002000, 0x7f800000};
  for (TensorType type : {TensorType::f32, TensorType::tf32, TensorType::tf32_ftz}) {
    Kernel k(load_kernel(0, 32, 0, 0, 128));
    TensorMap m;
    m.type = type, m.rank = 2, m.address = k.upload(source), m.fill = 1;
    m.dim = {6, 1, 1, 1, 1}, m.stride = {0, 32, 0, 0, 0};
    m.box = {8, 1, 1, 1, 1}, m.element_stride = {1, 1, 1, 1, 1};
    k.map(m);
    const uint64_t out = k.buffer(128);
    k.param(out);
    k.config.dynamic_shared = 128;
    const LaunchResult r = k.run(2);
    INFO(r.report);
    REQUIRE(r.ok);
    std::vector<uint32_t> want = type == TensorType::f32 ? source : rounded;
    want.insert(want.end(), 2, 0x7ff77ff7);
    CHECK(k.download<uint32_t>(out, 8) == want);
  }
}

TEST_CASE("byte counts: the full box counts, whatever lies outside") {
  const std::vector<uint8_t> source = pattern(256 * 40);
  auto run = [&](uint32_t bytes, int x, int y) {
    Kernel k(load_kernel(0, bytes, x, y, 2048));
    k.map(byte_map(k.upload(source), TensorSwizzle::none, 128, 16));
    k.param(k.buffer(2048));
    k.config.dynamic_shared = 4096;
    return k.run(3);
  };
  CHECK(run(2048, 0, 32).ok);
  LaunchResult r = run(1024, 0, 32);  // only the rows in bounds: more bytes arrive than expected
  CHECK_FALSE(r.ok);
  r = run(4096, 0, 0);
  CHECK_FALSE(r.ok);
  CHECK(r.kind == FaultKind::deadlock);
  CHECK(r.report.find("2048 bytes pending") != std::string::npos);
  CHECK(r.report.find("(bar)") != std::string::npos);
  r = run(2048, 8, 0);
  CHECK(r.kind == FaultKind::coordinates);
  CHECK(r.report.find("innermost start coordinate 8") != std::string::npos);
}

TEST_CASE("some seed reveals a missing wait") {
  const std::vector<uint8_t> source = pattern(256 * 40);
  std::string text = load_kernel(0, 2048, 0, 0, 2048);
  const size_t begin = text.find("W", text.find("WAIT: bar.sync") + 4), end = text.find("mul.lo", begin);
  text.erase(begin, end - begin);
  unsigned noticed = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Kernel k(text);
    k.map(byte_map(k.upload(source), TensorSwizzle::none, 128, 16));
    const uint64_t out = k.buffer(2048);
    k.param(out);
    k.config.dynamic_shared = 4096;
    LaunchResult r = k.run(seed);
    bool right = r.ok;
    if (right) {
      auto got = k.download<uint8_t>(out, 2048);
      for (uint32_t i = 0; i < 2048 && right; ++i) right = got[i] == source[i / 128 * 256 + i % 128];
    }
    noticed += !right;
  }
  CHECK(noticed >= 15);
}

namespace {

// Fills smem with words 1, 2, 3, ..., stores the box at (x, y) and waits until it is written.
std::string store_kernel(const std::string& instruction, const std::string& after) {
  return module_text("sm_90a", ".param .align 64 .b8 map[128]", R"(
    mov.u32 %r0, smem;
    mov.b64 %rd0, map; cvta.param.u64 %rd0, %rd0;
    mov.u32 %r4, 0;
  P: add.u32 %r5, %r0, %r4; shr.u32 %r6, %r4, 2; add.u32 %r6, %r6, 1; st.shared.u32 [%r5], %r6; add.u32 %r4, %r4, 4;
    setp.lt.u32 %p1, %r4, 1024;
    @%p1 bra P;
    fence.proxy.async.shared::cta;
    )" + instruction + "\n cp.async.bulk.commit_group;\n" + after);
}

TensorMap word_map(uint64_t address, TensorType type) {
  TensorMap m;
  m.type = type, m.rank = 2, m.address = address;
  m.dim = {20, 10, 1, 1, 1}, m.stride = {0, 80, 0, 0, 0};
  m.box = {16, 16, 1, 1, 1}, m.element_stride = {1, 1, 1, 1, 1};
  return m;
}

}  // namespace

TEST_CASE("stores and reductions write only what is in bounds") {
  for (std::string op : {"", ".add", ".max"}) {
    const std::string name =
        op.empty() ? "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
                   : "cp.reduce.async.bulk.tensor.2d.global.shared::cta" + op + ".tile.bulk_group";
    Kernel k(store_kernel(name + " [%rd0, {8, 3}], [%r0];", "cp.async.bulk.wait_group 0;"));
    std::vector<uint32_t> before(20 * 10, 100);
    const uint64_t out = k.upload(before);
    k.map(word_map(out, TensorType::u32));
    k.config.block.x = 1;
    k.config.dynamic_shared = 2048;
    LaunchResult r = k.run(9);
    INFO(r.report);
    REQUIRE(r.ok);
    std::vector<uint32_t> want = before;
    for (uint32_t y = 3; y < 10; ++y)
      for (uint32_t x = 8; x < 20; ++x) {
        const uint32_t v = (y - 3) * 16 + (x - 8) + 1;
        uint32_t& w = want[y * 20 + x];
        w = op.empty() ? v : op == ".add" ? w + v : std::max(w, v);
      }
    CHECK(k.download<uint32_t>(out, 200) == want);
  }
}

TEST_CASE("an INT64 map has min and max, but no add, and, or and xor: an H200 traps") {
  using Tried = std::pair<TensorType, const char*>;
  for (const auto& [type, operation] : {Tried{TensorType::s64, "xor"},
                                        {TensorType::u64, "xor"},
                                        {TensorType::s64, "add"},
                                        {TensorType::u64, "add"},
                                        {TensorType::s64, "min"}}) {
    CAPTURE(operation);
    Kernel k(store_kernel(
        fmt::format(
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.{}.bulk_group [%rd0, {{0, 0}}], [%r0];",
            operation),
        "cp.async.bulk.wait_group 0;"));
    TensorMap m = word_map(k.upload(std::vector<uint32_t>(200)), type);
    m.dim = {10, 10, 1, 1, 1}, m.box = {8, 8, 1, 1, 1};
    k.map(m);
    k.config.block.x = 1;
    k.config.dynamic_shared = 2048;
    const LaunchResult r = k.run(1);
    CHECK(r.ok == (type == TensorType::u64 || operation == std::string("min")));
    if (!r.ok) CHECK(r.kind == FaultKind::illegal_instruction);
  }
}

// Seen on an H200 (2026-11-22).
TEST_CASE("sums of FLOAT32_FTZ and TFLOAT32_FTZ maps flush subnormal numbers") {
  for (TensorType type : {TensorType::f32, TensorType::f32_ftz, TensorType::tf32, TensorType::tf32_ftz}) {
    Kernel k(store_kernel(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd0, {0, 0}], [%r0];",
        "cp.async.bulk.wait_group 0;"));
    const uint64_t tensor = k.upload(std::vector<uint32_t>(200, 5));  // subnormal
    TensorMap m = word_map(tensor, type);
    m.dim = {10, 10, 1, 1, 1}, m.box = {8, 8, 1, 1, 1};
    k.map(m);
    k.config.block.x = 1;
    k.config.dynamic_shared = 2048;
    REQUIRE(k.run(1).ok);
    const bool flush = type == TensorType::f32_ftz || type == TensorType::tf32_ftz;
    CHECK((k.download<uint32_t>(tensor, 1)[0] == 0) == flush);
  }
}

TEST_CASE("wait_group.read frees the source but promises nothing about the destination") {
  // The source is overwritten right after the wait for the read, so it must have been read by then; the
  // result is only certain after the second wait.
  Kernel k(store_kernel(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {0, 0}], [%r0];",
      "cp.async.bulk.wait_group.read 0;\nst.shared.u32 [%r0], 77;\ncp.async.bulk.wait_group 0;"));
  const uint64_t out = k.buffer(20 * 10 * 4);
  k.map(word_map(out, TensorType::u32));
  k.config.block.x = 1;
  k.config.dynamic_shared = 2048;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    REQUIRE(k.run(seed).ok);
    CHECK(k.download<uint32_t>(out, 1)[0] == 1);
  }
  // Without any wait some seed reveals the overwriting.
  Kernel bad(store_kernel("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {0, 0}], [%r0];",
                          "st.shared.u32 [%r0], 77;\ncp.async.bulk.wait_group 0;"));
  const uint64_t out2 = bad.buffer(20 * 10 * 4);
  bad.map(word_map(out2, TensorType::u32));
  bad.config.block.x = 1;
  bad.config.dynamic_shared = 2048;
  unsigned wrong = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    REQUIRE(bad.run(seed).ok);
    wrong += bad.download<uint32_t>(out2, 1)[0] == 77;
  }
  CHECK(wrong > 0);
}

TEST_CASE("bulk copies: there and back, and their alignment") {
  auto text = [](const std::string& size, const std::string& source) {
    return module_text("sm_90a", ".param .u64 in, .param .u64 out",
                       fmt::format(R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r0, smem; mov.u32 %r1, bar; ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];
      mbarrier.init.shared::cta.b64 [%r1], 1;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 512;
      mov.u32 %r2, {0};
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [{1}], %r2, [%r1];
      {2}
      cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r0], 512;
      cp.async.bulk.commit_group;
      cp.async.bulk.wait_group 0;
      cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1+16], [%r0], 32;
      cp.async.bulk.commit_group;
      cp.async.bulk.wait_group 0;)",
                                   size, source, wait("%r1", 0)));
  };
  std::vector<uint32_t> in(256);
  for (uint32_t i = 0; i < 256; ++i) in[i] = i * 3 + 1;
  auto run = [&](const std::string& size, const std::string& source, std::vector<uint32_t>* got = nullptr) {
    Kernel k(text(size, source));
    const uint64_t a = k.upload(in), b = k.buffer(1024);
    k.param(a), k.param(b);
    k.config.block.x = 1;
    k.config.dynamic_shared = 1024;
    LaunchResult r = k.run(4);
    if (got) *got = k.download<uint32_t>(b, 128);
    return r;
  };
  std::vector<uint32_t> got, want(in.begin(), in.begin() + 128);
  REQUIRE(run("512", "%rd0", &got).ok);
  for (uint32_t i = 0; i < 8; ++i) want[4 + i] += in[i];
  CHECK(got == want);
  LaunchResult r = run("500", "%rd0");
  CHECK(r.kind == FaultKind::misaligned_address);
  CHECK(r.report.find("0x1f4 is not a multiple of 16") != std::string::npos);
  CHECK(run("512", "%rd0+8").kind == FaultKind::misaligned_address);
  r = run("512", "%rd0+768");  // ends 256 bytes past the end of the allocation
  CHECK(r.kind == FaultKind::illegal_address);
}

TEST_CASE("gather4 and scatter4: four arbitrary rows") {
  const std::vector<uint8_t> source = pattern(256 * 40);
  const std::string text = module_text(
      "sm_100a", ".param .align 64 .b8 map[128], .param .align 64 .b8 to[128], .param .u64 out", R"(
    .shared .align 8 .b64 bar;
    mov.u32 %r0, smem; mov.u32 %r1, bar; mov.u32 %r3, %tid.x; setp.ne.u32 %p0, %r3, 0;
    mov.b64 %rd0, map; cvta.param.u64 %rd0, %rd0; mov.b64 %rd3, to; cvta.param.u64 %rd3, %rd3;
    @%p0 bra END;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 256;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes
      [%r0], [%rd0, {64, 7, 39, 3, 40}], [%r1];
  )" + wait("%r1", 0) + R"(
    cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd3, {128, 1, 0, 50, 38}], [%r0];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
  END:)");
  for (uint64_t seed : {1, 2, 3}) {
    Kernel k(text);
    k.map(byte_map(k.upload(source), TensorSwizzle::b64, 64, 1));
    const uint64_t target = k.buffer(256 * 40);
    k.map(byte_map(target, TensorSwizzle::b64, 64, 1));
    k.config.dynamic_shared = 1024;
    k.param(target);
    LaunchResult r = k.run(seed);
    INFO(r.report);
    REQUIRE(r.ok);
    std::vector<uint8_t> want(256 * 40);
    const int from[] = {7, 39, 3, 40},
              to[] = {1, 0, 50, 38};  // row 40 is out of bounds: zeros; row 50 too: not stored
    for (int i = 0; i < 4; ++i)
      for (int c = 0; c < 64; ++c)
        if (to[i] < 40) want[to[i] * 256 + 128 + c] = from[i] < 40 ? source[from[i] * 256 + 64 + c] : 0;
    CHECK(k.download<uint8_t>(target, 256 * 40) == want);
  }
  Kernel two_rows(text);
  two_rows.map(byte_map(two_rows.upload(source), TensorSwizzle::b64, 64, 2));
  two_rows.map(byte_map(two_rows.buffer(256 * 40), TensorSwizzle::b64, 64, 2));
  two_rows.config.dynamic_shared = 1024;
  two_rows.param(0);
  CHECK(two_rows.run().report.find("with one row") != std::string::npos);
}

namespace {

// An NHWC tensor of u32 words with 4 channels, of which 4 are loaded: word = pixel number * 4 + channel.
struct Image {
  int w = 7, h = 5, n = 3, lower[2] = {-1, -2}, upper[2] = {-1, 1}, step[3] = {1, 1, 1}, offset[2] = {0, 0};
  int start[3] = {0, 0, 0};
  uint32_t pixels = 24;

  TensorMap map(uint64_t address) const {
    TensorMap m;
    m.type = TensorType::u32, m.rank = 4, m.address = address, m.im2col = true, m.pixels = pixels;
    m.dim = {4, uint64_t(w), uint64_t(h), uint64_t(n), 1};
    m.stride = {0, 16, uint64_t(16 * w), uint64_t(16 * w * h), 0};
    m.box = {4, 1, 1, 1, 1},
    m.element_stride = {1, uint32_t(step[0]), uint32_t(step[1]), uint32_t(step[2]), 1};
    m.lower = {int16_t(lower[0]), int16_t(lower[1]), 0}, m.upper = {int16_t(upper[0]), int16_t(upper[1]), 0};
    return m;
  }
  // Coordinates of the pixels, -1 for outside: all corners in order, from the start on.
  std::vector<int> expected(bool with_offsets) const {
    std::vector<int> all;
    bool found = false;
    for (int z = start[2]; z < start[2] + 100; z += step[2])
      for (int y = lower[1] + (start[1] - lower[1]) % step[1]; y <= h - 1 + upper[1]; y += step[1])
        for (int x = lower[0] + (start[0] - lower[0]) % step[0]; x <= w - 1 + upper[0]; x += step[0]) {
          found |= x == start[0] && y == start[1];
          if (!found) continue;
          if (all.size() == pixels) return all;
          const int px = x + (with_offsets ? offset[0] : 0), py = y + (with_offsets ? offset[1] : 0);
          const bool inside = px >= 0 && px < w && py >= 0 && py < h && z < n;
          all.push_back(inside ? (z * h + py) * w + px : -1);
        }
    return all;
  }
  std::string kernel(bool store) const {
    const std::string place = fmt::format("{{0, {}, {}, {}}}", start[0], start[1], start[2]);
    const std::string copy =
        store
            ? fmt::format(
                  "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%rd0, {}], [%r0];\n"
                  "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
                  place)
            : fmt::format(
                  "mov.b16 %h0, {}; mov.b16 %h1, {};\n"
                  "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {};\n"
                  "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                  "[%r0], [%rd0, {}], [%r1], {{%h0, %h1}};",
                  offset[0], offset[1], pixels * 16, place);
    return copy_kernel(pixels * 16, "shr.u32 %r6, %r4, 2;", copy, store ? "" : wait("%r1", 0));
  }
  size_t words() const { return size_t(w * h * n * 4); }
};

}  // namespace

TEST_CASE("im2col: pixels of a filter's walk, loaded and stored") {
  Image plain, strided, offset, beyond, inner, apart;
  strided.step[0] = 2, strided.step[1] = 3, strided.start[0] = 1, strided.start[1] = 1;
  offset.lower[0] = offset.lower[1] = 0, offset.upper[0] = offset.upper[1] = -2, offset.offset[0] = 2,
  offset.offset[1] = 1, offset.start[0] = 3, offset.start[1] = 1, offset.start[2] = 1;
  beyond.start[2] = 2, beyond.start[0] = -1, beyond.start[1] = 3, beyond.pixels = 40;
  inner.lower[0] = 2, inner.upper[0] = -3, inner.start[0] = 3, inner.pixels = 9;
  inner.lower[1] = 0, inner.upper[1] = -1;
  apart.step[2] = 2, apart.pixels = 70;  // every other picture (seen on an H200, 2026-11-22)
  for (const Image& image : {plain, strided, offset, beyond, inner, apart}) {
    CAPTURE(image.start[0]);
    CAPTURE(image.pixels);
    std::vector<uint32_t> tensor(image.words());
    for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<uint32_t>(1000 + i);
    for (bool store : {false, true}) {
      Kernel k(image.kernel(store));
      const uint64_t at = k.upload(tensor), out = k.buffer(image.pixels * 16);
      k.map(image.map(at));
      k.param(out);
      k.config.block.x = 32;
      k.config.dynamic_shared = image.pixels * 16 + 128;
      LaunchResult r = k.run(image.pixels);
      INFO(r.report);
      if (store && image.lower[0] < 0) {
        CHECK(r.report.find("the im2col bounding box leaves the tensor in dimension 1") != std::string::npos);
        continue;
      }
      REQUIRE(r.ok);
      const std::vector<int> pixels = image.expected(!store);
      REQUIRE(pixels.size() == image.pixels);
      std::vector<uint32_t> want(store ? tensor : std::vector<uint32_t>(image.pixels * 4));
      for (uint32_t p = 0; p < image.pixels; ++p)
        for (uint32_t c = 0; c < 4; ++c) {
          if (store && pixels[p] >= 0) want[static_cast<size_t>(pixels[p]) * 4 + c] = p * 4 + c;
          if (!store) want[p * 4 + c] = pixels[p] < 0 ? 0 : tensor[static_cast<size_t>(pixels[p]) * 4 + c];
        }
      CHECK(k.download<uint32_t>(store ? at : out, static_cast<unsigned>(want.size())) == want);
    }
  }
  Image outside;
  outside.start[0] = 6;  // the box ends at 7 - 1 - 1
  Kernel k(outside.kernel(false));
  k.map(outside.map(k.upload(std::vector<uint32_t>(outside.words()))));
  k.param(k.buffer(outside.pixels * 16));
  k.config.dynamic_shared = outside.pixels * 16 + 128;
  CHECK(k.run(1).report.find("filter's corner 6 in dimension 1 is outside the bounding box, -1 to 5") !=
        std::string::npos);
}
