// CTAs that wait for each other by polling global memory: they finish, and long waits sleep instead of
// polling in every round.
#include <doctest/doctest.h>

#include "kernel.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

constexpr uint32_t kCtas = 600;

// Each CTA waits, by `poll` of [%rd0+-4] into %r2, until the previous one has written its number, and writes
// its own.
struct Chain : Kernel {
  uint64_t out = buffer(4 * kCtas);
  explicit Chain(const std::string& poll)
      : Kernel(module_text("sm_90a", ".param .u64 out", R"(
          mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd1, %r1, 4;
          ld.param.u64 %rd0, [out]; add.u64 %rd0, %rd0, %rd1;
          setp.eq.u32 %p0, %r1, 0;
          @%p0 bra GO;
          SPIN: )" + poll + R"(
          setp.eq.u32 %p1, %r2, 0;
          @%p1 bra SPIN;
          GO: add.u32 %r1, %r1, 1; st.release.gpu.global.u32 [%rd0], %r1;)")) {
    param(out);
    config.grid.x = kCtas;
    config.block.x = 1;
    schedule.threads = 2;
  }
};

// Many CTAs in which every lane increments one of two words, in its own way.
struct Counters : Kernel {
  uint64_t out = buffer(8);
  Counters(uint32_t blocks, uint32_t threads, const std::string& body)
      : Kernel(module_text("sm_90a", ".param .u64 out", "ld.param.u64 %rd0, [out];" + body)) {
    param(out);
    config.grid.x = blocks;
    config.block.x = threads;
  }
};

}  // namespace

TEST_CASE("a chain of waiting CTAs ends, and takes a number of instructions in proportion to its length") {
  for (const char* poll : {"ld.acquire.gpu.global.u32 %r2, [%rd0+-4];",
                           "ld.volatile.global.u32 %r2, [%rd0+-4];", "atom.global.or.b32 %r2, [%rd0+-4], 0;"})
    for (uint64_t seed = 0; seed < 3; ++seed) {
      Chain k(poll);
      const LaunchResult r = k.run(seed);
      INFO(poll);
      REQUIRE_MESSAGE(r.ok, r.report);
      const auto out = k.download<uint32_t>(k.out, kCtas);
      for (uint32_t c = 0; c < kCtas; ++c) REQUIRE(out[c] == c + 1);
      // If every poll were executed, it would be more than a million.
      CHECK(r.statistics.warp_instructions < 500 * kCtas);
    }
}

TEST_CASE("the same seed gives the same run, whatever the number of host threads") {
  uint64_t rounds[2];
  for (const unsigned threads : {1u, 2u}) {
    Chain k("ld.acquire.gpu.global.u32 %r2, [%rd0+-4];");
    k.schedule.threads = threads;
    const LaunchResult r = k.run(7);
    REQUIRE_MESSAGE(r.ok, r.report);
    rounds[threads - 1] = r.statistics.rounds;
  }
  CHECK(rounds[0] == rounds[1]);
}

// A second and more by a GPU's clock.
TEST_CASE("warps that wait for a point in time reach it") {
  for (const char* clock : {"%clock64", "%globaltimer"})
    for (const unsigned threads : {1u, 2u}) {
      Kernel k(module_text("sm_90a", ".param .u64 out", std::string("mov.u64 %rd1, ") + clock + R"(;
          SPIN: mov.u64 %rd2, )" + clock + R"(; sub.u64 %rd3, %rd2, %rd1;
          setp.lt.u64 %p0, %rd3, 4000000000;
          @%p0 bra SPIN;
          mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd4, %r1, 8;
          ld.param.u64 %rd0, [out]; add.u64 %rd0, %rd0, %rd4; st.global.u64 [%rd0], %rd3;)"));
      const uint64_t out = k.buffer(8 * 40);
      k.param(out);
      k.config.grid.x = 40;
      k.config.block.x = 64;
      k.schedule.threads = threads;
      const LaunchResult r = k.run(5);
      INFO(clock);
      REQUIRE_MESSAGE(r.ok, r.report);
      for (const uint64_t waited : k.download<uint64_t>(out, 40)) CHECK(waited >= 4000000000);
    }
}

TEST_CASE("an endless loop that reads the clock is still reported as hung") {
  Kernel k(module_text("sm_90a", ".param .u64 out", R"(
          SPIN: mov.u64 %rd2, %clock64; setp.ne.u64 %p0, %rd2, 0; @%p0 bra SPIN;)"));
  k.param(0);
  const LaunchResult r = k.run();
  CHECK(!r.ok);
  CHECK(r.report.find("only poll") != std::string::npos);
}

TEST_CASE("contended compare and swap takes a number of instructions in proportion to the threads") {
  constexpr uint32_t kBlocks = 200, kThreads = 128;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Counters k(kBlocks, kThreads, R"(
        ld.volatile.global.u32 %r1, [%rd0];
        AGAIN: mov.u32 %r2, %r1; add.u32 %r3, %r2, 1;
        atom.global.cas.b32 %r1, [%rd0], %r2, %r3;
        setp.ne.u32 %p0, %r1, %r2;
        @%p0 bra AGAIN;)");
    const LaunchResult r = k.run(seed);
    REQUIRE_MESSAGE(r.ok, r.report);
    CHECK(k.download<uint32_t>(k.out, 1)[0] == kBlocks * kThreads);
    CHECK(r.statistics.warp_instructions <
          40 * kBlocks * kThreads);  // one lane a round: hundreds of times that
  }
}

// A lock that every lane takes once. Its holder waits for no one, so the warps' turns must end.
TEST_CASE("a lock taken by lanes of many warps is released, however long the others try") {
  constexpr uint32_t kBlocks = 40, kThreads = 64;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Counters k(kBlocks, kThreads, R"(
        AGAIN: atom.acquire.gpu.global.cas.b32 %r1, [%rd0], 0, 1;
        setp.ne.u32 %p0, %r1, 0;
        @%p0 bra WAIT;
        ld.volatile.global.u32 %r2, [%rd0+4]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [%rd0+4], %r2;
        atom.release.gpu.global.exch.b32 %r1, [%rd0], 0;
        bra DONE;
        WAIT: bra AGAIN;
        DONE:)");
    const LaunchResult r = k.run(seed);
    REQUIRE_MESSAGE(r.ok, r.report);
    CHECK(k.download<uint32_t>(k.out, 2)[1] == kBlocks * kThreads);
  }
}
