// How far apart warps come: any distance, or with `tolerant`, by turns, about as far as on hardware.
#include <doctest/doctest.h>

#include "kernel.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

// Runs two warps under 20 seeds; how many of them leave something else than `right` in `out`.
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

TEST_CASE(
    "stores that no barrier orders, dozens of instructions apart, keep their order unless run strictly") {
  const std::string body = std::string("@%p1 st.shared.u32 [%r0+4], 0; @%p0 bra J;\n") + kDelay + R"(
        @%p2 st.shared.u32 [%r0+4], 7;
        J: bar.sync 0; ld.shared.u32 %r3, [%r0+4]; @%p1 st.global.u32 [%rd0], %r3;)";
  CHECK(wrong_seeds(body, true, 7) == 0);
  CHECK(wrong_seeds(body, false, 7) > 0);
}

TEST_CASE("the last warp at a barrier does not run far ahead of those that it wakes unless run strictly") {
  const std::string body = std::string(R"(
        @%p1 st.shared.u32 [%r0], 5;
        bar.sync 0; @%p0 bra J;
        ld.shared.u32 %r3, [%r0]; @%p2 st.global.u32 [%rd0], %r3; ret;
        J:)") + kDelay + "@%p1 st.shared.u32 [%r0], 9;";
  CHECK(wrong_seeds(body, true, 5) == 0);
  CHECK(wrong_seeds(body, false, 5) > 0);
}

TEST_CASE("a warp that polls holds nobody up") {
  const std::string body = std::string(R"(
        @%p1 st.shared.u32 [%r0], 0; bar.sync 0; @%p0 bra J;
        P: ld.volatile.shared.u32 %r3, [%r0]; setp.eq.u32 %p3, %r3, 0; @%p3 bra P;
        @%p2 st.global.u32 [%rd0], %r3; ret;
        J:)") + kDelay + "@%p1 st.volatile.shared.u32 [%r0], 3;";
  CHECK(wrong_seeds(body, true, 3) == 0);
  CHECK(wrong_seeds(body, false, 3) == 0);
}
