// A pair of CTAs comes up, hands accumulators back, and goes down: the same in every rung that has pairs.
#pragma once
#include "isa/cluster.cuh"
#include "isa/fence.cuh"
#include "isa/memory.cuh"
#include "isa/tcgen05.cuh"
#include "isa/warp.cuh"
#include "sm100/parts/kernel.cuh"

namespace fp4lab {

// This CTA's mbarriers, by one thread. * = only the even CTA's is used:
//   full[stages]*       1 arrival, and the bytes that both CTAs load
//   empty[stages]       1: the stage's commit, to both CTAs
//   acc_full[slots]     1: the tile's commit, to both CTAs (one for each product with late_stages)
//   acc_empty[slots]*   8: one for each epilogue warp of the pair
//   work_full[4]        1 arrival and 16 bytes: the next tile (only with a dynamic schedule)
//   work_empty[4]*      11: the load and epilogue warps of both CTAs, and the multiply warp
__device__ __forceinline__ void init_pair_barriers(u32 shared) {
  for (int s = 0; s < plan.stages; ++s) {
    isa::mbarrier_init(shared + plan.full_barrier(s), 1);
    isa::mbarrier_init(shared + plan.empty_barrier(s), 1);
  }
  for (int i = 0; i < plan.acc_fulls(); ++i) isa::mbarrier_init(shared + plan.acc_full_barrier(i), 1);
  for (int slot = 0; slot < plan.acc_slots; ++slot)
    isa::mbarrier_init(shared + plan.acc_empty_barrier(slot), 8);
  for (int slot = 0; slot < plan.work_slots(); ++slot) {
    isa::mbarrier_init(shared + plan.work_full_barrier(slot), 1);
    isa::mbarrier_init(shared + plan.work_empty_barrier(slot), 11);
  }
  isa::fence_mbarrier_init();
}

// By all threads of both CTAs: afterwards both run, and both have their barriers.
__device__ __forceinline__ void meet_peer() {
  isa::barrier_cluster_arrive_relaxed();  // fence.mbarrier_init has released the barriers
  isa::barrier_cluster_wait();
}

// By one whole warp of each CTA, after meet_peer(): with cta_group::2 the instruction shakes hands with the
// peer, which must be running (PTX ISA 9.7.16.7.1). It returns when both CTAs have their columns.
__device__ __forceinline__ void allocate_tmem(u32 shared) {
  isa::tcgen05_alloc<2>(shared + plan.tmem_pointer_offset(), plan.tmem_columns());
  isa::tcgen05_relinquish_alloc_permit<2>();
}

// By all threads of both CTAs, first of all: barriers, TMEM, and the address of TMEM.
__device__ __forceinline__ u32 start_pair(u32 shared, u32 warp) {
  if (threadIdx.x == 0) init_pair_barriers(shared);
  meet_peer();
  if (warp == kMultiplyWarp) allocate_tmem(shared);
  isa::tcgen05_fence_before_thread_sync();
  isa::barrier_cluster_arrive();
  isa::barrier_cluster_wait();
  isa::tcgen05_fence_after_thread_sync();
  return isa::ld_shared_b32(shared + plan.tmem_pointer_offset());
}

// The same hand-over of TMEM inside the CTA: enough, since the allocation itself waits for both CTAs. By the
// multiply warp and the epilogue warps, after meet_peer().
__device__ __forceinline__ u32 start_tmem(u32 shared, u32 warp) {
  if (warp == kMultiplyWarp) allocate_tmem(shared);
  isa::tcgen05_fence_before_thread_sync();
  isa::bar_sync(2, 160);
  isa::tcgen05_fence_after_thread_sync();
  return isa::ld_shared_b32(shared + plan.tmem_pointer_offset());
}

// By an epilogue warp whose loads of the accumulator are over.
__device__ __forceinline__ void give_back_accumulator(u32 shared, int slot) {
  isa::tcgen05_fence_before_thread_sync();
  isa::bar_warp_sync();
  if (threadIdx.x % 32 == 0)
    isa::mbarrier_arrive_cluster(isa::mapa(shared + plan.acc_empty_barrier(slot), 0));
}

// The same without a fence at GPU scope: what is handed over is TMEM, which tcgen05.fence orders, and no
// memory.
__device__ __forceinline__ void hand_back_accumulator(u32 shared, int slot) {
  isa::tcgen05_fence_before_thread_sync();
  isa::bar_warp_sync();
  if (threadIdx.x % 32 == 0) isa::mbarrier_arrive_remote(isa::mapa(shared + plan.acc_empty_barrier(slot), 0));
}
// By the thread that multiplies: the ring's next accumulator, when it has been handed back.
__device__ __forceinline__ int next_accumulator(Ring<plan.acc_slots>& acc, u32 shared) {
  const int slot = acc.slot;
  wait(shared + plan.acc_empty_barrier(slot), acc.phase ^ 1);
  acc.advance();
  return slot;
}
// By the thread that multiplies, after its last tile: until the last accumulators are handed back. A relaxed
// barrier at the end does not say that the odd CTA's arrivals have landed.
__device__ __forceinline__ void drain_accumulators(Ring<plan.acc_slots> acc, u32 shared) {
#pragma unroll
  for (int i = 0; i < plan.acc_slots; ++i, acc.advance())
    wait(shared + plan.acc_empty_barrier(acc.slot), acc.phase ^ 1);
}

// By all threads of both CTAs, last of all: TMEM is freed when nobody uses either CTA's any more, and no CTA
// leaves while its peer may still arrive on its barriers.
__device__ __forceinline__ void leave_pair(u32 warp, u32 tmem) {
  isa::tcgen05_fence_before_thread_sync();
  isa::barrier_cluster_arrive();
  isa::barrier_cluster_wait();
  if (warp == kMultiplyWarp) {
    isa::tcgen05_fence_after_thread_sync();
    isa::tcgen05_dealloc<2>(tmem, plan.tmem_columns());
  }
}
// The same by a relaxed barrier, which does not wait for stores of C: they are over when the kernel is.
__device__ __forceinline__ void leave_pair_relaxed(u32 warp, u32 tmem) {
  isa::tcgen05_fence_before_thread_sync();
  isa::barrier_cluster_arrive_relaxed();
  isa::barrier_cluster_wait();
  if (warp == kMultiplyWarp) {
    isa::tcgen05_fence_after_thread_sync();
    isa::tcgen05_dealloc<2>(tmem, plan.tmem_columns());
  }
}

}  // namespace fp4lab
