// Products in which some rows have no scale factors, or no metadata, in tensor memory. sf-tensor/tcgen05's
// programs for a B200 (6f19f227, hardware_validation/src) fill some lanes only, and their D is right there.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "tolerated.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

// A product of e4m3 ones with M = 128, N = 8, of which each thread stores its lane's first column. `stores`
// are each warp's stores to tensor memory: %r4 is its number, %r8 the address of its lanes.
std::string product_of_ones(const char* stores, const char* mma) {
  return module_text("sm_100a", ".param .u64 out", std::string(R"(
      .shared .align 128 .b8 ones[4096]; .shared .align 8 .b64 bar; .shared .align 4 .b32 where;
      mov.u32 %r0, where; mov.u32 %r1, %tid.x; mov.u32 %r2, ones; mov.u32 %r3, bar; shr.u32 %r4, %r1, 5;
      setp.ne.u32 %p1, %r4, 0; setp.ne.u32 %p2, %r1, 0;
      mov.u32 %r5, 0x38383838; mad.lo.u32 %r6, %r1, 32, %r2;
      st.shared.v4.b32 [%r6], {%r5, %r5, %r5, %r5}; st.shared.v4.b32 [%r6+16], {%r5, %r5, %r5, %r5};
      @!%p2 mbarrier.init.shared::cta.b64 [%r3], 1;
      @%p1 bra MADE;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 64;
    MADE:
      fence.proxy.async.shared::cta;
      tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
      ld.shared.u32 %r7, [%r0]; shl.b32 %r8, %r4, 21; add.u32 %r8, %r8, %r7;
)") + stores + R"(
    STORED:
      tcgen05.wait::st.sync.aligned;
      tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
      @%p2 bra WAIT;
      add.u32 %r12, %r7, 32; add.u32 %r13, %r7, 40; setp.ne.u32 %p0, 0, 0;
      shr.u32 %r9, %r2, 4; cvt.u64.u32 %rd1, %r9; or.b64 %rd1, %rd1, 0x401000080000;
)" + mma + R"(
      tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];
    WAIT:
      mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r3], 0; @!%p0 bra WAIT;
      bar.warp.sync -1; tcgen05.fence::after_thread_sync;
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r8];
      tcgen05.wait::ld.sync.aligned;
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r11;
      tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
      @%p1 exit;
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r7, 64;)");
}

// The sums of `right` warps are 32, those of the others NaN; a fault with a strict schedule.
void check_lanes(const std::string& text, const char* says, std::initializer_list<unsigned> right) {
  for (const bool tolerant : {false, true}) {
    const Ran r = run(text, tolerant, 128, 128);
    INFO(r.result.report);
    CHECK(r.result.ok == (tolerant || right.size() == 4));
    if (right.size() < 4) CHECK(r.says(says));
    if (right.size() < 4 && tolerant)
      CHECK((r.says("of the values of D are lost") || r.says("whose meaning is undefined")));
    for (uint32_t t = 0; r.result.ok && t < 128; ++t) {
      CAPTURE(t);
      const bool is_right = std::ranges::find(right, t / 32) != right.end();
      CHECK(r.out[t] == (is_right ? std::bit_cast<uint32_t>(32.0f) : 0xffffffff));
    }
  }
}

}  // namespace

constexpr const char* kScaled = R"(
      mov.u32 %r10, 0x8820000;
      tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%r7], %rd1, %rd1, %r10, [%r12], [%r13], %p0;)";

TEST_CASE("scale factors in some quarters of the lanes: a fault, or NaN in the other lanes and a note") {
  check_lanes(product_of_ones(R"(
      mov.u32 %r5, 0x7f7f7f7f;
      tcgen05.st.sync.aligned.32x32b.x4.b32 [%r8+32], {%r5, %r5, %r5, %r5};
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r8+40], {%r5};)",
                              kScaled),
              "", {0, 1, 2, 3});
  check_lanes(product_of_ones(R"(
      @%p1 bra STORED;
      mov.u32 %r5, 0x7f7f7f7f;
      tcgen05.st.sync.aligned.32x32b.x4.b32 [%r8+32], {%r5, %r5, %r5, %r5};
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r8+40], {%r5};)",
                              kScaled),
              "the scale of row 0 of A (TMEM column 32, lane 32) was never written", {0});
  check_lanes(product_of_ones(R"(
      mov.u32 %r5, 0x7f7f7f7f; setp.eq.u32 %p3, %r4, 2;
      tcgen05.st.sync.aligned.32x32b.x4.b32 [%r8+32], {%r5, %r5, %r5, %r5};
      @%p3 bra STORED;
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%r8+40], {%r5};)",
                              kScaled),
              "the scale of row 0 of B (TMEM column 40, lane 64) was never written", {0, 1, 3});
}

constexpr const char* kSparse = R"(
      mov.u32 %r10, 0x8020014;
      tcgen05.mma.sp.cta_group::1.kind::f8f6f4 [%r7], %rd1, %rd1, [%r12], %r10, %p0;)";

TEST_CASE("rows without metadata, or with invalid metadata: a fault, or NaN in them and a note") {
  check_lanes(product_of_ones(R"(
      mov.u32 %r5, 0xe4d69c84;
      tcgen05.st.sync.aligned.32x32b.x2.b32 [%r8+32], {%r5, %r5};)",
                              kSparse),
              "", {0, 1, 2, 3});
  check_lanes(product_of_ones(R"(
      mov.u32 %r5, 0xe4d69c84; setp.eq.u32 %p3, %r4, 1;
      @%p3 bra STORED;
      tcgen05.st.sync.aligned.32x32b.x2.b32 [%r8+32], {%r5, %r5};)",
                              kSparse),
              "the metadata of row 32 (TMEM column 32, lane 32) was never written", {0, 2, 3});
  check_lanes(product_of_ones(R"(
      mov.u32 %r5, 0xe4d69c84; setp.gt.u32 %p3, %r4, 1; @%p3 mov.u32 %r5, 0xe4d69f84;
      tcgen05.st.sync.aligned.32x32b.x2.b32 [%r8+32], {%r5, %r5};)",
                              kSparse),
              "metadata of row 64, chunk 2 of K is 0b1111", {0, 1});
}
