// Bulk copies that the manual forbids and an H200 executes (2026-11-22): a fault, or with a tolerant schedule
// a note.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tolerated.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

// One thread copies `size` bytes of its shared memory (words 0, 1, ...) to 64 bytes further, by `copy`, and
// writes the 16 words there to out.
std::string copied(const std::string& copy, uint32_t announced) {
  return module_text("sm_90a", ".param .u64 out",
                     fmt::format(R"(
    .shared .align 8 .b64 bar; .shared .align 16 .b8 s[128];
    ld.param.u64 %rd0, [out]; mov.u32 %r0, s; mov.u32 %r1, bar; mov.u32 %r2, 0;
  F: shl.b32 %r3, %r2, 2; add.u32 %r3, %r3, %r0; st.shared.u32 [%r3], %r2; add.u32 %r2, %r2, 1;
    setp.lt.u32 %p0, %r2, 32;
    @%p0 bra F;
    fence.proxy.async;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {};
    {}
    {}
    mov.u32 %r2, 0;
  D: shl.b32 %r3, %r2, 2; add.u32 %r4, %r3, %r0; ld.shared.u32 %r4, [%r4+64]; cvt.u64.u32 %rd2, %r3;
    add.u64 %rd2, %rd2, %rd0; st.global.u32 [%rd2], %r4; add.u32 %r2, %r2, 1; setp.lt.u32 %p0, %r2, 16;
    @%p0 bra D;)",
                                 announced, copy, wait("%r1", 0)));
}

std::string within(uint32_t size) {
  return fmt::format(
      "mov.u32 %r5, {}; add.u32 %r6, %r0, 64;\n"
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [%r0], %r5, [%r1];",
      size);
}

}  // namespace

TEST_CASE("a bulk copy drops the bytes beyond a multiple of 16") {
  for (const uint32_t size : {0u, 8u, 24u, 33u}) {
    CAPTURE(size);
    const uint32_t whole = size / 16 * 16;
    const char* const what = size ? "is not a multiple of 16 bytes" : "of 0 bytes";
    CHECK(run(copied(within(size), whole), false, 1, 16, {.cluster = 2}).says(what));
    const Ran r = run(copied(within(size), whole), true, 1, 16, {.cluster = 2});
    CHECK(r.says(what));
    REQUIRE(r.result.ok);
    for (uint32_t i = 0; i < 16; ++i) CHECK(r.out[i] == (i < whole / 4 ? i : i + 16));
  }
}

// novus677's contest dual GEMM fills four stages although K has fewer tiles; an H200 maps memory by pages of
// 2 MiB.
TEST_CASE("a bulk copy from past the end of an allocation: a fault, or the page's bytes and a note") {
  const auto from = [](uint64_t offset) {
    return copied(
        fmt::format("add.u32 %r6, %r0, 64; add.u64 %rd3, %rd0, {};\n"
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%rd3], "
                    "32, [%r1];",
                    offset),
        32);
  };
  for (const bool tolerant : {false, true}) {
    const Ran r = run(from(48), tolerant, 1, 16);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("past the end of the allocation"));
    CHECK(r.result.notes.empty() == !tolerant);
    if (tolerant) CHECK(r.out[15] == 31);
  }
  CHECK(!run(from(2 << 20), true, 1, 16).result.ok);
}

// 32 bytes, 12 of each 16: the last byte is the end of the allocation.
TEST_CASE("a bulk store with a byte mask touches the bytes of the mask alone") {
  const std::string text = module_text("sm_100a", ".param .u64 out", R"(
      .shared .align 16 .b8 s[32]; .reg .b16 %mask;
      mov.u32 %r0, s; ld.param.u64 %rd0, [out]; mov.b16 %mask, 0x0fff;
      st.shared.v4.b32 [%r0], {1, 2, 3, 4}; st.shared.v4.b32 [%r0+16], {5, 6, 7, 8};
      fence.proxy.async.shared::cta;
      cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd0], [%r0], 32, %mask;
      cp.async.bulk.commit_group;
      cp.async.bulk.wait_group 0;)");
  const Ran r = run(text, false, 1, 7);
  INFO(r.result.report);
  REQUIRE(r.result.ok);
  CHECK(r.out == std::vector<uint32_t>{1, 2, 3, 0, 5, 6, 7});
}

TEST_CASE("a bulk prefetch of more than was allocated: a fault, or a note") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
    ld.param.u64 %rd0, [out]; mov.u32 %r1, 4096; mov.u32 %r2, 7;
    cp.async.bulk.prefetch.L2.global [%rd0], %r1;
    st.global.u32 [%rd0], %r2;)");
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 1, 16);
    CHECK(r.result.ok == tolerant);
    CHECK(r.says("cp.async.bulk.prefetch touches global"));
    if (tolerant) CHECK(r.out[0] == 7);
  }
}

// As on an H200 (2026-11-23). Modular's block-scaled products name the mbarrier of the pair's even CTA for
// copies without .cta_group::2.
TEST_CASE("a copy to a CTA of the cluster signals that CTA's mbarrier, whatever rank its address names") {
  const char* const copies[] = {
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%rd0], 32, [%r7];",
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r6], {%r5, %r5, %r5, %r5}, [%r7];"};
  for (const uint32_t to : {0u, 1u})
    for (const char* const copy : copies)
      for (const bool tolerant : {false, true}) {
        CAPTURE(to);
        CAPTURE(copy);
        const std::string text =
            module_text("sm_90a", ".param .u64 out",
                        fmt::format(R"(
    .shared .align 8 .b64 bar; .shared .align 16 .b32 s[8];
    ld.param.u64 %rd0, [out]; mov.u32 %r0, s; mov.u32 %r1, bar; mov.u32 %r2, %cluster_ctarank;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {};
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive; barrier.cluster.wait;
    setp.ne.u32 %p0, %r2, 1; mov.u32 %r5, 7;
    mapa.shared::cluster.u32 %r6, %r0, {}; mapa.shared::cluster.u32 %r7, %r1, {};
    @%p0 bra OTHER;
    {}
  OTHER:
    setp.ne.u32 %p0, %r2, {};
    @%p0 bra DONE;
    {}
    ld.shared.u32 %r5, [%r0]; add.u32 %r5, %r5, 1; st.global.u32 [%rd0], %r5;
  DONE:
    barrier.cluster.arrive; barrier.cluster.wait;)",
                                    copy == copies[0] ? 32 : 16, to, 1 - to, copy, to, wait("%r1", 0)));
        const Ran r = run(text, tolerant, 1, 16, {.cluster = 2});
        CHECK(r.says("they must be in the same CTA"));
        REQUIRE(r.result.ok == tolerant);
        if (tolerant) CHECK(r.out[0] == (copy == copies[0] ? 1 : 8));
      }
}
