// Tiles from clusterlaunchcontrol: the even CTA's load thread asks for one cluster at a time; the answer
// lands in both CTAs, and every warp that needs tile numbers reads it there. A stolen cluster's number may be
// any that is left.
#pragma once
#include "isa/clc.cuh"
#include "isa/cluster.cuh"
#include "isa/fence.cuh"
#include "isa/warp.cuh"
#include "sm100/parts/kernel.cuh"

namespace fp4lab {

struct WorkQueue {
  Ring<plan.work_slots()> ring;

  // Asks for the next tile. By the thread that later consumes the answer, so that none asks again after a
  // refusal (that would be undefined, PTX ISA 9.7.13.17).
  __device__ __forceinline__ void request(u32 shared) const {
    wait_cluster(shared + plan.work_empty_barrier(ring.slot), ring.phase ^ 1);
    const u32 full = shared + plan.work_full_barrier(ring.slot);
    for (u32 rank = 0; rank < 2; ++rank) isa::mbarrier_arrive_expect_tx_cluster(isa::mapa(full, rank), 16);
    isa::clusterlaunchcontrol_try_cancel_multicast(shared + plan.work_offset(ring.slot), full);
  }

  // The next tile's number, or -1 when there is none. Gives the answer's slot back to the even CTA.
  __device__ __forceinline__ int next_by_thread(u32 shared) {
    const int number = read(shared);
    release(shared);
    return number;
  }
  __device__ __forceinline__ int next_by_warp(u32 shared) {
    const int number = read(shared);
    isa::bar_warp_sync();  // all lanes have read
    if (threadIdx.x % 32 == 0)
      release(shared);
    else
      ring.advance();
    return number;
  }

 private:
  __device__ __forceinline__ int read(u32 shared) const {
    wait_cluster(shared + plan.work_full_barrier(ring.slot), ring.phase);
    const int first_cta = isa::clusterlaunchcontrol_query_cancel(shared + plan.work_offset(ring.slot));
    isa::fence_proxy_async_shared();  // our generic read comes before the next answer's asynchronous write
    return first_cta < 0 ? -1 : first_cta / plan.cluster();
  }
  __device__ __forceinline__ void release(u32 shared) {
    isa::mbarrier_arrive_cluster(isa::mapa(shared + plan.work_empty_barrier(ring.slot), 0));
    ring.advance();
  }
};

}  // namespace fp4lab
