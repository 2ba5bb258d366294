// Multiplying one stage: scales from shared memory to TMEM, then the MMAs, all from one thread.
#pragma once
#include "isa/tcgen05.cuh"
#include "sm100/parts/tiles.cuh"

namespace fp4lab {

// The scale buffers in TMEM. With as many as stages, the wait for a full stage has shown that the buffer is
// free too; with fewer, the MMAs that read it `scale_slots` stages ago must be seen to be complete: their
// stage's empty barrier.
struct ScaleRing {
  Ring<plan.scale_slots> ring;
  Ring<plan.stages> behind;
  int in_use = 0;

  __device__ __forceinline__ int acquire(u32 shared) {
    if constexpr (plan.scale_slots < plan.stages) {
      if (in_use < plan.scale_slots) {
        ++in_use;
      } else {
        wait(shared + plan.empty_barrier(behind.slot), behind.phase);
        behind.advance();
      }
    }
    const int slot = ring.slot;
    ring.advance();
    return slot;
  }
};

// K = 64 of one product: its right scales to TMEM, then the MMA. The two products of a dual GEMM read the
// same left tile, one right after the other, so the tensor core may keep it.
template <int product>
__device__ __forceinline__ void multiply_block(u32 shared, u32 tmem, int stage, int acc_slot, int scale_slot,
                                               int kb, const Tile& tile, u32 idesc, bool accumulate) {
  constexpr auto collector = !plan.collector ? isa::Collector::kDiscard
                             : product == 0  ? isa::Collector::kFill
                                             : isa::Collector::kLastUse;
  const u32 scales = shared + plan.scales_right_offset(stage, product);
  const u32 sfb = tmem + plan.scales_right_column(scale_slot, product, kb);
#pragma unroll
  for (int b = 0; b < plan.scale_blocks(); ++b)
    isa::tcgen05_cp_32x128b_warpx4<plan.cta_group>(
        sfb + 4 * b, scale_descriptor(scales + b * plan.scale_bytes() + kb * 512));
  // A right tile that starts in the upper half of a 128-row scale block finds its scales two columns further
  // on.
  const u32 half = tile.right % 128 / 32;
  const u32 step = kb % 4 * 32;  // inside a swizzle atom K = 64 is 32 bytes
  const u32 left = shared + plan.left_offset(stage) + kb / 4 * plan.left_rows() * 128 + step;
  const u32 right = shared + plan.right_offset(stage, product) + kb / 4 * plan.right_rows() * 128 + step;
  isa::tcgen05_mma_mxf4nvf4_block16<plan.cta_group, collector>(
      tmem + plan.acc_column(acc_slot, product), operand_descriptor(left), operand_descriptor(right), idesc,
      tmem + plan.scales_left_column(scale_slot, kb), sfb + half, accumulate);
}

// cp and mma of one thread run in issue order, so the MMA needs no wait for its scales (PTX ISA 9.7.16.6.2).
// The other direction is not promised: `scale_slot` must not be in use by an MMA that may still be running.
__device__ __forceinline__ void multiply_stage(u32 shared, u32 tmem, int stage, int acc_slot, int scale_slot,
                                               const Tile& tile, bool accumulate) {
  const u32 idesc = plan.instruction_descriptor(tile.n);
#pragma unroll
  for (int kb = 0; kb < plan.k_blocks(); ++kb) {
    isa::tcgen05_cp_32x128b_warpx4<plan.cta_group>(
        tmem + plan.scales_left_column(scale_slot, kb),
        scale_descriptor(shared + plan.scales_left_offset(stage) + kb * 512));
    multiply_block<0>(shared, tmem, stage, acc_slot, scale_slot, kb, tile, idesc, accumulate || kb > 0);
    if constexpr (plan.products() == 2)
      multiply_block<1>(shared, tmem, stage, acc_slot, scale_slot, kb, tile, idesc, accumulate || kb > 0);
  }
}

}  // namespace fp4lab
