// Group GEMM, C_g = A_g * B_g^T, NVFP4 in, fp16 out: A and B swapped: weights on MMA_M, tokens on MMA_N.
//
// Parent: v3_persistent. The change: C^T = B * A^T. MMA_M is 128 whatever there is to multiply, MMA_N goes
// down to 8, so the few tokens are the right operand and nothing is padded to 128. The swap is in the plan
// (swap, n_step): the host exchanges the tensor maps, and the epilogue has a column of C in each TMEM lane.
// This file differs in a line.
//
//   tile   128 weights (left, MMA_M) x up to 128 tokens (right, MMA_N)
//   rows   one CTA holds all of both; a TMEM lane is a column of C
//   TMEM   | 0 accumulator 0 | 128 accumulator 1 | 256 scales, 6 slots |    448 of 512 columns
//   stage  16384 + 16384 codes + 2048 + 2048 scales = 36864 bytes, 6 stages
//
// Run: make run KERNEL=v4_swap
#include "isa/fence.cuh"
#include "sm100/parts/epilogue.cuh"
#include "sm100/parts/load.cuh"
#include "sm100/parts/multiply.cuh"

using namespace fp4lab;
using namespace fp4lab::isa;

// -- limits: 128 x mma_n tiles, as many CTAs as the launch gives
static_assert(plan.op == Op::kGroup && plan.swap && plan.cta_group == 1 && plan.roles == Roles::kSpecialized);
static_assert(plan.split_k == 1 && plan.schedule == Schedule::kStatic && plan.epilogue == Epilogue::kDirect);

// -- byte map: plan.*_offset(); TMEM map: plan.*_column()
// -- barriers: full[stages] (1 arrival + bytes: TMA), empty[stages] (1: commit of the stage),
//    acc_full[slots] (1: commit of the tile), acc_empty[slots] (4: one per epilogue warp)

extern "C" __global__ void __launch_bounds__(plan.threads(), 1)
    group_gemm_v4_swap(const __grid_constant__ Args args) {
  // -- setup
  extern __shared__ __align__(1024) u8 bytes[];
  const u32 shared = shared_address(bytes);
  const u32 warp = warp_index();

  if (threadIdx.x == 0) {
    for (int s = 0; s < plan.stages; ++s) {
      mbarrier_init(shared + plan.full_barrier(s), 1);
      mbarrier_init(shared + plan.empty_barrier(s), 1);
    }
    for (int slot = 0; slot < plan.acc_slots; ++slot) {
      mbarrier_init(shared + plan.acc_full_barrier(slot), 1);
      mbarrier_init(shared + plan.acc_empty_barrier(slot), 4);
    }
    fence_mbarrier_init();
  }
  if (warp == kMultiplyWarp) {
    tcgen05_alloc<1>(shared + plan.tmem_pointer_offset(), plan.tmem_columns());
    tcgen05_relinquish_alloc_permit<1>();
  }
  tcgen05_fence_before_thread_sync();
  bar_sync_all();
  tcgen05_fence_after_thread_sync();
  const u32 tmem = ld_shared_b32(shared + plan.tmem_pointer_offset());

  // -- load warp
  if (warp == kLoadWarp) {
    if (elect_sync()) {
      Ring<plan.stages> ring;
      prefetch_maps(args, find_tile(args, blockIdx.x).group);
      for (int number = blockIdx.x; number < args.tail.tiles; number += gridDim.x) {
        const Tile tile = find_tile(args, number);
        const int k_tiles = args.group[tile.group].k / plan.block_k;
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          wait(shared + plan.empty_barrier(ring.slot), ring.phase ^ 1);
          load_stage(args, tile, k_tile, shared, ring.slot);
        }
      }
      drain(ring, shared);
    }
    bar_warp_sync();  // bar.sync below wants whole warps
  }

  // -- multiply warp
  if (warp == kMultiplyWarp) {
    if (elect_sync()) {
      Ring<plan.stages> ring;
      Ring<plan.acc_slots> acc;
      ScaleRing scales;
      for (int number = blockIdx.x; number < args.tail.tiles; number += gridDim.x, acc.advance()) {
        const Tile tile = find_tile(args, number);
        const int k_tiles = args.group[tile.group].k / plan.block_k;
        wait(shared + plan.acc_empty_barrier(acc.slot), acc.phase ^ 1);
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          wait(shared + plan.full_barrier(ring.slot), ring.phase);
          const int scale_slot = scales.acquire(shared);
          tcgen05_fence_after_thread_sync();
          multiply_stage(shared, tmem, ring.slot, acc.slot, scale_slot, tile, k_tile > 0);
          tcgen05_commit<1>(shared + plan.empty_barrier(ring.slot));
        }
        tcgen05_commit<1>(shared + plan.acc_full_barrier(acc.slot));
      }
    }
    bar_warp_sync();
  }

  // -- epilogue: warps 0..3
  if (warp < 4) {
    Ring<plan.acc_slots> acc;
    for (int number = blockIdx.x; number < args.tail.tiles; number += gridDim.x, acc.advance()) {
      const Tile tile = find_tile(args, number);
      wait(shared + plan.acc_full_barrier(acc.slot), acc.phase);
      tcgen05_fence_after_thread_sync();
      store_tile(args.group[tile.group], tile, tmem, acc.slot);
      tcgen05_fence_before_thread_sync();  // this warp's loads of the accumulator are over: give it back
      bar_warp_sync();
      if (threadIdx.x % 32 == 0) mbarrier_arrive(shared + plan.acc_empty_barrier(acc.slot));
    }
  }

  // -- teardown
  bar_sync_all();
  if (warp == kMultiplyWarp) {
    tcgen05_fence_after_thread_sync();
    tcgen05_dealloc<1>(tmem, plan.tmem_columns());
  }
}
