// Kernels that move boxes of a tensor map, and bytes to move.
#pragma once

#include <random>

#include "kernel.h"

namespace fp4lab::emu::test {

// Thread 0 initialises the mbarrier at %r1, fills `bytes` of smem (%r0) with words (`word` computes into %r6
// the one for offset %r4), and runs `copy` on the map at %rd0. After `waited` all words are copied to out.
inline std::string copy_kernel(uint32_t bytes, const char* word, const std::string& copy,
                               const std::string& waited) {
  return module_text("sm_90a", ".param .align 64 .b8 map[128], .param .u64 out",
                     fmt::format(R"(
    .shared .align 8 .b64 bar;
    mov.u32 %r0, smem; mov.u32 %r1, bar;
    mov.b64 %rd0, map; cvta.param.u64 %rd0, %rd0;
    ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r3, %tid.x; setp.ne.u32 %p0, %r3, 0;
    @%p0 bra WAIT;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
    mov.u32 %r4, 0;
  P: add.u32 %r5, %r0, %r4; {word} st.shared.u32 [%r5], %r6; add.u32 %r4, %r4, 4;
    setp.lt.u32 %p1, %r4, {bytes};
    @%p1 bra P;
    fence.proxy.async.shared::cta;
    {copy}
  WAIT: bar.sync 0;
    {waited}
    mul.lo.u32 %r4, %r3, 4;
  C: add.u32 %r5, %r0, %r4; ld.shared.u32 %r6, [%r5]; cvt.u64.u32 %rd2, %r4; add.u64 %rd2, %rd2, %rd1;
    st.global.u32 [%rd2], %r6; add.u32 %r4, %r4, 128; setp.lt.u32 %p1, %r4, {bytes};
    @%p1 bra C;)",
                                 fmt::arg("word", word), fmt::arg("bytes", bytes), fmt::arg("copy", copy),
                                 fmt::arg("waited", waited)));
}

inline std::vector<uint8_t> pattern(size_t n) {
  std::vector<uint8_t> v(n);
  std::mt19937 rng(5);
  for (auto& b : v) b = static_cast<uint8_t>(rng());
  return v;
}

}  // namespace fp4lab::emu::test
