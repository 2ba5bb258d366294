// tcgen05.alloc by a pair of CTAs, and by CTAs that share SMs.
#include <doctest/doctest.h>

#include "tolerated.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

// Nothing makes a CTA wait for the other between two allocations, so the other may still be at the previous
// one (TileLang's block-scaled products: accumulators, then both scale factors).
TEST_CASE("a CTA of a pair may request its next columns before the other has received the previous ones") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 16 .b32 where[4];
      mov.u32 %r0, where; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %tid.x; ld.param.u64 %rd0, [out];
      tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r0], 64;
      tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r0+4], 32;
      tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r0+8], 32;
      ld.shared.u32 %r3, [%r0]; ld.shared.u32 %r4, [%r0+4]; ld.shared.u32 %r5, [%r0+8];
      mul.wide.u32 %rd1, %r1, 12; add.u64 %rd0, %rd0, %rd1; setp.ne.u32 %p0, %r2, 0;
      @%p0 bra STORED;
      st.global.u32 [%rd0], %r3; st.global.u32 [%rd0+4], %r4; st.global.u32 [%rd0+8], %r5;
    STORED:
      bar.warp.sync -1;
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r5, 32;
      tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, 32;
      tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r3, 64;)");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Ran r = run(text, false, 32, 6, {.seed = seed, .cluster = 2});
    INFO(r.result.report);
    REQUIRE(r.result.ok);
    CHECK(r.out == std::vector<uint32_t>{0, 64, 96, 0, 64, 96});
  }
}

// Every SM has several CTAs, and all wait until all have started: the start of CTAs must not be delayed for
// ever.
TEST_CASE("CTAs with tensor memory may wait for all of the grid, several to an SM") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 16 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x; mov.u32 %r2, %nctaid.x; ld.param.u64 %rd0, [out];
      setp.ge.u32 %p0, %r1, 32;
      @%p0 bra ALLOCATED;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 64;
    ALLOCATED:
      bar.sync 0;
      setp.ne.u32 %p1, %r1, 0;
      @!%p1 atom.global.add.u32 %r3, [%rd0], 1;
    AGAIN:
      nanosleep.u32 100;
      ld.acquire.gpu.global.u32 %r3, [%rd0];
      setp.lt.u32 %p1, %r3, %r2;
      @%p1 bra AGAIN;
      bar.sync 0;
      ld.shared.u32 %r4, [%r0];
      @%p0 bra DONE;
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 64;
    DONE:)");
  Kernel k(text);
  const uint64_t out = k.buffer(4);
  k.param(out);
  k.config.block.x = 512;
  k.config.grid.x = device_model("b200")->sms * 4;
  k.schedule.tolerant = true;
  const LaunchResult r = k.run(0);
  INFO(r.report);
  CHECK(r.ok);
}

// The CTA with the first columns of an SM stores to those that the second has freed, and to the first of the
// third's, if there is a third.
TEST_CASE("columns of another CTA of the SM are a fault, wherever they are") {
  std::string words = "%r1";
  for (int i = 1; i < 32; ++i) words += ", %r1";
  const std::string text = module_text("sm_100a", ".param .u64 out, .param .u32 sms",
                                       fmt::format(R"(
      .shared .align 16 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x; mov.u32 %r2, %nctaid.x;
      ld.param.u64 %rd0, [out]; ld.param.u32 %r6, [sms];
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
      ld.shared.u32 %r4, [%r0]; setp.ne.u32 %p1, %r1, 0;
      @!%p1 atom.global.add.u32 %r3, [%rd0], 1;
    ALL:
      ld.acquire.gpu.global.u32 %r3, [%rd0]; setp.lt.u32 %p0, %r3, %r2;
      @%p0 bra ALL;
      setp.eq.u32 %p0, %r4, 32;
      @%p0 bra BACK;
    GIVEN:
      ld.acquire.gpu.global.u32 %r3, [%rd0+4]; setp.lt.u32 %p0, %r3, %r6;
      @%p0 bra GIVEN;
      setp.ne.u32 %p0, %r4, 0;
      @%p0 bra HOLDS;
      add.u32 %r5, %r4, 33;
      tcgen05.st.sync.aligned.32x32b.x32.b32 [%r5], {{{}}};
      tcgen05.wait::st.sync.aligned;
      @!%p1 atom.global.add.u32 %r3, [%rd0+8], 1;
    HOLDS:
      ld.acquire.gpu.global.u32 %r3, [%rd0+8]; setp.lt.u32 %p0, %r3, %r6;
      @%p0 bra HOLDS;
    BACK:
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32;
      setp.eq.and.u32 %p0, %r4, 32, !%p1;
      @%p0 red.release.gpu.global.add.u32 [%rd0+4], 1;)",
                                                   words));
  for (const unsigned ctas : {2u, 3u}) {
    Kernel k(text);
    const uint32_t sms = device_model("b200")->sms;
    k.param(k.buffer(12)), k.param(sms);
    k.config.block.x = 32;
    k.config.grid.x = sms * ctas;
    k.schedule.tolerant = true;
    const LaunchResult r = k.run(0);
    CAPTURE(ctas);
    INFO(r.report);
    CHECK(r.ok == (ctas == 2));
    const std::string& said = r.ok ? r.notes : r.report;
    CHECK(said.find(r.ok ? "column 33 is" : "column 64 belongs to another CTA of this SM") != said.npos);
  }
}
