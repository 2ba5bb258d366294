// Clusters of CTAs: ranks, peer addresses, the cluster barrier.
#pragma once
#include "types.cuh"

namespace fp4lab::isa {

// mov.u32 d, %cluster_ctarank;  (PTX 7.8, sm_90; section 10, special registers)
__device__ __forceinline__ u32 cluster_ctarank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// mapa.shared::cluster.u32 d, address, rank;  (PTX 7.8, sm_90; 9.7.9.23): the same offset in the CTA of that
// rank.
__device__ __forceinline__ u32 mapa(u32 address, u32 rank) {
  u32 d;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(d) : "r"(address), "r"(rank));
  return d;
}

// barrier.cluster.arrive.release.aligned;  (PTX 7.8, sm_90; 9.7.13.3): every thread of the cluster, once per
// phase.
__device__ __forceinline__ void barrier_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// barrier.cluster.arrive.relaxed.aligned;  (9.7.13.3): after fence.mbarrier_init, whose release it completes.
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// barrier.cluster.wait.acquire.aligned;  (PTX 7.8, sm_90; 9.7.13.3)
__device__ __forceinline__ void barrier_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// ld.shared::cluster.v4.f32 {..}, [address];  (PTX 7.8, sm_90; 9.7.9.8): distributed shared memory.
__device__ __forceinline__ void ld_shared_cluster_v4(u32 address, float (&v)[4]) {
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(address)
               : "memory");
}

}  // namespace fp4lab::isa
