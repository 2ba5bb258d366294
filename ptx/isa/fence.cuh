// Fences between threads and between proxies (PTX ISA 9.7.13.4, proxies 8.6).
#pragma once
#include "types.cuh"

namespace fp4lab::isa {

// fence.mbarrier_init.release.cluster;  (PTX 8.0, sm_90; 9.7.13.4)
// Makes this thread's mbarrier.init visible to the async proxy and to the cluster; a barrier must follow.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// fence.proxy.async.shared::cta;  (PTX 8.0, sm_90; 9.7.13.4)
// Between generic accesses of shared memory and async-proxy accesses (TMA, tcgen05.mma/cp, wgmma) of the same
// bytes.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// fence.proxy.async.global;  (PTX 8.0, sm_90; 9.7.13.4)
__device__ __forceinline__ void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// fence.acq_rel.gpu;  (PTX 6.0, sm_70; 9.7.13.4)
__device__ __forceinline__ void fence_acq_rel_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// fence.proxy.tensormap::generic.acquire.gpu [map], 128;  (PTX 8.3, sm_90; 9.7.13.4)
__device__ __forceinline__ void fence_proxy_tensormap_acquire_gpu(const void* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

}  // namespace fp4lab::isa
