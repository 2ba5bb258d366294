// Warp- and CTA-wide instructions, special registers, shared-window addresses.
#pragma once
#include "types.cuh"

namespace fp4lab::isa {

// elect.sync _|p, 0xffffffff;  (PTX 8.0, sm_90; 9.7.13.14): true in exactly one lane, the same one each time.
__device__ __forceinline__ bool elect_sync() {
  u32 elected;
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
      "elect.sync _|p, 0xffffffff;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t}"
      : "=r"(elected)
      :
      : "memory");
  return elected != 0;
}

// bar.warp.sync 0xffffffff;  (PTX 6.0, sm_30; 9.7.13.2)
__device__ __forceinline__ void bar_warp_sync() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

// bar.sync id, threads;  (PTX 1.0/2.0; 9.7.13.1): id 0..15, threads a multiple of 32.
__device__ __forceinline__ void bar_sync(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// bar.arrive id, threads;  (PTX 2.0; 9.7.13.1): counts this warp in and goes on.
__device__ __forceinline__ void bar_arrive(u32 id, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// bar.sync 0;  the whole CTA (9.7.13.1)
__device__ __forceinline__ void bar_sync_all() { asm volatile("bar.sync 0;" ::: "memory"); }

// shfl.sync.idx.b32 d, v, lane, 0x1f, 0xffffffff;  (PTX 6.0, sm_30; 9.7.9.6)
__device__ __forceinline__ u32 shfl_sync_idx(u32 v, u32 lane) {
  u32 d;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(d) : "r"(v), "r"(lane));
  return d;
}

// setmaxnreg.{inc,dec}.sync.aligned.u32 n;  (PTX 8.0, sm_90a; 9.7.19.5): by all warps of a warpgroup,
// n 24..256 in steps of 8. ptxas ignores it unless the kernel states __launch_bounds__(threads, 1).
template <int n>
__device__ __forceinline__ void setmaxnreg_inc() {
  static_assert(n >= 24 && n <= 256 && n % 8 == 0);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}
template <int n>
__device__ __forceinline__ void setmaxnreg_dec() {
  static_assert(n >= 24 && n <= 256 && n % 8 == 0);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}

// griddepcontrol.launch_dependents;  (PTX 7.8, sm_90; 9.7.13.13)
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// griddepcontrol.wait;  (PTX 7.8, sm_90; 9.7.13.13): no-op without the programmatic launch attribute.
__device__ __forceinline__ void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// mov.u32 d, %clock;  (10.22): cycles of the multiprocessor, which wrap around
__device__ __forceinline__ u32 clock() {
  u32 d;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(d)::"memory");
  return d;
}

// cvta.to.shared.u64 and narrowing: the 32-bit shared-window address that the asm here takes (9.7.9.20).
__device__ __forceinline__ u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

}  // namespace fp4lab::isa
