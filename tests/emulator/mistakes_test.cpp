// Mistakes that change values, or hang on hardware only, and the report of a run. Each is paired with the
// same kernel without the mistake, which runs without a note.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tma_kernel.h"
#include "tolerated.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

// A product of 64 x 16 and 8 x 16 halves without a swizzle, LBO and SBO of A in 16 bytes.
std::string product(unsigned lbo, unsigned sbo) {
  return module_text("sm_90a", ".param .u64 out",
                     fmt::format(R"(
      .shared .align 128 .b8 a[2048]; .shared .align 128 .b8 b[256]; .reg .f32 %e<4>;
      mov.u32 %r1, %tid.x; mov.u32 %r2, a; mov.u32 %r3, b; mov.b64 %rd1, 0x3c003c003c003c00;
      shl.b32 %r4, %r1, 4; add.u32 %r5, %r2, %r4; add.u32 %r6, %r3, %r4; setp.lt.u32 %p1, %r1, 16;
      st.shared.v2.u64 [%r5], {{%rd1, %rd1}}; @%p1 st.shared.v2.u64 [%r6], {{%rd1, %rd1}};
      fence.proxy.async.shared::cta; bar.sync 0;
      shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd1, %r5; or.b64 %rd1, %rd1, {:#x};
      shr.u32 %r6, %r3, 4; cvt.u64.u32 %rd2, %r6; or.b64 %rd2, %rd2, 0x1000080000;
      wgmma.fence.sync.aligned; setp.ne.u32 %p0, 0, 0;
      wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%e0, %e1, %e2, %e3}}, %rd1, %rd2, %p0, 1, 1, 0, 0;
      wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd0, %rd0, %rd3; st.global.f32 [%rd0], %e0;)",
                                 uint64_t(sbo) << 32 | uint64_t(lbo) << 16));
}

// Two copies of 16 bytes on one mbarrier, waited for in turn.
std::string two_copies(unsigned announced) {
  return module_text("sm_90a", ".param .u64 out",
                     fmt::format(R"(
      .shared .align 8 .b64 bar; .shared .align 16 .b8 s[32];
      ld.param.u64 %rd0, [out]; mov.u32 %r0, s; mov.u32 %r1, bar;
      mbarrier.init.shared::cta.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {};
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd0], 16, [%r1];
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0+16], [%rd0+16], 16, [%r1];
      {}
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {};
      {})",
                                 announced, wait("%r1", 0), 32 - announced, wait("%r1", 1)));
}

LaunchResult groups(const std::string& bounds, unsigned asked, unsigned threads = 384) {
  Kernel k(fmt::format(R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry k() {} {{ .reg .pred %p<2>; .reg .b32 %r<3>; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 128;
  @%p1 bra PRODUCER; setmaxnreg.inc.sync.aligned.u32 232; ret;
PRODUCER: setmaxnreg.dec.sync.aligned.u32 {}; ret; }})",
                       bounds, asked));
  k.config.block.x = threads;
  k.schedule.tolerant = true;
  return k.run();
}

}  // namespace

TEST_CASE("a wrong stride in a descriptor: two rows of an operand share bytes") {
  const auto notes = [](unsigned lbo, unsigned sbo) {
    const Ran r = run(product(lbo, sbo), true, 128, 128);
    INFO(r.result.report);
    CHECK(r.result.ok);
    return r.result.notes;
  };
  CHECK(notes(8, 16) == "");
  CHECK(notes(64, 8) == "");
  const std::string half = notes(64, 4);
  CHECK(half.find("row 4, byte 0 of K and row 8, byte 0 of K of A are the same bytes") != half.npos);
  CHECK(half.find("SBO (bits 45:32) 64, and 8 rows of it without a swizzle take 128 bytes") != half.npos);
  const std::string exchanged = notes(16, 0);
  CHECK(exchanged.find("row 0, byte 0 of K and row 8, byte 0 of K of A are the same") != exchanged.npos);
}

TEST_CASE("fewer bytes announced than delivered: the copy that lands in the next phase") {
  unsigned noted = 0;
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (const unsigned announced : {16u, 32u}) {
      const Ran r = run(two_copies(announced), true, 1, 8, {.seed = seed});
      INFO(r.result.report);
      CHECK(r.result.ok);
      const bool said =
          r.says("delivers 16 bytes to the mbarrier at 0x400 in its phase 1, and was issued in phase 0");
      CHECK((announced == 16 || !said));
      INFO(r.result.notes);
      CHECK((!said || r.says("announced were 16 bytes by line")));
      noted += said;
    }
  CHECK(noted > 0);
}

TEST_CASE("rows of a tensor map that overlap") {
  for (const uint64_t stride : {256, 128, 0}) {
    TensorMap m;
    m.type = TensorType::u8, m.rank = 2;
    m.dim = {256, 8, 1, 1, 1}, m.stride = {0, stride, 0, 0, 0};
    m.box = {64, 8, 1, 1, 1}, m.element_stride = {1, 1, 1, 1, 1};
    Kernel k(copy_kernel(512, "mov.u32 %r6, 0;", R"(mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 512;
      cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [%rd0, {0, 0}], [%r1];)",
                         wait("%r1", 0)));
    m.address = k.buffer(2048);
    k.map(m);
    k.param(k.buffer(512));
    k.config.dynamic_shared = 512;
    k.schedule.tolerant = true;
    const LaunchResult r = k.run();
    INFO(r.report);
    CHECK(r.ok);
    CHECK((r.notes.find(
               "rows overlap: the stride of dimension 1 is 128 bytes, and dimension 0 has 256 elements "
               "of 8 bits, 256 bytes") != r.notes.npos) == (stride == 128));
  }
}

// A thread is launched with 65536 / 384 registers, in multiples of 8: 168, if .minnctapersm asks for one CTA.
TEST_CASE("setmaxnreg: more registers than the CTA was launched with") {
  const std::string one = ".maxntid 384 .minnctapersm 1";
  CHECK(groups(one, 40).notes == "");
  const std::string notes = groups(one, 48).notes;
  CHECK(notes.find("end with 48, 232, 232 registers a thread, 65536 in all, and the CTA got 168") !=
        notes.npos);
  CHECK(notes.find("a setmaxnreg.inc waits for ever") != notes.npos);
  CHECK(groups(".maxntid 384", 48).notes == "");  // ptxas ignores it
  CHECK(groups(".maxnreg 168", 40).notes == "");
  CHECK(groups(".maxnreg 163", 40).notes == "");  // units of 8 registers
  CHECK(groups(".maxnreg 160", 40).notes.find("got 160") != std::string::npos);
  CHECK(groups(".maxntid 256 .minnctapersm 1", 40, 256).notes == "");
}

TEST_CASE(
    "named barriers whose warps wait for each other, or are too few: the report names the cause of the "
    "deadlock") {
  const auto report = [](const char* bars) {
    Kernel k(module_text("sm_90a", "",
                         fmt::format(R"(
      mov.u32 %r1, %tid.x; shr.u32 %r1, %r1, 5; setp.eq.u32 %p1, %r1, 0; {})",
                                     bars)));
    k.config.block.x = 64;
    return k.run().report;
  };
  const std::string crossed = report("@%p1 bar.sync 1, 64; @!%p1 bar.sync 2, 64;");
  CHECK(crossed.find(
            "look first at warp 0, all 32 lanes of CTA (0,0,0): at barrier 1 32 of 64 threads have arrived, "
            "and those that should come wait at other barriers") != crossed.npos);
  CHECK(crossed.find("at barrier 2, 32 of 64 threads have arrived") != crossed.npos);
  const std::string few = report("bar.sync 1, 96;");
  CHECK(few.find("at barrier 1 64 of 96 threads have arrived, and too few others are left") != few.npos);
}

TEST_CASE("bytes delivered to another CTA's mbarrier are reported at the mbarrier that lacks them") {
  Kernel k(module_text("sm_90a", ".param .u64 in", R"(
      .shared .align 8 .b64 bar; .shared .align 16 .b8 s[16];
      ld.param.u64 %rd0, [in]; mov.u32 %r0, s; mov.u32 %r1, bar; mov.u32 %r2, %cluster_ctarank;
      mbarrier.init.shared::cta.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      setp.ne.u32 %p0, %r2, 0; @%p0 bra END;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16; mov.u16 %h0, 2;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r0], [%rd0], 16, [%r1], %h0;
      )" + wait("%r1", 0) + R"(
  END: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;)"));
  k.param(k.buffer(16));
  k.config.block.x = 1;
  k.config.grid.x = k.config.cluster.x = 2;
  const std::string report = k.run().report;
  INFO(report);
  CHECK(report.find("do not match: 16 are missing") != report.npos);
  CHECK(report.find(
            "on the one at the same offset of CTA rank 1, 16 were delivered that are not announced there, "
            "by warp 0") != report.npos);
}

TEST_CASE("of several notes the first of each class is reported") {
  std::string text = product(64, 4);
  text.replace(text.find("ld.param"), 0, "add.u32 %r8, %r9, 1; add.u32 %r10, %r11, 2; ");
  const Ran r = run(text, true, 128, 128);
  INFO(r.result.notes);
  CHECK(r.says("are the same bytes of shared memory"));
  CHECK(r.says("\nnote: uninitialised-value: register %r9"));
  CHECK(r.says("(and the same at 1 more instructions)"));
}
