// Filling one stage of a CTA pair (cta_group::2): each CTA loads its own half of both operands, and every
// byte is counted on the even CTA's barrier, because the thread that issues the MMAs lives there.
#pragma once
#include "isa/cluster.cuh"
#include "sm100/parts/load.cuh"

namespace fp4lab {

// A shared-window address carries its CTA's rank from bit 24 on: without bit 24 it names the same offset in
// the even CTA of the pair.
__device__ __forceinline__ u32 in_even_cta(u32 address) { return address & 0xfeff'ffffu; }

// Where right tile `i` comes from: the second product has an operand of its own, the second half has not.
__device__ constexpr Map right_map(int i) {
  return plan.op == Op::kDual && i == 1 ? Map::kRight2 : Map::kRight;
}
__device__ constexpr Map scales_right_map(int i) {
  return plan.op == Op::kDual && i == 1 ? Map::kScalesRight2 : Map::kScalesRight;
}

// By one thread in each CTA. The odd CTA's bytes may arrive before the even CTA expects them: the phase
// cannot end without the even CTA's arrival.
__device__ __forceinline__ void load_stage_pair(const Args& args, const Tile& tile, int k_tile, u32 shared,
                                                int stage, u32 rank) {
  const GroupArgs& g = args.group[tile.group];
  const u32 bar = in_even_cta(shared + plan.full_barrier(stage));
  const int tiles = plan.halves == 1 || tile.n > plan.mma_n ? plan.right_tiles() : 1;
  if (rank == 0) isa::mbarrier_arrive_expect_tx(bar, 2 * plan.load_bytes(g.box_rows, tiles));

  const int left = tile.left + rank * plan.left_rows();
  const int x = k_tile * (plan.block_k / 2);
#pragma unroll
  for (int atom = 0; atom < plan.k_atoms(); ++atom) {
    isa::cp_async_bulk_tensor_2d_cta_group_2(shared + plan.left_offset(stage) + atom * plan.left_rows() * 128,
                                             tensor_map(args, tile.group, Map::kLeft), x + atom * 128, left,
                                             bar, left_policy());
#pragma unroll
    for (int i = 0; i < plan.right_tiles(); ++i) {
      // the pair splits the rows that the MMA reads, not the box
      const int right = tile.right + plan.right_start(i) + rank * (plan.right_n(tile.n, i) / 2);
      if (plan.halves == 1 || i < tiles)
        isa::cp_async_bulk_tensor_2d_cta_group_2(
            shared + plan.right_offset(stage, i) + atom * plan.right_rows() * 128,
            tensor_map(args, tile.group, right_map(i)), x + atom * 128, right, bar, right_policy());
    }
  }

  // Scales: left ones for this CTA's rows, right ones for all rows of the tile. Maps count 8-byte elements:
  // 64 to the 512-byte atom, 256 (the largest box) to K = 256. A row block that does not exist is replaced by
  // the last one.
  const int x8 = k_tile * plan.k_blocks() * 64;
  const int left_block = min(left / 128, (g.left_rows - 1) / 128);
  const int last_block = (g.right_rows - 1) / 128;
#pragma unroll
  for (int atom = 0; atom < plan.k_atoms(); ++atom) {
    isa::cp_async_bulk_tensor_2d_cta_group_2(shared + plan.scales_left_offset(stage) + atom * 2048,
                                             tensor_map(args, tile.group, Map::kScalesLeft), x8 + atom * 256,
                                             left_block, bar, left_policy());
#pragma unroll
    for (int i = 0; i < plan.right_tiles(); ++i)
#pragma unroll
      for (int b = 0; b < plan.scale_blocks(); ++b) {
        if (plan.halves > 1 && i >= tiles) continue;
        const u32 dst = shared + plan.scales_right_offset(stage, i) + b * plan.scale_bytes() + atom * 2048;
        const TensorMap* map = tensor_map(args, tile.group, scales_right_map(i));
        const int block = min((tile.right + plan.right_start(i)) / 128 + b, last_block);
        if constexpr (plan.multicast)
          isa::cp_async_bulk_tensor_2d_cta_group_2_multicast(
              dst + rank * 1024, map, x8 + atom * 256 + rank * 128, block, bar, 3, right_policy());
        else
          isa::cp_async_bulk_tensor_2d_cta_group_2(dst, map, x8 + atom * 256, block, bar, right_policy());
      }
  }
}

}  // namespace fp4lab
