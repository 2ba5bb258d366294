// Editing a tensor map on the device (PTX ISA 9.7.9.28 tensormap.replace, 9.7.13.16 tensormap.cp_fenceproxy).
// The edits go to a copy in shared memory; one warp then publishes it to global memory, where the TMA engine
// reads it.
#pragma once
#include "types.cuh"

namespace fp4lab::isa {

// tensormap.replace.tile.global_address.shared::cta.b1024.b64 [map], value;  (PTX 8.3, sm_90a; 9.7.9.28)
__device__ __forceinline__ void tensormap_replace_global_address(u32 map, u64 value) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(map), "l"(value)
               : "memory");
}

// tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], dim, value;  (9.7.9.28): elements
template <int dim>
__device__ __forceinline__ void tensormap_replace_global_dim(u32 map, u32 value) {
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"r"(map), "n"(dim),
               "r"(value)
               : "memory");
}

// tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [map], dim, value;  (9.7.9.28): bytes, of
// dimension dim + 1
template <int dim>
__device__ __forceinline__ void tensormap_replace_global_stride(u32 map, u64 value) {
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], %1, %2;" ::"r"(map),
               "n"(dim), "l"(value)
               : "memory");
}

// tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], dim, value;  (9.7.9.28): elements
template <int dim>
__device__ __forceinline__ void tensormap_replace_box_dim(u32 map, u32 value) {
  asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"r"(map), "n"(dim),
               "r"(value)
               : "memory");
}

// tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [dst], [src], 128;
//   (PTX 8.3, sm_90; 9.7.13.16): by a whole warp; readers do fence.proxy.tensormap::generic.acquire.gpu
//   [dst], 128.
__device__ __forceinline__ void tensormap_cp_fenceproxy(void* dst, u32 src) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], "
      "128;" ::"l"(dst),
      "r"(src)
      : "memory");
}

}  // namespace fp4lab::isa
