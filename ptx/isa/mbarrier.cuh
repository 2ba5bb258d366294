// mbarrier objects: 8 bytes of shared memory, 8-byte aligned (PTX ISA 9.7.13.15).
// A `bar` is a 32-bit shared-window address. A fresh barrier is in phase 0: parity 1 passes at once, parity 0
// blocks.
#pragma once
#include "types.cuh"

namespace fp4lab::isa {

// mbarrier.init.shared::cta.b64 [bar], count;  (PTX 7.0, sm_80; 9.7.13.15.9)
__device__ __forceinline__ void mbarrier_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

// mbarrier.inval.shared::cta.b64 [bar];  (PTX 7.0, sm_80; 9.7.13.15.10)
__device__ __forceinline__ void mbarrier_inval(u32 bar) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

// mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], bytes;  (PTX 8.0, sm_90; 9.7.13.15.11)
__device__ __forceinline__ void mbarrier_expect_tx(u32 bar, u32 bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

// mbarrier.arrive.shared::cta.b64 _, [bar];  (release.cta; PTX 7.0, sm_80; 9.7.13.15.13)
__device__ __forceinline__ void mbarrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

// mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar];  (`bar` from mapa; PTX 8.0,
// sm_90; 9.7.13.15.13)
__device__ __forceinline__ void mbarrier_arrive_cluster(u32 bar) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}

// mbarrier.arrive.shared::cluster.b64 _, [bar];  (release.cta, `bar` from mapa; PTX 8.0,
// sm_90; 9.7.13.15.13): for a peer whose next access to the protected bytes is a bulk copy; release.cluster
// costs a MEMBAR.GPU.
__device__ __forceinline__ void mbarrier_arrive_remote(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}

// mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], bytes;  (PTX 8.0, sm_90; 9.7.13.15.13)
__device__ __forceinline__ void mbarrier_arrive_expect_tx(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

// mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [bar], bytes;  (PTX 8.0,
// sm_90; 9.7.13.15.13)
__device__ __forceinline__ void mbarrier_arrive_expect_tx_cluster(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(bar),
               "r"(bytes)
               : "memory");
}

// mbarrier.try_wait.parity.shared::cta.b64 p, [bar], parity;  (acquire.cta; PTX 7.8, sm_90; 9.7.13.15.16)
// May return false before the phase is over: always call it in a loop.
__device__ __forceinline__ bool mbarrier_try_wait_parity(u32 bar, u32 parity) {
  u32 done;
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t}"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done != 0;
}

// mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [bar], parity;  (PTX 8.0, sm_90; 9.7.13.15.16)
// For phases that peers of the cluster complete by mbarrier_arrive_cluster after generic accesses.
__device__ __forceinline__ bool mbarrier_try_wait_parity_cluster(u32 bar, u32 parity) {
  u32 done;
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t}"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done != 0;
}

// mbarrier.test_wait.parity.shared::cta.b64 p, [bar], parity;  (never suspends; PTX 7.1, sm_80; 9.7.13.15.16)
__device__ __forceinline__ bool mbarrier_test_wait_parity(u32 bar, u32 parity) {
  u32 done;
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t}"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done != 0;
}

}  // namespace fp4lab::isa
