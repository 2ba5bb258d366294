// Filling one stage: operand tiles by tensor maps with the 128-byte swizzle, scales as they lie in global
// memory.
#pragma once
#include "isa/tma.cuh"
#include "sm100/parts/tiles.cuh"

namespace fp4lab {

// L2 cache policies as createpolicy.fractional would make them (PTX ISA 9.7.9.18; values as public kernels
// carry them).
__device__ constexpr u64 l2_policy(Hint hint) {
  return hint == Hint::kEvictFirst  ? 0x12f0000000000000ull
         : hint == Hint::kEvictLast ? 0x14f0000000000000ull
                                    : 0x1000000000000000ull;
}
__device__ constexpr u64 left_policy() { return l2_policy(plan.swap ? plan.weights : plan.tokens); }
__device__ constexpr u64 right_policy() { return l2_policy(plan.swap ? plan.tokens : plan.weights); }

// Brings a group's tensor maps near the TMA engine, before the first load wants them.
__device__ __forceinline__ void prefetch_maps(const Args& args, int group) {
#pragma unroll
  for (int i = 0; i < plan.map_count(); ++i) isa::prefetch_tensormap(&args.maps[group][i]);
}

// By one thread of a CTA that works alone (cta_group::1); `shared` is the base of the byte map. The full
// barrier gets one arrival and as many bytes as the boxes hold, whether or not they leave the matrix: what is
// outside reads as 0.
__device__ __forceinline__ void load_stage(const Args& args, const Tile& tile, int k_tile, u32 shared,
                                           int stage) {
  const GroupArgs& g = args.group[tile.group];
  const u32 bar = shared + plan.full_barrier(stage);
  isa::mbarrier_arrive_expect_tx(bar, plan.load_bytes(g.box_rows));

  const int x = k_tile * (plan.block_k / 2);  // maps count bytes along K
#pragma unroll
  for (int atom = 0; atom < plan.k_atoms(); ++atom) {
    isa::cp_async_bulk_tensor_2d(shared + plan.left_offset(stage) + atom * plan.left_rows() * 128,
                                 tensor_map(args, tile.group, Map::kLeft), x + atom * 128, tile.left, bar,
                                 left_policy());
#pragma unroll
    for (int p = 0; p < plan.products(); ++p)
      isa::cp_async_bulk_tensor_2d(shared + plan.right_offset(stage, p) + atom * plan.right_rows() * 128,
                                   tensor_map(args, tile.group, p == 0 ? Map::kRight : Map::kRight2),
                                   x + atom * 128, tile.right, bar, right_policy());
  }

  // Scales: 512-byte atoms of 128 rows x 4 scales, those of one row block contiguous along K. Storage is
  // padded to 128 rows, so the copy stays inside; a row block that does not exist is replaced by the last one
  // (its rows are not stored).
  const u32 row_block_bytes = static_cast<u32>(g.k) * 8;  // k/16 scales x 128 rows
  const u32 offset = k_tile * plan.scale_bytes();
  const auto scales = [&](u64 base, int row_block) {
    return reinterpret_cast<const void*>(base + static_cast<u64>(row_block) * row_block_bytes + offset);
  };
  isa::cp_async_bulk(shared + plan.scales_left_offset(stage), scales(g.scales_left, tile.left / 128),
                     plan.scale_bytes(), bar, left_policy());
  const int last_block = (g.right_rows - 1) / 128;
#pragma unroll
  for (int p = 0; p < plan.products(); ++p)
#pragma unroll
    for (int b = 0; b < plan.scale_blocks(); ++b)
      isa::cp_async_bulk(shared + plan.scales_right_offset(stage, p) + b * plan.scale_bytes(),
                         scales(g.scales_right[p], min(tile.right / 128 + b, last_block)), plan.scale_bytes(),
                         bar, right_policy());
}

// After the last load: waits until every stage is empty. The last commits arrive on these barriers, in a pair
// on both CTAs', and a CTA must not be gone when that happens.
__device__ __forceinline__ void drain(Ring<plan.stages> ring, u32 shared) {
#pragma unroll 1
  for (int i = 0; i < plan.stages; ++i, ring.advance())
    wait(shared + plan.empty_barrier(ring.slot), ring.phase ^ 1);
}

}  // namespace fp4lab
