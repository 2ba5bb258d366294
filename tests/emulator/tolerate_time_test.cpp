// Kernels that lack a barrier and are right on hardware because of the time that operations take: in any
// order, or with a tolerant schedule in hardware's.
#include <doctest/doctest.h>

#include "tolerated.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

// The odd CTA arrives at once; the even one initialises its mbarrier late or never.
TEST_CASE("an arrival before another CTA's mbarrier.init: a fault, or it is delayed and a note") {
  for (const char* init : {"mbarrier.init.shared::cta.b64 [%r0], 1;", ""}) {
    const std::string text = module_text("sm_90a", ".param .u64 out", std::string(R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r0, bar; mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p0, %r1, 1; mov.u32 %r2, 0;
      @%p0 bra ODD;
  LATE: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 2000;
      @%p1 bra LATE;
      )") + init + R"(
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r0], 0;
      @!%p1 bra WAIT;
      ld.param.u64 %rd0, [out]; st.global.u32 [%rd0], 7;
      bra END;
  ODD: mapa.shared::cluster.u32 %r3, %r0, 0;
      mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  END:)");
    for (const bool tolerant : {false, true}) {
      const Ran r = run(text, tolerant, 1, 1, {.cluster = 2, .eager = true});
      INFO(r.result.report);
      CHECK(r.result.ok == (tolerant && *init));
      CHECK(r.says("where there is no mbarrier: not initialised yet"));
      if (r.result.ok) CHECK(r.out[0] == 7);
    }
  }
}

// The program leaves k in its word k: under every seed if the schedule is tolerant, not under every one if it
// is strict.
void check_that_strict_seeds_differ(const std::string& text, unsigned threads, uint32_t words = 64) {
  unsigned wrong = 0;
  for (const bool tolerant : {false, true})
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const Ran r = run(text, tolerant, threads, words, {.seed = seed});
      INFO(r.result.report);
      REQUIRE(r.result.ok);
      for (uint32_t k = 0; k < words; ++k) {
        if (tolerant) CHECK(r.out[k] == k);
        wrong += r.out[k] != k;
      }
    }
  CHECK(wrong > 0);
}

// Warp 0 frees columns that warp 1 has yet to load too; warp 2 copies 99 into them.
TEST_CASE("columns that one warp frees for two: a race, or the copy lands after both loads") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 128 .b8 scales[512]; .shared .align 8 .b64 free; .shared .align 8 .b64 done;
      .shared .align 4 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mov.u32 %r3, scales; mov.u32 %r8, free;
      mov.u32 %r9, done; and.b32 %r10, %r1, 31; setp.ne.u32 %p1, %r2, 0; setp.ne.u32 %p2, %r10, 0;
      setp.eq.u32 %p3, %r2, 2; shl.b32 %r4, %r10, 4; add.u32 %r4, %r4, %r3; mov.u32 %r5, 99;
      st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5};
      fence.proxy.async.shared::cta;
      @%p1 bra MADE;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
      @%p2 bra MADE;
      mbarrier.init.shared::cta.b64 [%r8], 1; mbarrier.init.shared::cta.b64 [%r9], 1;
    MADE:
      bar.sync 0;
      ld.shared.u32 %r6, [%r0];
      @%p3 bra COPY;
      shl.b32 %r7, %r2, 21; add.u32 %r7, %r7, %r6;
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r7], {%r1};
      tcgen05.wait::st.sync.aligned;
      bar.sync 1, 64;
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r7];
      tcgen05.wait::ld.sync.aligned;
      or.pred %p4, %p1, %p2;
      @!%p4 mbarrier.arrive.shared::cta.b64 _, [%r8];
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r5;
      bra END;
    COPY:
      @%p2 bra END;
    WAIT:
      mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r8], 0; @!%p0 bra WAIT;
      shr.u32 %r7, %r3, 4; cvt.u64.u32 %rd1, %r7; or.b64 %rd1, %rd1, 0x400800010000;
      tcgen05.cp.cta_group::1.32x128b.warpx4 [%r6], %rd1;
      tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r9];
    COPIED:
      mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r9], 0; @!%p0 bra COPIED;
    END:
      bar.warp.sync -1; bar.sync 0;
      @%p1 exit;
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;)");
  check_that_strict_seeds_differ(text, 96);
}

// Warp 0 stores the words of both.
TEST_CASE(
    "a bulk store of words that another warp is about to write: a race, or the store reads them after that") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 16 .b8 s[256];
      mov.u32 %r0, s; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; add.u32 %r2, %r2, %r0; mov.u32 %r3, 0;
      setp.ne.u32 %p0, %r1, 0; ld.param.u64 %rd0, [out];
      st.shared.u32 [%r2], %r3;
      bar.sync 0;
      st.shared.u32 [%r2], %r1;
      fence.proxy.async.shared::cta;
      bar.warp.sync -1;
      @%p0 bra END;
      cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r0], 256;
      cp.async.bulk.commit_group;
      cp.async.bulk.wait_group 0;
    END:
      bar.sync 0;)");
  check_that_strict_seeds_differ(text, 64);
}

// Two buffers of 64 words. The thread that stores one waits for the previous store, and the other warp is not
// told.
TEST_CASE(
    "a bulk store of a buffer that another warp refills a stage later: a race, or the store reads first") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 16 .b8 s[512];
      mov.u32 %r0, s; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; add.u32 %r2, %r2, %r0; mov.u32 %r3, 0;
      setp.ne.u32 %p0, %r1, 0; ld.param.u64 %rd0, [out];
    STAGE:
      and.b32 %r4, %r3, 1; shl.b32 %r4, %r4, 8; add.u32 %r5, %r2, %r4; add.u32 %r6, %r0, %r4;
      mad.lo.u32 %r7, %r3, 64, %r1;
      mov.u32 %r8, 0;
    WORK:
      add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 40;
      @%p2 bra WORK;
      st.shared.u32 [%r5], %r7;
      fence.proxy.async.shared::cta;
      bar.sync 0;
      @%p0 bra NEXT;
      cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r6], 256;
      cp.async.bulk.commit_group;
      cp.async.bulk.wait_group.read 1;
    NEXT:
      add.u64 %rd0, %rd0, 256; add.u32 %r3, %r3, 1;
      setp.lt.u32 %p1, %r3, 8;
      @%p1 bra STAGE;
      cp.async.bulk.wait_group 0;)");
  check_that_strict_seeds_differ(text, 64, 512);
}

// The warp stores words 32 to 63, and copies them to words 0 to 31 once the source has been read.
TEST_CASE("the destination of a bulk store after wait_group.read: a race, or the write has landed") {
  for (const char* bulk :
       {"cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r0], 128;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [%r0], 128;"}) {
    CAPTURE(bulk);
    const std::string text = module_text("sm_90a", ".param .u64 out",
                                         fmt::format(R"(
      .shared .align 16 .b8 s[128];
      mov.u32 %r0, s; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; add.u32 %r2, %r2, %r0; add.u32 %r3, %r1, 32;
      setp.ne.u32 %p0, %r1, 0; ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %rd0;
      add.u64 %rd2, %rd0, 128;
      st.shared.u32 [%r2], %r3;
      fence.proxy.async.shared::cta;
      bar.warp.sync -1;
      @%p0 bra END;
      {}
      cp.async.bulk.commit_group;
      cp.async.bulk.wait_group.read 0;
      fence.proxy.async.global;
    END:
      bar.sync 0;
      ld.global.u32 %r4, [%rd1+128]; sub.u32 %r4, %r4, 32;
      st.global.u32 [%rd1], %r4;)",
                                                     bulk));
    check_that_strict_seeds_differ(text, 32);
  }
}

// Warp 4 commits three times in a row before it waits; warps 0 to 3 load tensor memory between their waits
// for the three phases. Only the time of 32 products keeps the third phase after the second wait.
TEST_CASE(
    "three tcgen05.commits in a row: a phase completes when the warps that saw the previous one wait again") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 128 .b8 a[4096]; .shared .align 128 .b8 b[512];
      .shared .align 8 .b64 done; .shared .align 8 .b64 read; .shared .align 4 .b32 where;
      ld.param.u64 %rd0, [out]; mov.u32 %r0, where; mov.u32 %r1, %tid.x; mov.u32 %r2, a; mov.u32 %r3, b;
      mov.u32 %r4, done; mov.u32 %r5, read; mov.u32 %r6, 0; shr.u32 %r7, %r1, 5; mov.u32 %r8, 0;
      setp.ne.u32 %p0, %r1, 128; setp.ne.u32 %p1, %r7, 0; setp.eq.u32 %p2, %r7, 4;
      mul.lo.u32 %r9, %r1, 4; rem.u32 %r10, %r9, 512; add.u32 %r10, %r10, %r3; st.shared.u32 [%r10], %r6;
  A:  add.u32 %r10, %r2, %r9; st.shared.u32 [%r10], %r6; add.u32 %r9, %r9, 640;
      setp.lt.u32 %p3, %r9, 4096; @%p3 bra A;
      @!%p0 mbarrier.init.shared::cta.b64 [%r4], 1;
      @!%p0 mbarrier.init.shared::cta.b64 [%r5], 128;
      @!%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
      fence.proxy.async.shared::cta;
      tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
      ld.shared.u32 %r9, [%r0];
      @%p2 bra ISSUE;
      shl.b32 %r10, %r7, 21; add.u32 %r10, %r10, %r9; add.u32 %r10, %r10, 16; mov.u32 %r11, 0;
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r10], {%r1};
      tcgen05.wait::st.sync.aligned;
  L:  and.b32 %r12, %r8, 1;
  W:  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4], %r12; @!%p3 bra W;
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r13}, [%r10];
      tcgen05.wait::ld.sync.aligned;
      add.u32 %r11, %r11, %r13; add.u32 %r8, %r8, 1; rem.u32 %r14, %r8, 3; setp.eq.u32 %p3, %r14, 0;
      @%p3 mbarrier.arrive.shared::cta.b64 _, [%r5];
      setp.lt.u32 %p3, %r8, 60; @%p3 bra L;
      mul.wide.u32 %rd1, %r1, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r11;
      bra END;
  ISSUE:
      @%p0 bra END;
      shr.u32 %r10, %r2, 4; cvt.u64.u32 %rd1, %r10; or.b64 %rd1, %rd1, 0x401000080000;
      shr.u32 %r10, %r3, 4; cvt.u64.u32 %rd2, %r10; or.b64 %rd2, %rd2, 0x401000080000;
      mov.u32 %r11, 0x8040010; setp.ne.u32 %p3, 0, 0;
  R:  mov.u32 %r12, 0;
  C:  mov.u32 %r13, 0;
  M:  tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd1, %rd2, %r11, %p3;
      add.u32 %r13, %r13, 1; setp.lt.u32 %p4, %r13, 32; @%p4 bra M;
      tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];
      add.u32 %r12, %r12, 1; setp.lt.u32 %p4, %r12, 3; @%p4 bra C;
      and.b32 %r14, %r8, 1;
  V:  mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r5], %r14; @!%p4 bra V;
      add.u32 %r8, %r8, 1; setp.lt.u32 %p4, %r8, 20; @%p4 bra R;
  END:
      bar.warp.sync -1;
      bar.sync 0;
      @!%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;)");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const Ran r = run(text, true, 160, 128, {.seed = seed});
    INFO(r.result.report);
    REQUIRE(r.result.ok);
    for (uint32_t t = 0; t < 128; ++t) CHECK(r.out[t] == 60 * t);
  }
}
