// Orders that no rule guarantees but hardware keeps: so does a tolerant schedule.
#include <doctest/doctest.h>

#include <array>

#include "emulator/watch/order.h"
#include "tolerated.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

// Instructions that only take time.
std::string additions(int n) {
  std::string text;
  while (n--) text += "add.u32 %r7, %r7, %r5;\n";
  return text;
}

// A kernel of one thread for each word: some of 40 orders give other words, but none of those in which the
// warps take turns.
void check_turns(const std::string& text, uint32_t cluster, const std::vector<uint32_t>& words) {
  for (const bool tolerant : {false, true}) {
    unsigned wrong = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const Ran r =
          run(text, tolerant, uint32_t(words.size()), words.size(), {.seed = seed, .cluster = cluster});
      INFO(r.result.report);
      REQUIRE(r.result.ok);
      wrong += r.out != words;
    }
    CHECK((wrong == 0) == tolerant);
  }
}

}  // namespace

// The first thread tells the second that it has issued its copy, not that the copy is complete. Only the
// second commits, and both copies write the same columns.
TEST_CASE("tcgen05.cp by two threads: in any order, or in the order of issue") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 128 .b8 scales[1024]; .shared .align 8 .b64 first; .shared .align 8 .b64 last;
      .shared .align 4 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mov.u32 %r3, scales; mov.u32 %r8, first;
      mov.u32 %r9, last; and.b32 %r10, %r1, 31; setp.ne.u32 %p1, %r2, 0; setp.ne.u32 %p2, %r10, 0;
      shl.b32 %r4, %r1, 4; add.u32 %r4, %r4, %r3; add.u32 %r5, %r2, 1;
      st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5};
      fence.proxy.async.shared::cta;
      @%p1 bra MADE;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
      @%p2 bra MADE;
      mbarrier.init.shared::cta.b64 [%r8], 1; mbarrier.init.shared::cta.b64 [%r9], 1;
    MADE:
      bar.sync 0;
      ld.shared.u32 %r6, [%r0];
      shl.b32 %r7, %r2, 9; add.u32 %r7, %r7, %r3;
      shr.u32 %r7, %r7, 4; cvt.u64.u32 %rd1, %r7; or.b64 %rd1, %rd1, 0x400800010000;
      @%p1 bra SECOND;
      @%p2 bra READ;
      tcgen05.cp.cta_group::1.32x128b.warpx4 [%r6], %rd1;
      mbarrier.arrive.shared::cta.b64 _, [%r8];
      bra READ;
    SECOND:
      @%p2 bra END;
    WAIT:
      mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r8], 0; @!%p0 bra WAIT;
      tcgen05.cp.cta_group::1.32x128b.warpx4 [%r6], %rd1;
      tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r9];
      bra END;
    READ:
      bar.warp.sync -1;
    COPIED:
      mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r9], 0; @!%p0 bra COPIED;
      tcgen05.fence::after_thread_sync;
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r6];
      tcgen05.wait::ld.sync.aligned;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r5;
    END:
      bar.warp.sync -1; bar.sync 0;
      @%p1 exit;
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;)");
  unsigned wrong = 0;
  for (const bool tolerant : {false, true})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Ran r = run(text, tolerant, 64, 32, {.seed = seed});
      INFO(r.result.report);
      if (tolerant) REQUIRE(r.result.ok);
      if (tolerant) CHECK(r.out == std::vector<uint32_t>(32, 2));
      wrong += !tolerant && (!r.result.ok || r.out[0] != 2);
    }
  CHECK(wrong > 0);
}

// CTA 1 takes longer to write the source of CTA 0's copy for the pair, and nothing tells CTA 0 when it is
// written.
TEST_CASE("tcgen05.cp for a pair without a barrier between its CTAs: a race, or they run in step") {
  const std::string text = module_text("sm_100a", ".param .u64 out",
                                       fmt::format(R"(
      .shared .align 128 .b8 scales[512]; .shared .align 8 .b64 done; .shared .align 4 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x; mov.u32 %r3, scales; mov.u32 %r9, done; setp.ne.u32 %p2, %r1, 0;
      mov.u32 %r2, %cluster_ctarank; setp.ne.u32 %p1, %r2, 0; add.u32 %r5, %r2, 1; mov.u32 %r7, 0;
      tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r0], 32;
      @%p2 bra MADE;
      mbarrier.init.shared::cta.b64 [%r9], 1;
      fence.mbarrier_init.release.cluster;
    MADE:
      bar.warp.sync -1;
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      @!%p1 bra WRITE;
      {}
    WRITE:
      shl.b32 %r4, %r1, 4; add.u32 %r4, %r4, %r3;
      st.shared.v4.u32 [%r4], {{%r5, %r5, %r5, %r5}};
      fence.proxy.async.shared::cta;
      bar.warp.sync -1;
      ld.shared.u32 %r6, [%r0];
      @%p1 bra WAIT;
      @%p2 bra WAIT;
      shr.u32 %r8, %r3, 4; cvt.u64.u32 %rd1, %r8; or.b64 %rd1, %rd1, 0x400800010000; mov.u16 %h0, 3;
      tcgen05.cp.cta_group::2.32x128b.warpx4 [%r6], %rd1;
      tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r9], %h0;
    WAIT:
      mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r9], 0; @!%p0 bra WAIT;
      bar.warp.sync -1;
      tcgen05.fence::after_thread_sync;
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r5}}, [%r6];
      tcgen05.wait::ld.sync.aligned;
      shl.b32 %r2, %r2, 5; add.u32 %r1, %r1, %r2;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r5;
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r6, 32;)",
                                                   additions(1000)));
  unsigned wrong = 0;
  for (const bool tolerant : {false, true})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Ran r = run(text, tolerant, 32, 64, {.seed = seed, .cluster = 2});
      INFO(r.result.report);
      bool right = r.result.ok;
      for (uint32_t k = 0; k < 64; ++k) right = right && r.out[k] == k / 32 + 1;
      if (tolerant) CHECK(right);
      wrong += !right;
    }
  CHECK(wrong > 0);
}

// Five warps: warp 0 writes tensor memory and arrives without tcgen05.wait::st; warp 4, which has the same
// lanes, reads. Warp 0 frees the columns while warp 4 may still have to read them.
TEST_CASE("tensor memory between warps without the waits: a race, or hardware's order") {
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

TEST_CASE("a late successful poll does not delay later arrivals of the same warp") {
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

TEST_CASE("tensor memory of one warp without the waits: program order") {
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

TEST_CASE("mbarrier.inval where there is no mbarrier: a fault, or a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r1, bar;
      mbarrier.init.shared::cta.b64 [%r1], 1; mbarrier.inval.shared::cta.b64 [%r1];
      mbarrier.inval.shared::cta.b64 [%r1];
      ld.param.u64 %rd0, [out]; st.global.u32 [%rd0], 1;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 1, 1);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("mbarrier"));
    CHECK(r.out[0] == tolerant);
  }
}

// All warps wait for one phase, and the first one to continue invalidates the mbarrier.
TEST_CASE("mbarrier.inval where a warp is late at its wait: a fault, or that warp continues first") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r0, bar; mov.u32 %r1, %tid.x; setp.ne.u32 %p0, %r1, 0;
      @%p0 bra READY;
      mbarrier.init.shared::cta.b64 [%r0], 256;
    READY:
      bar.sync 0;
      mbarrier.arrive.shared::cta.b64 _, [%r0];
    WAIT:
      mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r0], 0;
      @!%p1 bra WAIT;
      @%p0 bra END;
      mbarrier.inval.shared::cta.b64 [%r0];
    END:
      bar.sync 0;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %rd0;
      st.global.u32 [%rd1], %r1;)");
  unsigned faults = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    faults += !run(text, false, 256, 256, {.seed = seed}).result.ok;
    CHECK(run(text, true, 256, 256, {.seed = seed}).result.ok);
  }
  CHECK(faults > 0);
}

// All three warps wait for one phase, and the first one to continue initialises the mbarrier again.
TEST_CASE("mbarrier.init again where a warp is late at its wait: a fault, or that warp continues first") {
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

TEST_CASE("an arrival on an mbarrier of a CTA that has exited: a fault, or no effect and a note") {
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
    "a tensor map replaced while a copy is pending: either map is used, or the map at issue and a note") {
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

// Warp 1 takes the initially free buffer: parity 1, as long as phase 0 lasts. Warp 0 completes phase 0 and
// waits for nothing.
TEST_CASE("a warp may miss a phase that an arrival completes: a hang, or it gets the time to observe it") {
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

// Two warps exchange a value, and each writes its next one 150 instructions later, with no barrier after the
// other's read. The arrival in between completes a phase, and so waits for warps that have not moved.
TEST_CASE("a value exchanged without a barrier after the read: a race, or the warps take turns") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar; .shared .align 4 .b8 shown[512];
      mov.u32 %r1, bar; mov.u32 %r2, shown; mov.u32 %r3, %tid.x; setp.ne.u32 %p0, %r3, 0;
      @!%p0 mbarrier.init.shared::cta.b64 [%r1], 128;
      shl.b32 %r4, %r3, 2; add.u32 %r5, %r2, %r4; xor.b32 %r6, %r4, 256; add.u32 %r6, %r6, %r2;
      add.u32 %r8, %r3, 1000; st.shared.u32 [%r5], %r8; mov.u32 %r7, 0;
      bar.sync 0;
      mbarrier.arrive.shared::cta.b64 _, [%r1];
      ld.shared.u32 %r9, [%r6];
      )" + additions(150) + R"(
      st.shared.u32 [%r5], %r7;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r3, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r9;)");
  std::vector<uint32_t> shown(128);
  for (uint32_t t = 0; t < 128; ++t) shown[t] = 1000 + (t ^ 64);
  check_turns(text, 1, shown);
}

// Nothing orders the second CTA's zeros before the first CTA's values, which are sent 300 instructions later.
TEST_CASE("a mailbox that its CTA clears while another sends to it: a race, or the warps take turns") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar; .shared .align 4 .b8 box[128];
      mov.u32 %r1, bar; mov.u32 %r2, box; mov.u32 %r3, %tid.x; setp.ne.u32 %p0, %r3, 0;
      @!%p0 mbarrier.init.shared::cta.b64 [%r1], 32;
      @!%p0 fence.mbarrier_init.release.cluster;
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      shl.b32 %r4, %r3, 2; add.u32 %r5, %r2, %r4; mov.u32 %r6, 0; mov.u32 %r7, 0;
      mov.u32 %r8, %cluster_ctarank; setp.eq.u32 %p1, %r8, 0;
      @%p1 bra SEND;
      st.shared.u32 [%r5], %r6;
    WAIT:
      mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r1], 0;
      @!%p2 bra WAIT;
      ld.shared.u32 %r9, [%r5];
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r3, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r9;
      bra END;
    SEND:
      )" + additions(300) + R"(
      mov.u32 %r10, 1; mapa.shared::cluster.u32 %r11, %r5, %r10; mapa.shared::cluster.u32 %r12, %r1, %r10;
      st.shared::cluster.u32 [%r11], 7;
      mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r12];
    END:
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;)");
  check_turns(text, 2, std::vector<uint32_t>(32, 7));
}
