#include "emulator/watch/race.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>

#include "emulator/core/machine.h"
#include "emulator/ptx/load.h"
#include "emulator/ptx/parser.h"

using namespace fp4lab::emu;

namespace {

// Runs a kernel of two warps. Its body finds: %r0 warp id, %r1 lane id, %r2 the address of 1024 bytes of
// shared memory, %r3 and %r4 the addresses of two mbarriers (initialised to one arrival and fenced by warp 0,
// with a bar.sync behind), %rd0 the address of 1024 bytes of global memory; %p0 is true in lane 0 of each
// warp, %p1 in warp 0, %p2 in warp 1.
LaunchResult run(const std::string& body, uint64_t seed,
                 const char* fence = "fence.mbarrier_init.release.cluster;") {
  const std::string text = fmt::format(R"(.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) {{
  .reg .b32 %r<40>; .reg .b64 %rd<10>; .reg .pred %p<10>;
  .shared .align 128 .b8 data[1024]; .shared .align 8 .b8 bar[16];
  ld.param.u64 %rd0, [out]; mov.u32 %r0, %warpid; mov.u32 %r1, %laneid;
  mov.u32 %r2, data; mov.u32 %r3, bar; add.u32 %r4, %r3, 8;
  setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r0, 1;
  mov.u32 %r5, %tid.x; setp.ne.u32 %p3, %r5, 32; @%p3 bra READY;
  mbarrier.init.shared.b64 [%r3], 1; mbarrier.init.shared.b64 [%r4], 1; {}
READY: bar.sync 0;
  {}
  bar.sync 0;
  ret;
}})",
                                       fence, body);
  auto m = parse(text, "race.ptx");
  GlobalMemory memory(1 << 20);
  load(*m, memory);
  const uint64_t out = memory.allocate(1024);
  std::memset(memory.host(out), 1, 1024);
  LaunchConfig c;
  c.block.x = 64;
  c.params.resize(8);
  std::memcpy(c.params.data(), &out, 8);
  Schedule s;
  s.seed = seed;
  RaceChecker races;
  LaunchResult r =
      launch(*m, m->functions[m->function_index.at("k")], c, *device_model("b200"), memory, s, &races);
  CHECK(memory.free(out));
  return r;
}

// Right under every schedule.
void fine(const std::string& body, const char* fence = "fence.mbarrier_init.release.cluster;") {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    LaunchResult r = run(body, seed, fence);
    CHECK_MESSAGE(r.ok, r.report);
    if (!r.ok) return;
  }
}
// Reported under every schedule, with these words.
void wrong(const std::string& body, const std::string& words,
           const char* fence = "fence.mbarrier_init.release.cluster;") {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    LaunchResult r = run(body, seed, fence);
    CHECK(!r.ok);
    CHECK_MESSAGE(r.report.find(words) != std::string::npos, r.report);
    if (r.ok) return;
  }
}

const std::string kWrite = "@%p1 st.shared.u32 [%r2], %r5;\n", kRead = "@%p2 ld.shared.u32 %r6, [%r2];\n";
const std::string kInit = "@%p1 st.shared.u32 [%r2], 0;\nbar.sync 0;\n";

}  // namespace

TEST_CASE("race checker: two warps and a barrier, or none") {
  fine(kWrite + "bar.sync 0;\n" + kRead);
  fine(kInit + "@%p2 ld.shared.u32 %r6, [%r2];\nbar.sync 0;\n" + kWrite);
  wrong(kInit + kWrite + kRead, "race: shared memory at 0x400");
  wrong(kInit + kRead + kWrite, "not ordered by any synchronisation");
  // Different bytes of one granule do not conflict, and reads never do.
  fine("@%p1 st.shared.u16 [%r2], 1;\n@%p2 st.shared.u16 [%r2+2], 1;\n");
  fine(kInit + kRead + "@%p1 ld.shared.u32 %r6, [%r2];\n");
  wrong("@%p1 st.shared.u32 [%r2], 1;\n@%p2 st.shared.u16 [%r2+2], 1;\n", "race");
}

TEST_CASE(
    "race checker: named barriers order those that arrive before those that wait, generation by generation") {
  fine(kInit + kWrite + "@%p1 bar.arrive 1, 64;\n@%p2 bar.sync 1, 64;\n" + kRead);
  wrong(kInit + "@%p2 bar.arrive 1, 64;\n@%p1 bar.sync 1, 64;\n" + kWrite + kRead, "race");
  // Handed over and back twice.
  const std::string there = kWrite + "@%p1 bar.arrive 1, 64;\n@%p2 bar.sync 1, 64;\n" + kRead;
  const std::string back = "@%p2 bar.arrive 2, 64;\n@%p1 bar.sync 2, 64;\n";
  fine(kInit + there + back + there + back + there);
  wrong(kInit + there + there, "race");
}

TEST_CASE("race checker: an mbarrier orders what came before the arrival") {
  const std::string arrive = "@%p5 mbarrier.arrive.shared.b64 _, [%r3];\n";
  const std::string wait =
      "@%p1 bra SKIP;\nWAIT: mbarrier.try_wait.parity.shared.b64 %p4, [%r3], 0;\n@!%p4 bra WAIT;\nSKIP:\n";
  const std::string who = "and.pred %p5, %p0, %p1;\n";
  fine(kInit + who + kWrite + arrive + wait + kRead);
  wrong(kInit + who + arrive + kWrite + wait + kRead, "race");
}

TEST_CASE("race checker: bulk copies in, waited for or not, and the slot written too early") {
  const std::string load =
      "and.pred %p5, %p0, %p1;\n@%p5 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 512;\n"
      "@%p5 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 512, [%r3];\n";
  const std::string wait = "WAIT: mbarrier.try_wait.parity.shared.b64 %p4, [%r3], 0;\n@!%p4 bra WAIT;\n";
  fine(load + wait + kRead);
  // The bytes are there already from an earlier write, so only the order is wrong.
  const std::string init =
      "and.pred %p5, %p0, %p1;\n@%p5 st.shared.u32 [%r2], 0;\n@%p5 fence.proxy.async.shared::cta;\nbar.sync "
      "0;\n";
  fine(init + load + wait + kRead);
  wrong(init + load + kRead + wait, "race: shared memory");
  wrong(init + load + wait + "bar.sync 0;\n" + kRead +
            "@%p5 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 512;\n"
            "@%p5 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 512, [%r4];\n"
            "WAIT2: mbarrier.try_wait.parity.shared.b64 %p4, [%r4], 0;\n@!%p4 bra WAIT2;\n",
        "race: shared memory");
}

TEST_CASE("race checker: stores by the async proxy want a proxy fence and a wait") {
  const std::string fill = "@%p1 st.shared.v4.u32 [%r8], {%r1, %r1, %r1, %r1};\n";
  const std::string at = "shl.b32 %r7, %r1, 4;\nadd.u32 %r8, %r2, %r7;\nand.pred %p5, %p0, %p1;\n";
  const std::string fence = "fence.proxy.async.shared::cta;\n";
  const std::string store =
      "@%p5 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], 512;\n@%p5 "
      "cp.async.bulk.commit_group;\n";
  const std::string wait = "@%p5 cp.async.bulk.wait_group.read 0;\n";
  fine(at + fill + fence + "bar.warp.sync -1;\n" + store + wait + "bar.sync 0;\n" + fill);
  fine(at + fill + "bar.sync 0;\n" + fence + store +
       wait);  // behind the barrier, by the issuing thread: as good
  wrong(at + fill + "bar.sync 0;\n" + store + wait, "missing fence.proxy.async");
  wrong(at + fill + fence + "bar.warp.sync -1;\n" + store + fill + wait, "race: shared memory");
  wrong(at + fill + fence + "bar.sync 0;\n" + store + "@%p2 st.shared.u32 [%r2], 1;\n" + wait,
        "race: shared memory");
}

TEST_CASE("race checker: volatile accesses and atomics order what is around them") {
  const std::string flag = "@%p5 st.volatile.shared.u32 [%r2+512], 1;\n";
  const std::string spin =
      "@%p1 bra OVER;\nSPIN: ld.volatile.shared.u32 %r9, [%r2+512];\nsetp.eq.u32 %p4, %r9, 0;\n@%p4 bra "
      "SPIN;\nOVER:\n";
  const std::string zero = "and.pred %p5, %p0, %p1;\n@%p5 st.shared.u32 [%r2+512], 0;\nbar.sync 0;\n";
  fine(kInit + zero + kWrite + "bar.warp.sync -1;\n" + flag + spin + kRead);
  wrong(kInit + zero + flag + kWrite + spin + kRead, "race");
}

TEST_CASE("race checker: a fresh mbarrier wants its fence before the async proxy uses it") {
  const std::string load =
      "and.pred %p5, %p0, %p1;\n@%p5 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 512;\n"
      "@%p5 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 512, [%r3];\n"
      "WAIT: mbarrier.try_wait.parity.shared.b64 %p4, [%r3], 0;\n@!%p4 bra WAIT;\n";
  fine(load, "fence.proxy.async.shared::cta;");
  wrong(load, "missing fence.mbarrier_init", "");
  wrong(load, "behind its initialisation by warp 1", "");
}
