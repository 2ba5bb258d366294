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

// cp and mma of one thread run in issue order, so the MMA needs no wait for its scales (PTX ISA 9.7.16.6.2).
// The other direction is not promised: `scale_slot` must not be in use by an MMA that may still be running.
template <int cta_group = plan.cta_group>
__device__ __forceinline__ void multiply_stage(u32 shared, u32 tmem, int stage, int acc_slot, int scale_slot,
                                               const Tile& tile, bool accumulate) {
  const u32 idesc = plan.instruction_descriptor(tile.n);
  const u32 left = shared + plan.left_offset(stage);
  const u32 scales_left = shared + plan.scales_left_offset(stage);
  // A right tile that starts in the upper half of a 128-row scale block finds its scales two columns further
  // on.
  const u32 half = tile.right % 128 / 32;
#pragma unroll
  for (int kb = 0; kb < plan.k_blocks(); ++kb) {
    const u32 sfa = tmem + plan.scales_left_column(scale_slot, kb);
    isa::tcgen05_cp_32x128b_warpx4<cta_group>(sfa, scale_descriptor(scales_left + kb * 512));
    const u32 step = kb % 4 * 32;  // inside a swizzle atom K = 64 is 32 bytes
#pragma unroll
    for (int p = 0; p < plan.products(); ++p) {
      const u32 sfb = tmem + plan.scales_right_column(scale_slot, p, kb);
      const u32 scales_right = shared + plan.scales_right_offset(stage, p);
#pragma unroll
      for (int b = 0; b < plan.scale_blocks(); ++b)
        isa::tcgen05_cp_32x128b_warpx4<cta_group>(
            sfb + 4 * b, scale_descriptor(scales_right + b * plan.scale_bytes() + kb * 512));
      const u32 right = shared + plan.right_offset(stage, p);
      isa::tcgen05_mma_mxf4nvf4_block16<cta_group>(
          tmem + plan.acc_column(acc_slot, p),
          operand_descriptor(left + kb / 4 * plan.left_rows() * 128 + step),
          operand_descriptor(right + kb / 4 * plan.right_rows() * 128 + step), idesc, sfa, sfb + half,
          accumulate || kb > 0);
    }
  }
}

}  // namespace fp4lab
