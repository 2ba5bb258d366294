// What a launch may be asked to tolerate is noted, and no fault.
#include <doctest/doctest.h>

#include <array>
#include <bit>

#include "emulator/watch/order.h"
#include "kernel.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

// What became of a kernel that writes `words` words behind its only parameter, `out`.
struct Ran {
  LaunchResult result;
  std::vector<uint32_t> out;
  // Does the report of the fault, or else a note, say so?
  bool says(const char* what) const {
    return (result.ok ? result.notes : result.report).find(what) != std::string::npos;
  }
};

struct Options {
  Watcher* watcher = nullptr;
  uint64_t seed = 0;
  uint32_t cluster = 1;  // CTAs, of the only cluster
  bool eager = false;
};

Ran run(const std::string& text, bool tolerant, uint32_t threads, size_t words, const Options& o = {}) {
  Kernel k(text);
  const uint64_t out = k.buffer(4 * words);
  k.param(out);
  k.config.block.x = threads;
  k.config.grid.x = k.config.cluster.x = o.cluster;
  if (o.eager) k.schedule.kind = Schedule::Kind::eager;
  k.schedule.tolerant = tolerant;
  k.watcher = o.watcher;
  Ran r{k.run(o.seed), {}};
  r.out = k.download<uint32_t>(out, words);
  return r;
}

// In some of 20 seeds the CTA exits too early: a fault, or else a note.
constexpr const char* kEarly = "exits while an operation that it issued is still running";
void check_early_exit(const std::string& text, const char* note = kEarly) {
  unsigned faults = 0, notes = 0;
  for (const bool tolerant : {false, true})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Ran r = run(text, tolerant, 32, 1, {.seed = seed});
      INFO(r.result.report);
      CHECK((r.result.ok || !tolerant));
      faults += r.result.report.find(kEarly) != std::string::npos;
      notes += r.result.notes.find(note) != std::string::npos;
    }
  CHECK(faults > 0);
  CHECK(notes > 0);
}

}  // namespace

TEST_CASE("a load of shared memory that nobody wrote: a fault, or poison and a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b8 s[16];
      mov.u32 %r1, s; ld.shared.u32 %r2, [%r1]; ld.shared.u32 %r3, [%r1+4];
      ld.param.u64 %rd0, [out]; st.global.u32 [%rd0], %r2;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 1, 1);
    CHECK(r.result.ok == tolerant);
    CHECK(r.result.notes.empty() == !tolerant);
    CHECK(r.says("nobody has written"));
    if (!tolerant) continue;
    CHECK(r.says("ld.shared.u32 %r2"));
    CHECK(r.says("at 1 more"));
    CHECK(r.out[0] != 0);  // poison, not a zero that hides the mistake
  }
}

TEST_CASE("a read behind an allocation, in its last 256 bytes: a fault, or what lies there and a note") {
  const auto accessing = [](const char* access) {
    return module_text(
        "sm_90a", ".param .u64 out",
        fmt::format("ld.param.u64 %rd0, [out]; mov.u32 %r2, 7; {}; st.global.u32 [%rd0], 1;", access));
  };
  for (const bool tolerant : {false, true}) {
    const Ran r = run(accessing("ld.global.v2.u32 {%r2, %r3}, [%rd0+8]"), tolerant, 1, 3);
    CHECK(r.result.ok == tolerant);
    CHECK(r.result.notes.empty() == !tolerant);
    CHECK(r.says("illegal read of 8 bytes"));
    CHECK(r.out[0] == tolerant);
  }
  // A write there, and a read farther on, are faults all the same.
  for (const char* access : {"st.global.u32 [%rd0+12], %r2", "ld.global.u32 %r2, [%rd0+256]",
                             "atom.global.add.u32 %r2, [%rd0+12], 1"}) {
    const Ran r = run(accessing(access), true, 1, 3);
    CHECK(!r.result.ok);
    CHECK(r.says("illegal"));
  }
}

TEST_CASE("a register that nobody wrote: a fault, or poison and a note") {
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

// %r3 of lane 7 comes from lane 8, which takes no part in the shfl.
TEST_CASE("what shfl brings from a lane that takes no part: a fault, or poison and a note") {
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

// ptxas 13.0 reads the response as ld.shared does here: word 0 is x, bit 0 of word 2 the answer.
TEST_CASE("the index of a launch control request that failed: a fault, or nothing that counts and a note") {
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

// A kernel that writes its lanes' numbers to TMEM column 0 and stores what one tcgen05.ld of %r3 then brings.
std::string loads_column(const std::string& address) {
  return module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 8 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x; ld.param.u64 %rd0, [out];
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
      ld.shared.u32 %r2, [%r0];
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1};
      tcgen05.wait::st.sync.aligned;
      )" + address + R"(
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3];
      tcgen05.wait::ld.sync.aligned;
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;
      mul.wide.u32 %rd1, %r1, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r4;)");
}

TEST_CASE("tcgen05.ld with each lane's own row for an address: a fault, or the first lane's and a note") {
  const std::string text = loads_column("shl.b32 %r3, %r1, 16; or.b32 %r3, %r3, %r2;");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 32, 32);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("the TMEM address differs between the lanes of a warp"));
    for (uint32_t lane = 0; tolerant && lane < 32; ++lane) CHECK(r.out[lane] == lane);
  }
}

TEST_CASE("tcgen05.ld of cells that nobody wrote: a fault, or poison and a note") {
  const std::string text = loads_column("add.u32 %r3, %r2, 1;");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 32, 32);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("TMEM columns [1, 2), lanes [0, 32): nobody has written"));
    for (uint32_t lane = 0; tolerant && lane < 32; ++lane) CHECK(r.out[lane] == 0xffffffff);
  }
}

TEST_CASE("a tcgen05.ld result that is used before the wait: a fault, or its value and a note") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 8 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
      ld.shared.u32 %r2, [%r0]; add.u32 %r3, %r1, 100;
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r3};
      tcgen05.wait::st.sync.aligned;
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r2];
      mov.b32 %r5, %r4; add.u32 %r6, %r5, 1;
      tcgen05.wait::ld.sync.aligned;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r6;
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;)");
  for (const bool tolerant : {false, true})
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const Ran r = run(text, tolerant, 32, 32, {.seed = seed});
      CHECK(r.result.ok == tolerant);
      CHECK(r.says("is read before it was written"));
      for (uint32_t l = 0; tolerant && l < 32; ++l) CHECK(r.out[l] == l + 101);
    }
}

TEST_CASE(
    "a .shared address where a generic one is due: a fault, or the mbarrier that ptxas would take and a "
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

// Each of 128 threads puts 16 bytes of ones into A (64 x 16, K-major, no swizzle) and the first 16 into B.
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

TEST_CASE("reserved bits of a wgmma descriptor: a fault, or passed by and a note") {
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

// Of A only the first 8 rows are written: the other 56 are nobody's, and their products are never looked at.
TEST_CASE("a matrix product of rows that nobody wrote: a fault, or poison for those rows and a note") {
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
    CHECK((tolerant ? r.notes : r.report).find("which nobody has written") != std::string::npos);
    if (!tolerant) continue;
    const auto got = k.download<float>(out, 128);
    for (uint32_t t = 0; t < 32; ++t) CHECK(got[t] == 16);  // row t / 4
    CHECK(got[32] != 16);
  }
}

// Nobody waits for the copy of scale factors that all lanes make.
TEST_CASE("a tcgen05.cp that outlives its CTA's tensor memory: a fault, or nothing and a note") {
  check_early_exit(module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 128 .b8 scales[512]; .shared .align 4 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; mov.u32 %r3, scales; add.u32 %r4, %r3, %r2;
      st.shared.v4.u32 [%r4], {%r1, %r1, %r1, %r1};
      fence.proxy.async.shared::cta;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
      ld.shared.u32 %r5, [%r0];
      shr.u32 %r6, %r3, 4; cvt.u64.u32 %rd1, %r6; or.b64 %rd1, %rd1, 0x400800010000;
      tcgen05.cp.cta_group::1.32x128b.warpx4 [%r5], %rd1;
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 32;)"));
}

TEST_CASE("a tcgen05.commit that nobody waits for: a fault, or an arrival that finds nobody and a note") {
  check_early_exit(module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r0, bar; mov.u32 %r1, %tid.x; setp.ne.u32 %p0, %r1, 0;
      @%p0 bra END;
      mbarrier.init.shared::cta.b64 [%r0], 1;
      tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r0];
    END:)"),
                   "arrives on an mbarrier of CTA rank 0, which has exited");
}

// Five warps: warp 0 writes tensor memory and arrives without tcgen05.wait::st; warp 4, which has the same
// lanes, reads. Warp 0 frees the columns while warp 4 may still have to read them.
TEST_CASE("tensor memory between warps without the waits: what hardware's order gives") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 8 .b64 written; .shared .align 8 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x; mov.u32 %r7, written; shr.u32 %r8, %r1, 5;
      setp.ne.u32 %p1, %r8, 0; setp.ne.u32 %p2, %r8, 4; setp.ne.u32 %p3, %r1, 0;
      @%p3 bra MADE;
      mbarrier.init.shared::cta.b64 [%r7], 32;
    MADE:
      @%p1 bra ALLOCATED;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
    ALLOCATED:
      bar.sync 0;
      ld.shared.u32 %r2, [%r0]; add.u32 %r3, %r1, 100;
      @%p1 bra READER;
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r3};
      mbarrier.arrive.shared::cta.b64 _, [%r7];
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;
      bra END;
    READER:
      @%p2 bra END;
    WAIT:
      mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r7], 0; @!%p0 bra WAIT;
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r2];
      tcgen05.wait::ld.sync.aligned;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r4;
    END:)");
  unsigned faults = 0, freed = 0;
  for (const bool tolerant : {false, true})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Ran r = run(text, tolerant, 160, 160, {.seed = seed});
      if (!tolerant) {
        faults += !r.result.ok;
        continue;
      }
      INFO(r.result.report);
      REQUIRE(r.result.ok);
      for (uint32_t l = 0; l < 32; ++l) CHECK(r.out[128 + l] == l + 100);
      freed += r.says("column 0 is freed");
    }
  CHECK(faults >= 10);
  CHECK(freed >= 1);
}

TEST_CASE("a look that is answered too late keeps no later arrival of the same warp back") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b64 asked; .shared .align 8 .b64 given;
      mov.u32 %r0, asked; mov.u32 %r1, given;
      mbarrier.init.shared::cta.b64 [%r0], 1;
      mbarrier.arrive.shared::cta.b64 _, [%r0];
      mbarrier.init.shared::cta.b64 [%r1], 1;
      mbarrier.arrive.shared::cta.b64 _, [%r1];
      mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], 0;
      mbarrier.arrive.shared::cta.b64 _, [%r1];
      ld.param.u64 %rd0, [out]; mov.u32 %r2, 7; st.global.u32 [%rd0], %r2;)");
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Ran r = run(text, true, 1, 1, {.seed = seed});
    INFO(r.result.report);
    REQUIRE(r.result.ok);
    CHECK(r.out[0] == 7);
  }
}

TEST_CASE("tensor memory of one warp without the waits: the order of the program") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 8 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
      bar.sync 0;
      ld.shared.u32 %r2, [%r0]; add.u32 %r3, %r1, 100; add.u32 %r5, %r1, 200;
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r5};
      tcgen05.wait::st.sync.aligned;
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r3};
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r2];
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r5};
      tcgen05.wait::ld.sync.aligned;
      tcgen05.wait::st.sync.aligned;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r4;
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;)");
  unsigned wrong = 0;
  for (const bool tolerant : {false, true})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      OrderChecker checker;
      const Ran r = run(text, tolerant, 32, 32, {.watcher = &checker, .seed = seed});
      INFO(r.result.report);
      REQUIRE(r.result.ok);
      INFO(checker.report(true));
      CHECK((checker.errors() == 0) == tolerant);
      CHECK(checker.report(!tolerant).find("tcgen05.wait::st") != std::string::npos);
      for (uint32_t l = 0; l < 32; ++l)
        if (tolerant)
          CHECK(r.out[l] == l + 100);
        else
          wrong += r.out[l] != l + 100;
    }
  CHECK(wrong >= 32);
}

TEST_CASE("mbarrier.init again without mbarrier.inval: a fault, or a fresh barrier and a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r1, bar;
      mbarrier.init.shared::cta.b64 [%r1], 1; mbarrier.arrive.shared::cta.b64 _, [%r1];
      mbarrier.init.shared::cta.b64 [%r1], 1;
      mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0; selp.u32 %r2, 1, 0, %p1;
      ld.param.u64 %rd0, [out]; st.global.u32 [%rd0], %r2;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 1, 1);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("without mbarrier.inval before"));
    if (tolerant) CHECK(r.out[0] == 0);
  }
}

// All three warps wait for one phase, and the first one that is through makes the mbarrier again.
TEST_CASE("mbarrier.init again where a warp is late at its wait: a fault, or that warp goes on first") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r1, bar; mov.u32 %r3, %tid.x; setp.ne.u32 %p0, %r3, 0;
      @!%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
      bar.sync 0;
      @!%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];
      )" + wait("%r1", 0) + R"(
      @!%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
      ld.param.u64 %rd0, [out]; st.global.u32 [%rd0], 1;)");
  for (const bool tolerant : {false, true})
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const Ran r = run(text, tolerant, 96, 1, {.seed = seed});
      INFO(r.result.report);
      CHECK(r.result.ok == tolerant);
      CHECK(r.says("without mbarrier.inval before"));
    }
  for (const uint32_t warps : {2, 3, 4}) CHECK(run(text, true, 32 * warps, 1, {.eager = true}).result.ok);
}

TEST_CASE("an arrival on an mbarrier of a CTA that has exited: a fault, or a note and nothing else") {
  const std::string arrival = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];",
                    commit =
                        "mov.b16 %h1, 1; tcgen05.commit.cta_group::1.mbarrier::arrive::one"
                        ".shared::cluster.multicast::cluster.b64 [%r0], %h1;";
  for (const auto& [target, line] : {std::pair{"sm_90a", arrival}, {"sm_100a", commit}}) {
    const std::string text = module_text(target, ".param .u64 out", R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r0, bar; mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p0, %r1, 0;
      mbarrier.init.shared::cta.b64 [%r0], 1;
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      @%p0 bra END;
      mov.u32 %r2, 0;
  WAIT: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 20000;
      @%p1 bra WAIT;
      mapa.shared::cluster.u32 %r3, %r0, 0;
      )" + line + R"(
      ld.param.u64 %rd0, [out]; st.global.u32 [%rd0], 7;
  END:)");
    for (const bool tolerant : {false, true}) {
      const Ran r = run(text, tolerant, 1, 1, {.cluster = 2, .eager = true});
      INFO(r.result.report);
      CHECK(r.result.ok == tolerant);
      CHECK(r.says("has exited"));
      if (tolerant) CHECK(r.out[0] == 7);
    }
  }
}

TEST_CASE(
    "a tensor map replaced under a copy's feet: the copy goes by either, or by the map at issue and a note") {
  const std::string text = module_text("sm_90a", ".param .u64 map, .param .u64 other, .param .u64 out",
                                       R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r0, smem; mov.u32 %r1, bar; mov.u32 %r3, 0;
      ld.param.u64 %rd0, [map]; ld.param.u64 %rd1, [other]; ld.param.u64 %rd2, [out];
      mbarrier.init.shared::cta.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;
      cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [%rd0, {0}], [%r1];
  COPY: ld.global.v2.u64 {%rd3, %rd4}, [%rd1]; st.global.v2.u64 [%rd0], {%rd3, %rd4};
      add.u64 %rd0, %rd0, 16; add.u64 %rd1, %rd1, 16; add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 8;
      @%p0 bra COPY;)" + wait("%r1", 0) +
                                           R"(
      ld.shared.u8 %r4, [%r0]; st.global.u32 [%rd2], %r4;)");
  for (const bool tolerant : {false, true}) {
    std::array<int, 3> seen{};
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Kernel k(text);
      TensorMap m;
      m.type = TensorType::u8, m.rank = 1, m.dim = {128, 1, 1, 1, 1}, m.box = {128, 1, 1, 1, 1};
      m.element_stride = {1, 1, 1, 1, 1};
      for (const uint8_t value : {1, 2}) {
        m.address = k.upload(std::vector<uint8_t>(128, value));
        const auto bytes = m.encode();
        k.param(k.upload(std::vector<std::byte>(bytes.begin(), bytes.end())));
      }
      const uint64_t out = k.buffer(4);
      k.param(out);
      k.config.block.x = 1;
      k.config.dynamic_shared = 1024;
      k.schedule.tolerant = tolerant;
      OrderChecker checker;
      k.watcher = &checker;
      const LaunchResult r = k.run(seed);
      INFO(r.report);
      CHECK(r.ok);
      CHECK((checker.errors() == 0) == tolerant);
      CHECK((checker.report(false).find("written over while a copy by it is under way") !=
             std::string::npos) == tolerant);
      const uint32_t got = k.download<uint32_t>(out, 1)[0];
      REQUIRE(got < 3);
      ++seen[got];
      if (got == 2) CHECK(r.notes.empty());
    }
    CHECK(seen[0] == 0);
    CHECK((seen[2] == 0) == tolerant);  // 20 of 20 by the first map, then
  }
}

// Warp 1 takes the buffer that is free from the start: parity 1, as long as phase 0 lasts. Warp 0 ends phase
// 0 and waits for nobody.
TEST_CASE("a warp sleeps through a phase that an arrival ends: a hang, or it is given the time to look") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r1, bar; mov.u32 %r3, %tid.x; setp.ne.u32 %p0, %r3, 0; setp.lt.u32 %p1, %r3, 32;
      @!%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
      bar.sync 0;
      @!%p1 bra LOOK;
      @!%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];
      bra END;
    LOOK:
      )" + wait("%r1", 1) + R"(
      ld.param.u64 %rd0, [out]; st.global.u32 [%rd0], 1;
    END:)");
  for (const bool tolerant : {false, true}) {
    unsigned hangs = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const Ran r = run(text, tolerant, 64, 1, {.seed = seed});
      INFO(r.result.report);
      if (r.result.ok) CHECK(r.out[0] == 1);
      hangs += r.result.kind == FaultKind::deadlock && !r.result.ok;
    }
    CHECK((hangs == 0) == tolerant);
  }
}

// Two warps show each other a value, and each writes its next one with no barrier behind the other's read:
// 150 instructions later. The arrival in between ends a phase, and so waits for warps that have not moved.
TEST_CASE("a value handed over without a barrier behind the read: a race, or the warps take turns") {
  std::string work;
  for (int k = 0; k < 150; ++k) work += "add.u32 %r7, %r7, %r5;\n";
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar; .shared .align 4 .b8 shown[512];
      mov.u32 %r1, bar; mov.u32 %r2, shown; mov.u32 %r3, %tid.x; setp.ne.u32 %p0, %r3, 0;
      @!%p0 mbarrier.init.shared::cta.b64 [%r1], 128;
      shl.b32 %r4, %r3, 2; add.u32 %r5, %r2, %r4; xor.b32 %r6, %r4, 256; add.u32 %r6, %r6, %r2;
      add.u32 %r8, %r3, 1000; st.shared.u32 [%r5], %r8; mov.u32 %r7, 0;
      bar.sync 0;
      mbarrier.arrive.shared::cta.b64 _, [%r1];
      ld.shared.u32 %r9, [%r6];
      )" + work + R"(
      st.shared.u32 [%r5], %r7;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r3, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r9;)");
  for (const bool tolerant : {false, true}) {
    unsigned wrong = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const Ran r = run(text, tolerant, 128, 128, {.seed = seed});
      REQUIRE(r.result.ok);
      for (uint32_t t = 0; t < 128; ++t) wrong += r.out[t] != 1000 + (t ^ 64);
    }
    CHECK((wrong == 0) == tolerant);
  }
}
