// Bulk asynchronous copies (PTX ISA 9.7.9.25.4) and tensor copies (9.7.9.27.1): the TMA engine.
// Loads complete on an mbarrier by bytes; a box that leaves the tensor is zero-filled and still counts in
// full. `dst` and `bar` are shared-window addresses, `map` is the generic address of a 128-byte CUtensorMap.
#pragma once
#include "types.cuh"

namespace fp4lab::isa {

// prefetch.tensormap [map];  (PTX 8.0, sm_90; 9.7.9.15)
__device__ __forceinline__ void prefetch_tensormap(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint
//   [dst], [map, {x, y}], [bar], policy;  (PTX 8.0, sm_90; 9.7.9.27.1.2)
__device__ __forceinline__ void cp_async_bulk_tensor_2d(u32 dst, const void* map, int x, int y, u32 bar,
                                                        u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(dst),
      "l"(map), "r"(x), "r"(y), "r"(bar), "l"(policy)
      : "memory");
}

// As above with .cta_group::2  (PTX 8.6, sm_100a): `bar` may lie in either CTA of the pair.
__device__ __forceinline__ void cp_async_bulk_tensor_2d_cta_group_2(u32 dst, const void* map, int x, int y,
                                                                    u32 bar, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::"
      "cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(dst),
      "l"(map), "r"(x), "r"(y), "r"(bar), "l"(policy)
      : "memory");
}

// As above with .multicast::cluster: the box lands at the same offset in each CTA of `mask`, and each CTA's
// barrier at bar's offset counts the bytes; with .cta_group::2 it is the barrier in the CTA of the pair that
// `bar` names.
__device__ __forceinline__ void cp_async_bulk_tensor_2d_multicast(u32 dst, const void* map, int x, int y,
                                                                  u32 bar, u16 mask, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(dst),
      "l"(map), "r"(x), "r"(y), "r"(bar), "h"(mask), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_2d_cta_group_2_multicast(u32 dst, const void* map, int x,
                                                                              int y, u32 bar, u16 mask,
                                                                              u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(dst),
      "l"(map), "r"(x), "r"(y), "r"(bar), "h"(mask), "l"(policy)
      : "memory");
}

// cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [dst], [src], bytes,
// [bar], policy;
//   (PTX 8.0, sm_90; 9.7.9.25.4.1): contiguous bytes; size and addresses multiples of 16, no bounds handling.
__device__ __forceinline__ void cp_async_bulk(u32 dst, const void* src, u32 bytes, u32 bar, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(dst),
      "l"(src), "r"(bytes), "r"(bar), "l"(policy)
      : "memory");
}

// cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint
//   [dst], [src], bytes, [bar], mask, policy;  (PTX 8.0, sm_90; 9.7.9.25.4.1): the same offsets in each CTA
//   of `mask`.
__device__ __forceinline__ void cp_async_bulk_multicast(u32 dst, const void* src, u32 bytes, u32 bar,
                                                        u16 mask, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4, %5;" ::"r"(dst),
      "l"(src), "r"(bytes), "r"(bar), "h"(mask), "l"(policy)
      : "memory");
}

// cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [map, {x, y}], [src];  (PTX 8.0,
// sm_90; 9.7.9.27.1.2) Elements outside the tensor are not written. The writers of `src` need
// fence.proxy.async first.
__device__ __forceinline__ void cp_async_bulk_tensor_2d_store(const void* map, int x, int y, u32 src) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
               "r"(x), "r"(y), "r"(src)
               : "memory");
}

// cp.async.bulk.commit_group;  (PTX 8.0, sm_90; 9.7.9.27.2.1)
__device__ __forceinline__ void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// cp.async.bulk.wait_group n;  (PTX 8.0, sm_90; 9.7.9.27.2.2): at most n groups of this thread still in
// flight.
template <int n>
__device__ __forceinline__ void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(n) : "memory");
}

// cp.async.bulk.wait_group.read n;  (9.7.9.27.2.2): their sources have been read, shared memory may be
// reused.
template <int n>
__device__ __forceinline__ void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory");
}

}  // namespace fp4lab::isa
