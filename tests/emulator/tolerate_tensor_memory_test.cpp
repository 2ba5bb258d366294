// Uses of tensor memory that a tolerant schedule notes instead of faulting.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tolerated.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

// Runs one warp under 20 seeds, some of which must give a fault, or else a note. Returns what the tolerant
// launch stores.
std::vector<std::vector<uint32_t>> check_some(const std::string& text, const char* fault, const char* note) {
  std::vector<std::vector<uint32_t>> out;
  unsigned faults = 0, notes = 0;
  for (const bool tolerant : {false, true})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Ran r = run(text, tolerant, 32, 32, {.seed = seed});
      INFO(r.result.report);
      CHECK((r.result.ok || !tolerant));
      faults += r.result.report.find(fault) != std::string::npos;
      notes += r.result.notes.find(note) != std::string::npos;
      if (tolerant) out.push_back(r.out);
    }
  CHECK(faults > 0);
  CHECK(notes > 0);
  return out;
}

constexpr const char* kEarly = "exits while an operation that it issued is still running";
void check_early_exit(const std::string& text, const char* note = kEarly) { check_some(text, kEarly, note); }

}  // namespace

// A kernel that writes its lanes' numbers to TMEM column 0 and stores the result of one tcgen05.ld of %r3.
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

TEST_CASE(
    "tcgen05.ld with each lane's own row for an address: a fault, or the first lane's address and a note") {
  const std::string text = loads_column("shl.b32 %r3, %r1, 16; or.b32 %r3, %r3, %r2;");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 32, 32);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("the TMEM address differs between the lanes of a warp"));
    for (uint32_t lane = 0; tolerant && lane < 32; ++lane) CHECK(r.out[lane] == lane);
  }
}

// TIRx's block-sparse attention masks scores like this: the compiler moves the wait past the mask.
TEST_CASE("a register written between tcgen05.ld and its wait: a fault, or it keeps that value and a note") {
  std::string text = loads_column("mov.u32 %r3, %r2; setp.lt.u32 %p1, %r1, 16;");
  text.insert(text.find("tcgen05.wait::ld"), "@%p1 mov.u32 %r4, 99; ");
  constexpr const char* kSaid = "before the load was waited for";
  for (const auto& out : check_some(text, kSaid, kSaid))
    for (uint32_t lane = 0; lane < 32; ++lane) CHECK(out[lane] == (lane < 16 ? 99 : lane));
}

// SwayamInSync's contest dual GEMMs keep their scales past the end of their allocation.
TEST_CASE("unallocated tensor memory: a fault, or its contents and a note") {
  const std::string text = loads_column(R"(
      add.u32 %r3, %r2, 40; add.u32 %r1, %r1, 5;
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r1};
      tcgen05.wait::st.sync.aligned; mov.u32 %r1, %tid.x;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 32, 32);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("column 40 is not allocated"));
    for (uint32_t lane = 0; tolerant && lane < 32; ++lane) CHECK(r.out[lane] == lane + 5);
  }
}

// FlashMLA's fwd_for_small_topk/head128 multiplies two halves of K at once this way.
TEST_CASE(
    "a pair's A with different rows in the upper lanes: a fault, or each half of D from its own and a note") {
  struct Program {
    const char* file;
    uint32_t in;
    float lower, upper;
  };
  for (const Program& p : {Program{"mma_pair_halves_sm100.ptx", std::bit_cast<uint32_t>(2.0f), 4, 24},
                           Program{"mma_pair_halves_fp4_sm100.ptx", 4, 1, 2}})
    for (const bool tolerant : {false, true}) {
      std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "../ptx" / p.file);
      Kernel k(std::string(std::istreambuf_iterator<char>(file), {}));
      const uint64_t in = k.upload<uint32_t>({p.in}), out = k.buffer(256 * 4);
      k.param(out), k.param(in);
      k.config.block.x = 128;
      k.config.grid.x = k.config.cluster.x = 2;
      k.schedule.tolerant = tolerant;
      const LaunchResult r = k.run();
      INFO(p.file << ": " << r.report);
      CHECK(r.ok == tolerant);
      CHECK((r.ok ? r.notes : r.report).find("column 32 differs in lane 0") != std::string::npos);
      const auto d = k.download<float>(out, 256);
      for (uint32_t t = 0; tolerant && t < 256; ++t) CHECK(d[t] == (t % 128 < 64 ? p.lower : p.upper));
    }
}

// Modular's attention has an SM to itself, allocates nothing and uses columns from 0.
TEST_CASE("a kernel without allocations may use its SM's tensor memory") {
  constexpr uint32_t kCtas = 64;
  Kernel k(module_text("sm_100a", ".param .u64 out", R"(
      ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, 0; mov.u32 %r3, 0;
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1};
      tcgen05.wait::st.sync.aligned;
  L:  add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 3000; @%p0 bra L;
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r2];
      tcgen05.wait::ld.sync.aligned;
      mad.lo.u32 %r5, %r1, 32, %r0; mul.wide.u32 %rd1, %r5, 4; add.u64 %rd0, %rd0, %rd1;
      st.global.u32 [%rd0], %r4;)"));
  const uint64_t out = k.buffer(4 * 32 * kCtas);
  k.param(out);
  k.config.block.x = 32;
  k.config.grid.x = kCtas;
  k.schedule.tolerant = true;
  const LaunchResult r = k.run(1);
  INFO(r.report);
  REQUIRE(r.ok);
  const auto words = k.download<uint32_t>(out, 32 * kCtas);
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < words.size(); ++i) wrong += words[i] != i / 32;
  CHECK(wrong == 0);
}

// Warps 2 to 5 of stephendliang's siglip store rows 0 to 127 in this order, and name the lanes of those rows.
TEST_CASE("tcgen05.ld of another warp's lanes: a fault, or the warp's own ones and a note") {
  const std::string text = loads_column("add.u32 %r3, %r2, 0x400000;");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 32, 32);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(
        r.says("at TMEM lane 64 by warp 0: a warp reaches only lanes 32 * (warp % 4) to + 31, here 0 to 31"));
    for (uint32_t lane = 0; tolerant && lane < 32; ++lane) CHECK(r.out[lane] == lane);
  }
}

// In mayankagarwals' gated delta networks one warp allocates while others store to the columns that it will
// get: hardware has no check, and the allocation leaves cells unchanged.
TEST_CASE("tensor memory written before tcgen05.alloc: a fault, or it is kept and a note") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 8 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x; ld.param.u64 %rd0, [out]; mov.u32 %r2, 0; add.u32 %r3, %r1, 7;
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r3};
      tcgen05.wait::st.sync.aligned;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
      tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r4, %r5}, [%r2];
      tcgen05.wait::ld.sync.aligned;
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;
      mul.wide.u32 %rd1, %r1, 8; add.u64 %rd0, %rd0, %rd1; st.global.v2.u32 [%rd0], {%r4, %r5};)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 32, 64);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("tcgen05.st touches TMEM columns [0, 1), but column 0 is not allocated"));
    for (uint32_t lane = 0; tolerant && lane < 32; ++lane) {
      CHECK(r.out[2 * lane] == lane + 7);
      CHECK(r.out[2 * lane + 1] == 0xffffffff);  // unwritten
    }
  }
}

TEST_CASE("tcgen05.ld of unwritten cells: a fault, or poison and a note") {
  const std::string text = loads_column("add.u32 %r3, %r2, 1;");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 32, 32);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("TMEM columns [1, 2), lanes [0, 32): none of these cells was ever written"));
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
      CHECK(r.says("its tcgen05.ld has not been waited for"));
      for (uint32_t l = 0; tolerant && l < 32; ++l) CHECK(r.out[l] == l + 101);
    }
}

// A product of ones in tensor memory, of which 32 of 128 rows are written; a sum if `%p0` is true.
std::string tensor_memory_product(const char* p0) {
  return module_text("sm_100a", ".param .u64 out",
                     R"(
      .shared .align 128 .b8 b[512]; .shared .align 8 .b64 bar; .shared .align 4 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x; mov.u32 %r2, b; mov.u32 %r3, bar; setp.gt.u32 %p1, %r1, 31;
      setp.ne.u32 %p2, %r1, 0;
      mov.u32 %r4, 0x3c003c00; shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, %r2; st.shared.u32 [%r5], %r4;
      @!%p2 mbarrier.init.shared::cta.b64 [%r3], 1;
      @%p1 bra MADE;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 64;
      ld.shared.u32 %r6, [%r0];
      tcgen05.st.sync.aligned.32x32b.x8.b32 [%r6+32], {%r4, %r4, %r4, %r4, %r4, %r4, %r4, %r4};
      tcgen05.wait::st.sync.aligned;
    MADE:
      fence.proxy.async.shared::cta;
      tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
      ld.shared.u32 %r6, [%r0]; add.u32 %r7, %r6, 32;
      @%p2 bra WAIT;
      shr.u32 %r8, %r2, 4; cvt.u64.u32 %rd1, %r8; or.b64 %rd1, %rd1, 0x401000080000; mov.u32 %r9, 0x8040010;
)" + std::string(p0) + R"(
      tcgen05.mma.cta_group::1.kind::f16 [%r6], [%r7], %rd1, %r9, %p0;
      tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];
    WAIT:
      mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r3], 0; @!%p0 bra WAIT;
      bar.warp.sync -1; tcgen05.fence::after_thread_sync;
      and.b32 %r10, %r1, 96; shl.b32 %r10, %r10, 16; add.u32 %r10, %r10, %r6;
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r10];
      tcgen05.wait::ld.sync.aligned;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r11;
      bar.sync 0;
      @%p1 exit;
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 64;)");
}

// abc123203's fused MoE stores the scale of row r of A in lane r of four columns, but not in the other
// quarters. Here column r / 32 of A's scales has 1, 2, 4 and 8 in the four quarters, and B's 1, 16, 1 and 1.
TEST_CASE(
    "block scales that differ between the lanes' quarters: a fault, or each row's own scale and a note") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 128 .b8 ones[4096]; .shared .align 8 .b64 bar; .shared .align 4 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x; mov.u32 %r2, ones; mov.u32 %r3, bar; shr.u32 %r4, %r1, 5;
      setp.ne.u32 %p1, %r4, 0; setp.ne.u32 %p2, %r1, 0; mov.u32 %r5, 0x38383838;
      shl.b32 %r6, %r1, 5; add.u32 %r6, %r6, %r2;
      st.shared.v4.u32 [%r6], {%r5, %r5, %r5, %r5}; st.shared.v4.u32 [%r6+16], {%r5, %r5, %r5, %r5};
      @!%p2 mbarrier.init.shared::cta.b64 [%r3], 1;
      @!%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
      fence.proxy.async.shared::cta; bar.sync 0;
      ld.shared.u32 %r7, [%r0]; shl.b32 %r8, %r4, 21; add.u32 %r8, %r8, %r7;
      add.u32 %r9, %r4, 127; setp.eq.u32 %p3, %r4, 1; selp.u32 %r10, 131, 127, %p3;
      tcgen05.st.sync.aligned.32x32b.x4.b32 [%r8+8], {%r9, %r9, %r9, %r9};
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r8+12], {%r10};
      tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0;
      @%p2 bra WAIT;
      tcgen05.fence::after_thread_sync;
      shr.u32 %r11, %r2, 4; cvt.u64.u32 %rd1, %r11; or.b64 %rd1, %rd1, 0x401000080000;
      add.u32 %r11, %r7, 8; add.u32 %r12, %r7, 12; setp.ne.u32 %p3, 0, 0; mov.u32 %r13, 0x8820000;
      tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r7], %rd1, %rd1, %r13, [%r11], [%r12], %p3;
      tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];
    WAIT:
      mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r3], 0; @!%p0 bra WAIT;
      tcgen05.fence::after_thread_sync;
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r8];
      tcgen05.wait::ld.sync.aligned;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r11;
      bar.sync 0;
      @!%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r7, 32;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 128, 128);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says(
        "the scales of row 0 of A differ between the quarters of TMEM column 8: lane 0 holds 0x0000007f, "
        "lane 32 holds 0x00000080"));
    for (uint32_t t = 0; tolerant && t < 128; ++t) {
      CAPTURE(t);
      CHECK(r.out[t] == std::bit_cast<uint32_t>(32.0f * (1u << t / 32) * (t / 32 == 1 ? 16 : 1)));
    }
  }
}

// mayankagarwals' gated delta network v3 passes wgmma's descriptors to tcgen05.mma.
TEST_CASE(
    "a shared-memory descriptor without its constant field: a fault, or it is ignored and a "
    "note") {
  std::string text = tensor_memory_product("setp.ne.u32 %p0, 0, 0;");
  const std::string constant = "0x401000080000";
  text.replace(text.find(constant), constant.size(), "0x1000080000");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 128, 128);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("descriptor of B 0x10000800"));
    CHECK(r.says("(bits 48:46) is 0, must be 1"));
    for (uint32_t t = 0; tolerant && t < 32; ++t) CHECK(r.out[t] == std::bit_cast<uint32_t>(16.0f));
  }
}

TEST_CASE("a tcgen05.mma of unwritten rows of A: a fault, or poison for those rows and a note") {
  for (const bool tolerant : {false, true}) {
    const Ran r = run(tensor_memory_product("setp.ne.u32 %p0, 0, 0;"), tolerant, 128, 128);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("A in TMEM column 32, lane 32 was never written"));
    if (!tolerant) continue;
    for (uint32_t t = 0; t < 32; ++t) CHECK(r.out[t] == std::bit_cast<uint32_t>(16.0f));
    CHECK(r.out[32] != r.out[0]);
  }
}

TEST_CASE("a tcgen05.mma that adds to unwritten cells: a fault, or a sum with poison and a note") {
  for (const bool tolerant : {false, true}) {
    const Ran r = run(tensor_memory_product("setp.eq.u32 %p0, 0, 0;"), tolerant, 128, 128);
    INFO(r.result.report);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("adds to an accumulator that was never written: TMEM column 0 (n = 0), lane 0"));
    if (tolerant) CHECK(std::isnan(std::bit_cast<float>(r.out[0])));
  }
}

// Nothing waits for the copy of scale factors that all lanes issue.
TEST_CASE("a tcgen05.cp that outlives its CTA's tensor memory: a fault, or no effect and a note") {
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

TEST_CASE("a tcgen05.ld that outlives its CTA: a fault, or no effect and a note") {
  check_early_exit(module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 4 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
      ld.shared.u32 %r2, [%r0];
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1};
      tcgen05.wait::st.sync.aligned;
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r2];
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;)"));
}

TEST_CASE("a tcgen05.commit whose CTA exits without waiting: a fault, or no effect and a note") {
  check_early_exit(module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r0, bar; mov.u32 %r1, %tid.x; setp.ne.u32 %p0, %r1, 0;
      @%p0 bra END;
      mbarrier.init.shared::cta.b64 [%r0], 1;
      tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r0];
    END:)"),
                   "arrives on an mbarrier of CTA rank 0, which has exited");
}

// Two clusters fit on the same SMs, and each pair allocates all columns before it arrives at the cluster
// barrier.
TEST_CASE("clusters that share SMs: one waits for the other's columns, or the earlier allocates first") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 4 .b32 where;
      mov.u32 %r0, where;
      tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r0], 512;
      tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      ld.shared.u32 %r2, [%r0];
      tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r2, 512;)");
  unsigned stuck = 0;
  for (const bool tolerant : {false, true})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Kernel k(text);
      k.param(k.buffer(4));
      k.config.block.x = 32, k.config.grid.x = 4 * 80, k.config.cluster.x = 4;
      k.schedule.tolerant = tolerant;
      const LaunchResult r = k.run(seed);
      INFO(r.report);
      if (tolerant) CHECK(r.ok);
      if (!r.ok) CHECK(r.report.find("has [0, 512)") != std::string::npos);
      stuck += !r.ok;
    }
  CHECK(stuck > 0);
}
