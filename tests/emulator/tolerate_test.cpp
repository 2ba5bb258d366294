// Faults that a tolerant schedule turns into notes.
#include <doctest/doctest.h>

#include <array>
#include <bit>

#include "emulator/watch/order.h"
#include "tolerated.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

TEST_CASE("a load of unwritten shared memory: a fault, or poison and a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b8 s[16];
      mov.u32 %r1, s; ld.shared.u32 %r2, [%r1]; ld.shared.u32 %r3, [%r1+4];
      ld.param.u64 %rd0, [out]; st.global.u32 [%rd0], %r2;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 1, 1);
    CHECK(r.result.ok == tolerant);
    CHECK(r.result.notes.empty() == !tolerant);
    CHECK(r.says("never written"));
    if (!tolerant) continue;
    CHECK(r.says("ld.shared.u32 %r2"));
    CHECK(r.says("at 1 more"));
    CHECK(r.out[0] != 0);  // poison, not a zero that hides the mistake
  }
}

TEST_CASE("an atomic on unwritten shared memory: a fault, or a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b8 s[16];
      mov.u32 %r1, s; atom.shared.exch.b32 %r2, [%r1], 5; ld.shared.u32 %r3, [%r1];
      ld.param.u64 %rd0, [out]; st.global.u32 [%rd0], %r3;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 1, 1);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("never written"));
    if (tolerant) CHECK(r.out[0] == 5);
  }
}

// libcu++ implements a byte atomic by one on the word that contains it.
TEST_CASE("an atomic of the word in which an allocation ends: a fault, or a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      ld.param.u64 %rd0, [out]; mov.u64 %rd1, 7;
      atom.global.exch.b64 %rd2, [%rd0], %rd1;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 1, 1);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("illegal atomic access of 8 bytes"));
    CHECK(r.out[0] == (tolerant ? 7 : 0));
  }
}

// Lanes 8 to 31 of warp 0 only have the end ahead, where the others might be waited for.
TEST_CASE("a barrier that some lanes of a warp miss because they exit: a fault, or a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      mov.u32 %r1, %tid.x; setp.lt.u32 %p0, %r1, 8; setp.ge.u32 %p1, %r1, 32; or.pred %p0, %p0, %p1;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %rd0;
      @!%p0 bra END;
      bar.red.popc.u32 %r2, 0, %p0;
      st.global.u32 [%rd1], %r2;
    END:
      st.global.u32 [%rd1+256], %r1;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 64, 128);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("must execute this instruction together"));
    if (tolerant)
      for (unsigned lane = 0; lane < 64; ++lane) CHECK(r.out[lane] == (lane < 8 || lane >= 32 ? 40 : 0));
  }
}

TEST_CASE("a read past the end of an allocation, in its last page: a fault, or the bytes there and a note") {
  const auto accessing = [](const char* access) {
    return module_text(
        "sm_90a", ".param .u64 out",
        fmt::format("ld.param.u64 %rd0, [out]; mov.u32 %r2, 7; {}; st.global.u32 [%rd0], 1;", access));
  };
  for (const bool tolerant : {false, true}) {
    for (const char* access :
         {"ld.global.v2.u32 {%r2, %r3}, [%rd0+8]", "ld.global.v2.u32 {%r2, %r3}, [%rd0+1048576]"}) {
      const Ran r = run(accessing(access), tolerant, 1, 3);
      CHECK(r.result.ok == tolerant);
      CHECK(r.result.notes.empty() == !tolerant);
      CHECK(r.says("illegal read of 8 bytes"));
      CHECK(r.out[0] == tolerant);
    }
  }
  // A write there, and a read in another page, are faults with every schedule.
  for (const char* access : {"st.global.u32 [%rd0+12], %r2", "ld.global.u32 %r2, [%rd0+2097152]",
                             "atom.global.add.u32 %r2, [%rd0+12], 1"}) {
    const Ran r = run(accessing(access), true, 1, 3);
    CHECK(!r.result.ok);
    CHECK(r.says("illegal"));
  }
}

TEST_CASE("an unwritten register: a fault, or poison and a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      add.u32 %r2, %r1, 1; mov.b64 %rd2, %rd1; @%p1 mov.u32 %r2, 7;
      ld.param.u64 %rd0, [out]; st.global.u32 [%rd0], %r2; st.global.u64 [%rd0+8], %rd2;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 1, 4);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("is read before it was written"));
    if (!tolerant) {
      CHECK(r.says("%r1 (.b32) is read before it was written"));
      continue;
    }
    CHECK(r.out[0] == 0xcbcbcbcc);
    CHECK(r.out[2] == 0xcbcbcbcb);
    CHECK(r.out[3] == 0xcbcbcbcb);
  }
}

TEST_CASE("an mbarrier's parity beyond 1: a fault, or its lowest bit and a note") {
  // Before phase 0 completes, the previous phase, of parity 1, is complete; afterwards parity 0 is and 1 is
  // not.
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r1, bar; mov.u32 %r2, 2; mov.u32 %r3, 3; mov.u32 %r4, -1;
      mbarrier.init.shared::cta.b64 [%r1], 1;
      mbarrier.test_wait.parity.shared::cta.b64 %p0, [%r1], %r2; selp.u32 %r5, 1, 0, %p0;
      mbarrier.test_wait.parity.shared::cta.b64 %p0, [%r1], %r4; selp.u32 %r6, 1, 0, %p0;
      mbarrier.arrive.shared::cta.b64 _, [%r1];
      mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r1], %r2; selp.u32 %r7, 1, 0, %p0;
      mbarrier.test_wait.parity.shared::cta.b64 %p0, [%r1], %r3; selp.u32 %r8, 1, 0, %p0;
      ld.param.u64 %rd0, [out]; st.global.v4.u32 [%rd0], {%r5, %r6, %r7, %r8};)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 1, 4, {.eager = true});
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("parity 2: must be 0 or 1"));
    if (tolerant) CHECK(r.out == std::vector<uint32_t>{0, 1, 1, 0});
  }
}

// %r3 of lane 7 comes from lane 8, which takes no part in the shfl.
TEST_CASE("shfl from a lane that takes no part: a fault, or poison and a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 7; @%p1 bra END;
      shfl.sync.down.b32 %r3, %r1, 1, 31, 255; add.u32 %r4, %r3, 1;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r3;
    END:)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 32, 8);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("%r3 (.b32) is read before it was written, in lane 7"));
    if (!tolerant) continue;
    for (uint32_t lane = 0; lane < 7; ++lane) CHECK(r.out[lane] == lane + 1);
    CHECK(r.out[7] == 0xcbcbcbcb);
  }
}

TEST_CASE("shfl by lanes that its member mask does not name: a fault, or the value and a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      mov.u32 %r1, %tid.x;
      shfl.sync.bfly.b32 %r3, %r1, 1, 4127, 65535;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r3;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 32, 32);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("member mask 0x0000ffff does not name lanes 16-31"));
    for (uint32_t lane = 0; tolerant && lane < 32; ++lane) CHECK(r.out[lane] == (lane ^ 1));
  }
}

// ptxas 13.0 reads the response as ld.shared does here: word 0 is x, bit 0 of word 2 the success flag.
TEST_CASE("the index of a failed launch control request: a fault, or an arbitrary value and a note") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 16 .b8 response[16]; .shared .align 8 .b64 bar; .reg .b128 %q0;
      mov.u32 %r0, response; mov.u32 %r1, bar; ld.param.u64 %rd0, [out];
      mbarrier.init.shared::cta.b64 [%r1], 1;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;
      clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r0], [%r1];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r1], 0;
      @!%p0 bra W;
      ld.shared.b128 %q0, [%r0]; ld.shared.u32 %r2, [%r0+8]; and.b32 %r2, %r2, 1; st.global.u32 [%rd0], %r2;
      clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r3, %q0;
      clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q0;
      selp.u32 %r3, %r3, 7, %p1; st.global.u32 [%rd0+4], %r3;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 1, 2);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("of a request that failed"));
    CHECK(r.out[0] == 0);
    CHECK(r.out[1] == (tolerant ? 7 : 0));
  }
}

// GOUTHAM1926's batched GEMM keeps two requests pending and exits when the first has failed.
TEST_CASE("a launch control request after a failed one: a fault, or it fails too and a note") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 16 .b8 response[16]; .shared .align 8 .b64 bar; .reg .b128 %q0;
      mov.u32 %r0, response; mov.u32 %r1, bar; ld.param.u64 %rd0, [out]; mov.u32 %r3, 0;
      mbarrier.init.shared::cta.b64 [%r1], 1;
    A: mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;
      clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r0], [%r1];
      setp.eq.u32 %p2, %r3, 2; @%p2 ret;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r1], %r3;
      @!%p0 bra W;
      ld.shared.b128 %q0, [%r0];
      clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q0;
      selp.u32 %r2, 1, 5, %p1; shl.b32 %r4, %r3, 2; cvt.u64.u32 %rd1, %r4; add.u64 %rd1, %rd1, %rd0;
      st.global.u32 [%rd1], %r2; add.u32 %r3, %r3, 1; bra A;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 1, 2);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("after this CTA saw that an earlier request had failed"));
    CHECK(r.out[0] == 5);
    CHECK(r.out[1] == (tolerant ? 5 : 0));
  }
}

TEST_CASE(
    "a .shared address where a generic one is required: a fault, or the mbarrier that ptxas uses and a "
    "note") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r0, bar; cvt.u64.u32 %rd1, %r0;
      mbarrier.init.shared::cta.b64 [%r0], 1;
      tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%rd1];
  WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], 0;
      @!%p0 bra WAIT;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 1, 1);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("a .shared address wants the state space named"));
  }
}

// Each of 128 threads writes 16 bytes of ones to A (64 x 16, K-major, no swizzle), and the first 16 threads
// to B.
std::string product(const std::string& end, const char* reserved = "0") {
  return module_text("sm_90a", ".param .u64 out",
                     R"(
      .shared .align 128 .b8 a[2048]; .shared .align 128 .b8 b[256]; .reg .f32 %e<8>;
      mov.u32 %r1, %tid.x; mov.u32 %r2, a; mov.u32 %r3, b; mov.b64 %rd1, 0x3c003c003c003c00;
      shl.b32 %r4, %r1, 4; add.u32 %r5, %r2, %r4; add.u32 %r6, %r3, %r4; setp.lt.u32 %p1, %r1, 16;
      st.shared.v2.u64 [%r5], {%rd1, %rd1}; @%p1 st.shared.v2.u64 [%r6], {%rd1, %rd1};
      fence.proxy.async.shared::cta; bar.sync 0;
      shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd1, %r5; or.b64 %rd1, %rd1, 0x1000080000;
      shr.u32 %r6, %r3, 4; cvt.u64.u32 %rd2, %r6; or.b64 %rd2, %rd2, 0x1000080000;
      or.b64 %rd1, %rd1, )" +
                         std::string(reserved) + R"(;
      wgmma.fence.sync.aligned; setp.ne.u32 %p0, 0, 0;
      wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%e0, %e1, %e2, %e3}, %rd1, %rd2, %p0, 1, 1, 0, 0;)" +
                         end + R"(
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd0, %rd0, %rd3; st.global.f32 [%rd0], %e4;)");
}

// ptxas keeps the product and the use in order ("wgmma.mma_async instructions are serialized").
TEST_CASE("an accumulator of wgmma that is used before the wait: a fault, or its value and a note") {
  for (const char* end : {"add.f32 %e4, %e1, 0f3f800000; wgmma.commit_group.sync.aligned;",
                          "wgmma.commit_group.sync.aligned; add.f32 %e4, %e1, 0f3f800000;"})
    for (const bool tolerant : {false, true})
      for (uint64_t seed = 0; seed < 8; ++seed) {
        Options o;
        o.seed = seed;
        const Ran r =
            run(product(end + std::string("wgmma.wait_group.sync.aligned 0;")), tolerant, 128, 128, o);
        INFO(r.result.report);
        CHECK(r.result.ok == tolerant);
        CHECK(r.says("%e1 (.f32) is read before it was written"));
        for (uint32_t t = 0; tolerant && t < 128; ++t) CHECK(std::bit_cast<float>(r.out[t]) == 17);
      }
  const Ran waited = run(product(R"(
      wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; add.f32 %e4, %e1, 0f3f800000;)"),
                         true, 128, 128);
  CHECK(waited.result.ok);
  CHECK(waited.result.notes.empty());
}

TEST_CASE("a copy over an operand that a product still reads: in any order, or after the product") {
  const std::string text = product(R"(
      wgmma.commit_group.sync.aligned;
      ld.param.u64 %rd4, [out]; mul.wide.u32 %rd5, %r1, 16; add.u64 %rd5, %rd5, %rd4;
      shl.b32 %r7, %r1, 4; add.u32 %r7, %r7, %r2; cp.async.ca.shared.global [%r7], [%rd5], 16;
      wgmma.wait_group.sync.aligned 0; add.f32 %e4, %e1, 0f3f800000; cp.async.wait_all;)");
  for (const bool tolerant : {false, true}) {
    unsigned wrong = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Ran r = run(text, tolerant, 128, 512, {.seed = seed});
      INFO(r.result.report);
      REQUIRE(r.result.ok);
      for (uint32_t t = 0; t < 128; ++t) wrong += std::bit_cast<float>(r.out[t]) != 17;
    }
    CHECK((wrong == 0) == tolerant);
  }
}

TEST_CASE("reserved bits of a wgmma descriptor: a fault, or ignored and a note") {
  const char* end = R"(
      wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; add.f32 %e4, %e1, 0f3f800000;)";
  for (const char* reserved : {"0xc000", "0xc0000000", "0x1c00000000000", "0x3ff0000000000000"})
    for (const bool tolerant : {false, true}) {
      const Ran r = run(product(end, reserved), tolerant, 128, 128);
      INFO(r.result.report);
      CHECK(r.result.ok == tolerant);
      CHECK(r.says("reserved field"));
      for (uint32_t t = 0; tolerant && t < 128; ++t) CHECK(std::bit_cast<float>(r.out[t]) == 17);
    }
}

// Only the first 8 rows of A are written; the products of the other 56 are never read.
TEST_CASE("a matrix product of unwritten rows: a fault, or poison for those rows and a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 128 .b8 a[2048]; .shared .align 128 .b8 b[256]; .reg .f32 %e<4>;
      mov.u32 %r1, %tid.x; mov.u32 %r2, a; mov.u32 %r3, b; setp.gt.u32 %p1, %r1, 31; @%p1 bra WRITTEN;
      shl.b32 %r4, %r1, 3; add.u32 %r5, %r2, %r4; add.u32 %r6, %r3, %r4; mov.b64 %rd1, 0x3c003c003c003c00;
      st.shared.u64 [%r5], %rd1; st.shared.u64 [%r6], %rd1;
    WRITTEN:
      fence.proxy.async.shared::cta; bar.sync 0;
      shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd1, %r5; or.b64 %rd1, %rd1, 0x1000080000;
      shr.u32 %r6, %r3, 4; cvt.u64.u32 %rd2, %r6; or.b64 %rd2, %rd2, 0x1000080000;
      wgmma.fence.sync.aligned;
      setp.ne.u32 %p0, 0, 0;
      wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%e0, %e1, %e2, %e3}, %rd1, %rd2, %p0, 1, 1, 0, 0;
      wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd0, %rd0, %rd3; st.global.f32 [%rd0], %e0;)");
  for (const bool tolerant : {false, true}) {
    Kernel k(text);
    const uint64_t out = k.buffer(128 * 4);
    k.param(out);
    k.config.block.x = 128;
    k.schedule.tolerant = tolerant;
    const LaunchResult r = k.run();
    INFO(r.report);
    CHECK(r.ok == tolerant);
    CHECK((tolerant ? r.notes : r.report).find("which was never written") != std::string::npos);
    if (!tolerant) continue;
    const auto got = k.download<float>(out, 128);
    for (uint32_t t = 0; t < 32; ++t) CHECK(got[t] == 16);  // row t / 4
    CHECK(got[32] != 16);
  }
}

TEST_CASE("a bulk copy from unwritten shared memory: a fault, or poison and a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 16 .b8 s[16];
      ld.param.u64 %rd0, [out]; mov.u32 %r1, s; st.shared.u32 [%r1], 7;
      fence.proxy.async.shared::cta;
      cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 16;
      cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 1, 4);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("byte 4 was never written"));
    if (!tolerant) continue;
    CHECK(r.out[0] == 7);
    CHECK(r.out[1] != 0);
  }
}

// The second CTA stores between its arrivals. On an H200 the first CTA's first wait ends after both.
TEST_CASE("two arrivals at the cluster barrier before the waits: a fault, or one for each phase and a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      ld.param.u64 %rd0, [out]; mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p0, %r1, 0; mov.u32 %r2, 7;
      barrier.cluster.arrive;
      @!%p0 st.global.u32 [%rd0+4], %r2;
      barrier.cluster.arrive;
      barrier.cluster.wait;
      ld.global.u32 %r3, [%rd0+4];
      barrier.cluster.wait;
      barrier.cluster.arrive;
      barrier.cluster.wait;
      @%p0 st.global.u32 [%rd0], %r3;)");
  for (const bool tolerant : {false, true})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Ran r = run(text, tolerant, 32, 2, {.seed = seed, .cluster = 2});
      INFO(r.result.report);
      CHECK(r.result.ok == tolerant);
      CHECK(r.says("arrived before and has not executed barrier.cluster.wait since"));
      if (tolerant) CHECK(r.out[0] == 7);
    }
}

TEST_CASE("a third arrival at the cluster barrier before the waits is a fault") {
  const Ran r = run(module_text("sm_90a", ".param .u64 out", R"(
      barrier.cluster.arrive; barrier.cluster.arrive; barrier.cluster.arrive; barrier.cluster.wait;)"),
                    true, 32, 1, {.cluster = 2});
  CHECK_FALSE(r.result.ok);
}

// TensorRT-LLM's XQA prefetches pages without waiting for them.
TEST_CASE("cp.async and its arrival that are pending when their CTA exits: a fault, or a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 16 .b8 page[512]; .shared .align 8 .b64 bar;
      ld.param.u64 %rd0, [out]; mov.u32 %r0, page; mov.u32 %r1, bar; mov.u32 %r2, %tid.x; shl.b32 %r2, %r2, 4;
      setp.ne.u32 %p0, %r2, 0; add.u32 %r0, %r0, %r2; cvt.u64.u32 %rd1, %r2; add.u64 %rd1, %rd0, %rd1;
      @!%p0 mbarrier.init.shared::cta.b64 [%r1], 32;
      bar.warp.sync -1;
      cp.async.cg.shared.global [%r0], [%rd1], 16;
      cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];)");
  unsigned faults = 0, notes = 0;
  for (const bool tolerant : {false, true})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Ran r = run(text, tolerant, 32, 128, {.seed = seed});
      INFO(r.result.report);
      CHECK((r.result.ok || !tolerant));
      faults += r.result.report.find("still running: cp.async") != std::string::npos;
      notes += r.result.notes.find("still running: cp.async") != std::string::npos;
    }
  CHECK(faults > 0);
  CHECK(notes > 0);
}

// A CTA of XQA without keys prefetches zeros, does not wait, and stores its results there.
TEST_CASE("cp.async of zeros without a wait: late in some schedules, or at once") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 16 .b8 page[512];
      ld.param.u64 %rd0, [out]; mov.u32 %r0, page; mov.u32 %r2, %tid.x; shl.b32 %r1, %r2, 4;
      add.u32 %r0, %r0, %r1; mov.u32 %r3, 0;
      cp.async.cg.shared.global [%r0], [%rd0], 16, %r3;
      add.u32 %r4, %r2, 1; st.shared.u32 [%r0], %r4;
      cp.async.wait_all;
      bar.warp.sync -1;
      ld.shared.u32 %r5, [%r0];
      mul.wide.u32 %rd1, %r2, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r5;)");
  for (const bool tolerant : {false, true}) {
    unsigned lost = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Ran r = run(text, tolerant, 32, 32, {.seed = seed});
      INFO(r.result.report);
      CHECK(r.result.ok);
      for (uint32_t lane = 0; lane < 32; ++lane) lost += r.out[lane] != lane + 1;
    }
    CHECK((lost > 0) == !tolerant);
  }
}
