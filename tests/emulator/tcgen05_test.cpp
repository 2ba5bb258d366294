// tcgen05 on the emulator: the path of the scales, products against an oracle of exact sums, register layouts
// of ld and st, and the messages for misuse.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "fp4lab/descriptors.h"
#include "fp4lab/scale_layout.h"
#include "kernel.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

constexpr float kE2m1[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};

float ue4m3(uint8_t b) {
  const int e = b >> 3, m = b & 7;
  return e ? std::ldexp(1.0f + static_cast<float>(m) / 8, e - 7) : std::ldexp(static_cast<float>(m), -9);
}

struct Operand4 {                      // rows of 256 e2m1 values with a scale for every 16
  std::vector<uint8_t> codes, scales;  // [rows][128], [rows][16]
  uint32_t rows;
  Operand4(uint32_t rows, std::mt19937& rng, bool distinct_scales)
      : codes(rows * 128), scales(rows * 16), rows(rows) {
    for (auto& c : codes) c = static_cast<uint8_t>(rng());
    for (uint32_t i = 0; i < scales.size(); ++i)  // 0.25 to 3.75: all sums are exact
      scales[i] = distinct_scales ? static_cast<uint8_t>(40 + (i * 7 + i / 16 * 3) % 32) : 56;
  }
  float value(uint32_t row, uint32_t k) const {
    const uint8_t b = codes[row * 128 + k / 2];
    return kE2m1[k % 2 ? b >> 4 : b & 15] * ue4m3(scales[row * 16 + k / 16]);
  }
  std::vector<uint8_t> blocked() const {  // 128x4 layout; padding rows hold garbage that must be ignored
    const uint32_t blocks = (rows + 127) / 128;
    std::vector<uint8_t> out(blocks * 2048, 0x33);
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t s = 0; s < 16; ++s)
        out[(r / 128 * 4 + s / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + s % 4] = scales[r * 16 + s];
    return out;
  }
};

struct Shape {
  uint32_t n;
  TensorSwizzle swizzle;
};

// One CTA, 128 threads: TMA of A (128 x 256) and B (n x 256), bulk copies of the scales, cp, four or more
// mma, ld of the accumulator, out[n][128] in fp32.
std::string gemm_kernel(Shape s, const std::string& edit_from = "", const std::string& edit_to = "") {
  const uint32_t width = s.swizzle == TensorSwizzle::b128  ? 128
                         : s.swizzle == TensorSwizzle::b64 ? 64
                         : s.swizzle == TensorSwizzle::b32 ? 32
                                                           : 16;
  const uint32_t boxes = 128 / width, a_bytes = 128 * 128, b_bytes = s.n * 128, blocks = (s.n + 127) / 128;
  const uint32_t a_at = 1024, b_at = a_at + a_bytes, sfa_at = b_at + 256 * 128, sfb_at = sfa_at + 2048;
  using fp4lab::SharedSwizzle;
  std::string loads;
  for (uint32_t i = 0; i < boxes; ++i)
    loads += fmt::format(
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r0+{}], [%rd0, {{{}, "
        "0}}], [%r0];\n"
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r0+{}], [%rd1, {{{}, "
        "0}}], [%r0];\n",
        a_at + i * width * 128, i * width, b_at + i * width * s.n, i * width);
  loads += fmt::format(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r0+{}], [%rd2], 2048, [%r0];\n"
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r0+{}], [%rd3], {}, [%r0];\n",
      sfa_at, sfb_at, blocks * 2048);
  auto descriptor = [&](uint32_t at, uint32_t rows, uint32_t step) {  // K step of 32 bytes
    const uint32_t address = 0x400 + at;
    fp4lab::SharedDescriptor d;
    switch (s.swizzle) {
      case TensorSwizzle::b128:
        d = {address + step * 32, 16, 1024, SharedSwizzle::k128B};
        break;
      case TensorSwizzle::b64:
        d = {address + step / 2 * 64 * rows + step % 2 * 32, 16, 512, SharedSwizzle::k64B};
        break;
      case TensorSwizzle::b32:
        d = {address + step * 32 * rows, 16, 256, SharedSwizzle::k32B};
        break;
      default:
        d = {address + step * 32 * rows, static_cast<int>(16 * rows), 128, SharedSwizzle::kNone};
    }
    return d.bits();
  };
  std::string copies, products;
  for (uint32_t step = 0; step < 4; ++step) {
    copies += fmt::format("tcgen05.cp.cta_group::1.32x128b.warpx4 [%r10+{}], {:#x};\n", 256 + step * 4,
                          fp4lab::scale_descriptor(0x400 + sfa_at + step * 512));
    for (uint32_t b = 0; b < blocks; ++b)
      copies +=
          fmt::format("tcgen05.cp.cta_group::1.32x128b.warpx4 [%r10+{}], {:#x};\n", 272 + step * 8 + b * 4,
                      fp4lab::scale_descriptor(0x400 + sfb_at + (b * 4 + step) * 512));
    products += fmt::format(
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%r10], {:#x}, {:#x}, {:#x}, [%r11+{}], "
        "[%r11+{}], {};\n",
        descriptor(a_at, 128, step), descriptor(b_at, s.n, step),
        fp4lab::Nvfp4InstructionDescriptor{.m = 128, .n = static_cast<int>(s.n)}.bits(), step * 4,
        16 + step * 8, step ? 1 : 0);
  }
  std::string stores;
  for (uint32_t c = 0; c < s.n; c += 8) {
    stores += fmt::format(
        "add.u32 %r20, %r10, {};\ntcgen05.ld.sync.aligned.32x32b.x8.b32 "
        "{{%r30,%r31,%r32,%r33,%r34,%r35,%r36,%r37}}, [%r20];\n"
        "tcgen05.wait::ld.sync.aligned;\n",
        c);
    for (uint32_t i = 0; i < 8; ++i)
      stores += fmt::format("st.global.b32 [%rd5+{}], %r{};\n", (c + i) * 512, 30 + i);
  }
  std::string text = module_text("sm_100a",
                                 ".param .align 64 .b8 amap[128], .param .align 64 .b8 bmap[128], .param "
                                 ".u64 sfa, .param .u64 sfb, .param .u64 out",
                                 fmt::format(R"(
    mov.u32 %r0, smem; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5;
    mov.b64 %rd0, amap; cvta.param.u64 %rd0, %rd0; mov.b64 %rd1, bmap; cvta.param.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [sfa]; ld.param.u64 %rd3, [sfb]; ld.param.u64 %rd4, [out];
    mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd4;
    setp.ne.u32 %p0, %r2, 0; setp.ne.u32 %p1, %r1, 0;
    @%p0 bra SETUP;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0+16], 512;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    @%p1 bra SETUP;
    mbarrier.init.shared::cta.b64 [%r0], 1; mbarrier.init.shared::cta.b64 [%r0+8], 1;
    fence.mbarrier_init.release.cluster;
  SETUP: bar.sync 0;
    ld.shared.u32 %r10, [%r0+16]; add.u32 %r11, %r10, 256;
    @%p1 bra EPILOGUE;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], {bytes};
    {loads}
    {full}
    tcgen05.fence::after_thread_sync;
    {copies}
    {products}
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r0+8];
  EPILOGUE:
    {done}
    tcgen05.fence::after_thread_sync;
    shl.b32 %r3, %r2, 21; or.b32 %r10, %r10, %r3;
    {stores}
    bar.sync 0;
    and.b32 %r10, %r10, 0xffff;
    @%p0 bra END;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 512;
  END:)",
                                             fmt::arg("bytes", a_bytes + b_bytes + 2048 + blocks * 2048),
                                             fmt::arg("loads", loads), fmt::arg("full", wait("%r0", 0)),
                                             fmt::arg("copies", copies), fmt::arg("products", products),
                                             fmt::arg("done", wait("%r0+8", 0)), fmt::arg("stores", stores)));
  if (!edit_from.empty()) {
    const size_t at = text.find(edit_from);
    REQUIRE(at != text.npos);
    text.replace(at, edit_from.size(), edit_to);
  }
  return text;
}

TensorMap operand_map(uint64_t address, uint32_t rows, TensorSwizzle swizzle) {
  TensorMap m;
  m.type = TensorType::u8, m.swizzle = swizzle, m.rank = 2, m.address = address;
  m.dim = {128, rows, 1, 1, 1}, m.stride = {0, 128, 0, 0, 0};
  constexpr uint32_t width[] = {16, 32, 64, 128};
  m.box = {width[static_cast<int>(swizzle)], rows, 1, 1, 1}, m.element_stride = {1, 1, 1, 1, 1};
  return m;
}

struct Run {
  LaunchResult result;
  std::vector<float> out;
};

Run run_gemm(const std::string& text, Shape s, const Operand4& a, const Operand4& b, uint64_t seed) {
  Kernel k(text);
  k.map(operand_map(k.upload(a.codes), 128, s.swizzle));
  k.map(operand_map(k.upload(b.codes), s.n, s.swizzle));
  k.param(k.upload(a.blocked())), k.param(k.upload(b.blocked()));
  const uint64_t out = k.buffer(s.n * 512);
  k.param(out);
  k.config.block.x = 128;
  k.config.dynamic_shared = 80 * 1024;
  Run r{k.run(seed), {}};
  r.out = k.download<float>(out, s.n * 128);
  return r;
}

std::vector<float> oracle(const Operand4& a, const Operand4& b) {
  std::vector<float> want(b.rows * 128);
  for (uint32_t n = 0; n < b.rows; ++n)
    for (uint32_t m = 0; m < 128; ++m) {
      double sum = 0;
      for (uint32_t k = 0; k < 256; ++k) sum += double(a.value(m, k)) * b.value(n, k);
      want[n * 128 + m] = static_cast<float>(sum);
    }
  return want;
}

}  // namespace

TEST_CASE("NVFP4 from global memory to registers, a different scale for every row and block") {
  std::mt19937 rng(3);
  for (Shape s :
       {Shape{128, TensorSwizzle::b128}, Shape{256, TensorSwizzle::b128}, Shape{8, TensorSwizzle::b128},
        Shape{72, TensorSwizzle::b64}, Shape{200, TensorSwizzle::b32}, Shape{40, TensorSwizzle::none}}) {
    const Operand4 a(128, rng, true), b(s.n, rng, true);
    const Run r = run_gemm(gemm_kernel(s), s, a, b, s.n);
    CAPTURE(s.n);
    CAPTURE(static_cast<int>(s.swizzle));
    INFO(r.result.report);
    REQUIRE(r.result.ok);
    CHECK(r.out == oracle(a, b));
  }
}

TEST_CASE("misuse of the tensor core is reported with names and values") {
  std::mt19937 rng(4);
  const Shape s{64, TensorSwizzle::b128};
  const Operand4 a(128, rng, true), b(64, rng, true);
  auto report = [&](const std::string& from, const std::string& to, uint64_t seed = 1) {
    const Run r = run_gemm(gemm_kernel(s, from, to), s, a, b, seed);
    CHECK_FALSE(r.result.ok);
    return r.result.report;
  };
  auto contains = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != text.npos);
  };
  const std::string idesc =
      fmt::format("{:#x}", fp4lab::Nvfp4InstructionDescriptor{.m = 128, .n = 64}.bits());
  contains(report(idesc, fmt::format("{:#x}", 0x08000480 | 1 << 17 | 1 << 31)), "K size");
  contains(report(idesc, fmt::format("{:#x}", 0x04000480 | 8 << 17)), "bits 26:24");
  contains(report("[%r11+16], 0;", "[%r11+16], 1;"), "was never written: TMEM column 0 (n = 0), lane 0");
  contains(report("[%r11+0], [%r11+16]", "[%r11+200], [%r11+16]"),
           "the scale of row 0 of A (TMEM column 456, lane 0) was never written");
  contains(report("[%r11+0], [%r11+16]", "[%r11+254], [%r11+16]"), "TMEM columns [510, 514)");
  contains(report("[%r10], " + fmt::format("{:#x}", fp4lab::operand_descriptor(0x800)),
                  "[%r11+0], " + fmt::format("{:#x}", fp4lab::operand_descriptor(0x800))),
           "by the instruction descriptor D is 128 x 64");
  contains(report("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 512;", ""), "never freed");
  contains(report("b32 %r10, 512;", "b32 %r10, 256;"), "allocated: [0, 512)");
  contains(report("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0+16], 512",
                  "mov.u32 %r3, 48; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0+16], %r3"),
           "power of two");
  contains(report("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0+16], 512;",
                  "st.shared.b32 [%r0+16], 0;"),
           "is not allocated");
  contains(report("mbarrier.init.shared::cta.b64 [%r0+8], 1;", ""), "there is no mbarrier");
  contains(report("shl.b32 %r3, %r2, 21;", "shl.b32 %r3, %r1, 21;"), "differs between the lanes");
  contains(report("shl.b32 %r3, %r2, 21;", "add.u32 %r3, %r2, 1; and.b32 %r3, %r3, 3; shl.b32 %r3, %r3, 21;"),
           "a warp reaches only lanes");
  contains(report("block_scale.block16 [%r10]", "block_scale.block16.collector::a::use [%r10]"),
           "without a ::fill");
  contains(
      report(
          "block16 [%r10], " + fmt::format("{:#x}", fp4lab::operand_descriptor(0x800)),
          "block16.collector::a::fill [%r10], " + fmt::format("{:#x}", fp4lab::operand_descriptor(0x800)) +
              fmt::format(", {:#x}, {}, [%r11+0], [%r11+16], 0;\n"
                          "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16.collector::a::lastuse "
                          "[%r10], {:#x}",
                          fp4lab::operand_descriptor(0x800 + 128 * 128), idesc,
                          fp4lab::operand_descriptor(0x800 + 32))),
      "but the collector was filled with A");
  const std::string wide = fmt::format("{:#x}", fp4lab::operand_descriptor(0x800 + 96));
  contains(report(wide, fmt::format("{:#x}", fp4lab::operand_descriptor(0x800 + 112))), "swizzle span");
  contains(report(wide, fmt::format("{:#x}", fp4lab::operand_descriptor(0x400 + 60 * 1024))),
           "was never written");
}

TEST_CASE("missing waits are detected") {
  std::mt19937 rng(5);
  const Shape s{64, TensorSwizzle::b128};
  const Operand4 a(128, rng, true), b(64, rng, true);
  const std::vector<float> want = oracle(a, b);
  const std::string text = gemm_kernel(s);
  auto without = [&](const std::string& from, const std::string& until) {
    std::string t = text;
    const size_t begin = t.find(from), end = t.find(until, begin + from.size());
    REQUIRE(end != t.npos);
    t.erase(begin, end - begin);
    unsigned noticed = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Run r = run_gemm(t, s, a, b, seed);
      noticed += !r.result.ok || r.out != want;
    }
    return noticed;
  };
  // the wait for the loads, the wait for the products, the wait for the first load of registers
  const size_t full = text.find("W", text.find("[%rd3]"));
  CHECK(without(text.substr(full, 12), "tcgen05.fence::after") >= 15);
  const size_t done = text.find("W", text.find("EPILOGUE:"));
  CHECK(without(text.substr(done, 12), "tcgen05.fence::after") >= 15);
  CHECK(without("tcgen05.wait::ld.sync.aligned;", "st.global") == 20);
  // A commit by a thread other than the issuing one covers nothing.
  const std::string commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r0+8];";
  std::string t = text;
  t.replace(t.find(commit), commit.size(), "");
  t.replace(t.find("EPILOGUE:\n"), 10, "EPILOGUE: setp.eq.u32 %p3, %r1, 32;\n@%p3 " + commit + "\n");
  unsigned noticed = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Run r = run_gemm(t, s, a, b, seed);
    noticed += !r.result.ok || r.out != want;
  }
  CHECK(noticed >= 15);
}

namespace {

// Writes lane * 1000 + column through 32x32b stores, then reads with another shape: out[register][lane].
std::string ld_kernel(const std::string& shape, unsigned registers, unsigned base_lane,
                      const std::string& extra) {
  std::string fill, list, stores;
  for (unsigned c = 0; c < 64; ++c)
    fill += fmt::format(
        "add.u32 %r5, %r4, {}; add.u32 %r7, %r6, {};\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%r7], "
        "{{%r5}};\n",
        c, c);
  for (unsigned r = 0; r < registers; ++r) {
    list += fmt::format("{}%r{}", r ? "," : "", 20 + r);
    stores += fmt::format("st.global.b32 [%rd1+{}], %r{};\n", r * 128, 20 + r);
  }
  return module_text(
      "sm_100a", ".param .u64 out",
      fmt::format(R"(
    mov.u32 %r0, smem; mov.u32 %r1, %tid.x; mul.lo.u32 %r4, %r1, 1000;
    ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %rd0;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 64;
    ld.shared.u32 %r6, [%r0];
    {fill}
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.{shape}.b32 {{{list}}}, [%r6+{lane}]{extra};
    tcgen05.wait::ld.sync.aligned;
    {stores}
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 64;)",
                  fmt::arg("fill", fill), fmt::arg("shape", shape), fmt::arg("list", list),
                  fmt::arg("lane", base_lane << 16), fmt::arg("extra", extra), fmt::arg("stores", stores)));
}

std::vector<uint32_t> run_ld(const std::string& text, unsigned registers) {
  Kernel k(text);
  const uint64_t out = k.buffer(registers * 128);
  k.param(out);
  k.config.dynamic_shared = 64;
  LaunchResult r = k.run(2);
  INFO(r.report);
  REQUIRE(r.ok);
  return k.download<uint32_t>(out, registers * 32);
}

}  // namespace

// Known points of the register layouts (figures of PTX ISA 9.7.16.2.3), as (register, thread) -> lane,
// column.
TEST_CASE("tcgen05.ld: the mapping of cells to threads") {
  auto cell = [](const std::vector<uint32_t>& v, unsigned r, unsigned t) { return v[r * 32 + t]; };
  auto v = run_ld(ld_kernel("32x32b.x16", 16, 0, ""), 16);
  for (unsigned r = 0; r < 16; ++r)
    for (unsigned t = 0; t < 32; ++t) CHECK(cell(v, r, t) == t * 1000 + r);
  v = run_ld(ld_kernel("16x256b.x2", 8, 16, ""),
             8);  // like an mma fragment: thread t has row t / 4, columns 2 (t % 4)
  CHECK(cell(v, 0, 0) == 16000);
  CHECK(cell(v, 1, 0) == 16001);
  CHECK(cell(v, 0, 5) == 17002);
  CHECK(cell(v, 2, 5) == 25002);
  CHECK(cell(v, 7, 31) == 31 * 1000 + 15);
  v = run_ld(ld_kernel("16x128b.x4", 8, 0, ""), 8);
  CHECK(cell(v, 0, 5) == 1001);
  CHECK(cell(v, 1, 5) == 9001);
  CHECK(cell(v, 6, 31) == 7000 + 15);
  v = run_ld(ld_kernel("16x64b.x8", 8, 0, ""), 8);
  CHECK(cell(v, 0, 1) == 8000);
  CHECK(cell(v, 0, 2) == 1);
  CHECK(cell(v, 7, 31) == 15 * 1000 + 15);
  v = run_ld(ld_kernel("16x32bx2.x4", 4, 0, ", 16"), 4);
  CHECK(cell(v, 3, 2) == 2003);
  CHECK(cell(v, 3, 18) == 2019);
  v = run_ld(ld_kernel("16x32bx2.x4.pack::16b", 4, 0, ", 8"), 4);  // the split counts columns, not pairs
  CHECK(cell(v, 3, 2) == ((2007u << 16) | 2006u));
  CHECK(cell(v, 3, 18) == ((2015u << 16) | 2014u));
  v = run_ld(ld_kernel("32x32b.x2.pack::16b", 2, 0, ""), 2);
  CHECK(cell(v, 1, 3) == ((3003u << 16) | 3002u));
  for (const char* shape :
       {"16x64b.x32", "16x128b.x8", "16x256b.x8"}) {  // every cell of 16 lanes exactly once
    const unsigned registers = std::string(shape).starts_with("16x128b") ? 16 : 32;
    v = run_ld(ld_kernel(shape, registers, 0, ""), registers);
    std::sort(v.begin(), v.end());
    CHECK(std::adjacent_find(v.begin(), v.end()) == v.end());
    CHECK(v.back() == 15 * 1000 + registers * 2 - 1);
  }
}

// A scale block of 32 rows: one word of each 16 bytes is written, and only its column may be read.
TEST_CASE("tcgen05.cp of partly written bytes defines the written words only") {
  for (const unsigned column : {0u, 1u}) {
    Kernel k(module_text("sm_100a", ".param .u64 out",
                         fmt::format(R"(
      .shared .align 128 .b8 scales[512]; .shared .align 8 .b64 bar; .shared .align 4 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x; mov.u32 %r3, scales; mov.u32 %r7, bar; setp.ne.u32 %p0, %r1, 0;
      shl.b32 %r2, %r1, 4; add.u32 %r4, %r3, %r2; st.shared.u32 [%r4], %r1;
      fence.proxy.async.shared::cta;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
      @!%p0 mbarrier.init.shared::cta.b64 [%r7], 1;
      bar.sync 0;
      ld.shared.u32 %r5, [%r0];
      shr.u32 %r6, %r3, 4; cvt.u64.u32 %rd1, %r6; or.b64 %rd1, %rd1, 0x400800010000;
      @%p0 bra COPIED;
      tcgen05.cp.cta_group::1.32x128b.warpx4 [%r5], %rd1;
      tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r7];
    COPIED:
      {}
      tcgen05.fence::after_thread_sync;
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r8}}, [%r5+{}];
      tcgen05.wait::ld.sync.aligned;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd0, %rd0, %rd2; st.global.u32 [%rd0], %r8;
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 32;)",
                                     wait("%r7", 0), column)));
    const uint64_t out = k.buffer(128);
    k.param(out);
    k.config.block.x = 32;
    const LaunchResult r = k.run(1);
    INFO(r.report);
    CHECK(r.ok == (column == 0));
    if (!r.ok) CHECK(r.report.find("ever written") != std::string::npos);
    for (uint32_t l = 0; r.ok && l < 32; ++l) CHECK(k.download<uint32_t>(out, 32)[l] == l);
  }
}

TEST_CASE("CTAs of one SM share its tensor memory: an allocation waits for columns") {
  const std::string text = module_text("sm_100a", ".param .u64 out, .param .u32 columns", R"(
    mov.u32 %r0, smem; mov.u32 %r1, %tid.x; ld.param.u64 %rd0, [out]; ld.param.u32 %r2, [columns];
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], %r2;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    ld.shared.u32 %r3, [%r0];
    mov.u32 %r4, %ctaid.x;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r4};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r3];
    tcgen05.wait::ld.sync.aligned;
    mul.wide.u32 %rd1, %r4, 4; add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r5;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, %r2;)");
  for (uint32_t columns : {512u, 256u, 32u}) {
    Kernel k(text);
    const uint64_t out = k.buffer(1000 * 4);
    k.param(out), k.param(columns);
    k.params.resize(12);
    k.config.grid.x = 1000;
    k.config.dynamic_shared = 64;
    k.schedule.threads = 2;
    LaunchResult r = k.run(columns);
    INFO(r.report);
    REQUIRE(r.ok);
    const auto got = k.download<uint32_t>(out, 1000);
    for (uint32_t i = 0; i < 1000; ++i) CHECK(got[i] == i);
  }
  Kernel k(text.substr(0, text.find("tcgen05.dealloc")) + "ret;\n}\n");
  k.param(k.buffer(4000)), k.param(512);
  k.params.resize(12);
  k.config.grid.x = 1000;
  k.config.dynamic_shared = 64;
  CHECK(k.run(1).report.find("never freed") != std::string::npos);
}
