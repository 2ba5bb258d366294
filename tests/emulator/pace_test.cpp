// How far warps may drift apart: arbitrarily, or with `tolerant`, in turns, about as far as on hardware.
#include <doctest/doctest.h>

#include "kernel.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

// Runs two warps under 20 seeds and counts the seeds that leave a value other than `right` in `out`.
unsigned wrong_seeds(const std::string& body, bool tolerant, uint32_t right) {
  unsigned wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Kernel k(module_text("sm_90a", ".param .u64 out",
                         R"(
        .shared .align 8 .b32 s[2];
        mov.u32 %r0, s; ld.param.u64 %rd0, [out]; mov.u32 %r1, 0;
        mov.u32 %r2, %tid.x; setp.lt.u32 %p0, %r2, 32; setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r2, 32;)" +
                             body));
    const uint64_t out = k.buffer(4);
    k.param(out);
    k.config.block.x = 64;
    k.schedule.tolerant = tolerant;
    const LaunchResult result = k.run(seed);
    INFO(result.report);
    REQUIRE(result.ok);
    wrong += k.download<uint32_t>(out, 1)[0] != right;
  }
  return wrong;
}

// 60 instructions
constexpr const char* kDelay = "D: add.u32 %r1, %r1, 1; setp.lt.u32 %p7, %r1, 20; @%p7 bra D;";

}  // namespace

TEST_CASE("unordered stores, dozens of instructions apart, keep their order unless the schedule is strict") {
  const std::string body = std::string("@%p1 st.shared.u32 [%r0+4], 0; @%p0 bra J;\n") + kDelay + R"(
        @%p2 st.shared.u32 [%r0+4], 7;
        J: bar.sync 0; ld.shared.u32 %r3, [%r0+4]; @%p1 st.global.u32 [%rd0], %r3;)";
  CHECK(wrong_seeds(body, true, 7) == 0);
  CHECK(wrong_seeds(body, false, 7) > 0);
}

TEST_CASE("the last warp at a barrier does not run far ahead of the others unless the schedule is strict") {
  const std::string body = std::string(R"(
        @%p1 st.shared.u32 [%r0], 5;
        bar.sync 0; @%p0 bra J;
        ld.shared.u32 %r3, [%r0]; @%p2 st.global.u32 [%rd0], %r3; ret;
        J:)") + kDelay + "@%p1 st.shared.u32 [%r0], 9;";
  CHECK(wrong_seeds(body, true, 5) == 0);
  CHECK(wrong_seeds(body, false, 5) > 0);
}

TEST_CASE("a polling warp does not delay others") {
  const std::string body = std::string(R"(
        @%p1 st.shared.u32 [%r0], 0; bar.sync 0; @%p0 bra J;
        P: ld.volatile.shared.u32 %r3, [%r0]; setp.eq.u32 %p3, %r3, 0; @%p3 bra P;
        @%p2 st.global.u32 [%rd0], %r3; ret;
        J:)") + kDelay + "@%p1 st.volatile.shared.u32 [%r0], 3;";
  CHECK(wrong_seeds(body, true, 3) == 0);
  CHECK(wrong_seeds(body, false, 3) == 0);
}

namespace {
// Lanes diverge and reconverge in each iteration; %r6 counts what they then see of their neighbours'
// iterations.
constexpr const char* kPartingRounds = R"(
        .shared .align 4 .b32 rounds[64];
        ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, 0; mov.u32 %r6, 0; mov.u32 %r7, %r0;
        mov.u32 %r2, rounds; mad.lo.u32 %r3, %r0, 4, %r2; xor.b32 %r4, %r0, 1; mad.lo.u32 %r4, %r4, 4, %r2;
        ROUND: st.shared.u32 [%r3], %r1; membar.cta; ld.shared.u32 %r5, [%r4]; membar.cta;
        setp.ne.u32 %p0, %r5, %r1; selp.u32 %r5, 1, 0, %p0; add.u32 %r6, %r6, %r5;
        mad.lo.u32 %r7, %r7, 1664525, 1013904223; setp.lt.s32 %p1, %r7, 0; @%p1 bra JOIN;
        xor.b32 %r8, %r7, 3;
        JOIN: add.u32 %r1, %r1, 1; setp.ne.u32 %p2, %r1, 3000; @%p2 bra ROUND;
        mov.u32 %r9, %ctaid.x; mad.lo.u32 %r9, %r9, 64, %r0; mul.wide.u32 %rd1, %r9, 4;
        add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r6;)";
}  // namespace

TEST_CASE(
    "lanes that diverge and reconverge often make progress: they are neither hung nor released from joins") {
  constexpr unsigned kCtas = 4, kThreads = 64;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Kernel k(module_text("sm_90a", ".param .u64 out", kPartingRounds));
    const uint64_t out = k.buffer(4 * kCtas * kThreads);
    k.param(out);
    k.config.grid.x = kCtas;
    k.config.block.x = kThreads;
    k.schedule.tolerant = true;
    k.schedule.poll_limit = 50'000;
    const LaunchResult result = k.run(seed);
    INFO(result.report);
    REQUIRE(result.ok);
    for (const uint32_t other_rounds : k.download<uint32_t>(out, kCtas * kThreads)) CHECK(other_rounds == 0);
  }
}

TEST_CASE("lanes that diverge to poll and reconverge are reported if nothing changes any more") {
  Kernel k(module_text("sm_90a", ".param .u64 out", R"(
        ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 1; setp.eq.u32 %p0, %r1, 0; mov.u32 %r2, 0;
        ROUND: @%p0 bra JOIN;
        ld.acquire.gpu.global.u32 %r2, [%rd0]; add.u32 %r3, %r2, 1;
        JOIN: add.u32 %r4, %r2, 3; setp.lt.u32 %p1, %r4, 4; @%p1 bra ROUND;
        st.global.u32 [%rd0+4], %r4;)"));
  k.param(k.upload<uint32_t>({0, 0}));
  k.config.block.x = 32;
  k.schedule.poll_limit = k.schedule.silence_limit = 50'000;
  const LaunchResult result = k.run(0);
  REQUIRE(!result.ok);
  CHECK(result.kind == FaultKind::deadlock);
}
