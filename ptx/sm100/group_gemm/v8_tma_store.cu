// Group GEMM, C_g = A_g * B_g^T, NVFP4 in, fp16 out: epilogue through shared memory: TMA store, or stores of
// full sectors.
//
// Parent: v5_two_cta. The change: each epilogue warp turns 32 tokens x 32 columns of C round in a staging
// area, from which the TMA engine (epilogue=tma) or 32-byte stores (epilogue=staged) take them. It goes in by
// 2-byte stores, one for each value, which is what v11_wide_store mends.
//
//   tile   256 weights (left, MMA_M) x up to 128 tokens (right, MMA_N)
//   rows   even CTA: weights   0..127, tokens 0..n/2-1, C of weights   0..127
//          odd CTA:  weights 128..255, tokens n/2..n-1, C of weights 128..255
//   TMEM   | 0 accumulator 0 | 128 accumulator 1 | 256 scales, 7 slots |    480 of 512 columns
//   stage  16384 + 8192 codes + 2048 + 2048 scales = 28672 bytes, 7 stages (and 16 KiB of staging)
//
// Run: make run KERNEL=v8_tma_store
#include "sm100/parts/load_pair.cuh"
#include "sm100/parts/multiply.cuh"
#include "sm100/parts/pair.cuh"
#include "sm100/parts/staged.cuh"

using namespace fp4lab;
using namespace fp4lab::isa;

// -- limits: 256 x mma_n tiles, as many pairs as the launch gives, clusters of two
static_assert(plan.op == Op::kGroup && plan.swap && plan.cta_group == 2 && plan.roles == Roles::kSpecialized);
static_assert(plan.split_k == 1 && plan.schedule == Schedule::kStatic && plan.epilogue != Epilogue::kDirect);

// -- byte map: plan.*_offset(); TMEM map: plan.*_column()
// -- barriers: init_pair_barriers in parts/pair.cuh

extern "C" __global__ void __launch_bounds__(plan.threads(), 1)
    group_gemm_v8_tma_store(const __grid_constant__ Args args) {
  // -- setup
  extern __shared__ __align__(1024) u8 bytes[];
  const u32 shared = shared_address(bytes);
  const u32 warp = warp_index();
  const u32 rank = cluster_ctarank();
  const int pair = blockIdx.x / 2, pairs = gridDim.x / 2;
  const u32 tmem = start_pair(shared, warp);

  // -- load warp
  if (warp == kLoadWarp) {
    if (elect_sync()) {
      Ring<plan.stages> ring;
      prefetch_maps(args, find_tile(args, pair).group);
      for (int number = pair; number < args.tail.tiles; number += pairs) {
        const Tile tile = find_tile(args, number);
        const int k_tiles = args.group[tile.group].k / plan.block_k;
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          wait(shared + plan.empty_barrier(ring.slot), ring.phase ^ 1);
          load_stage_pair(args, tile, k_tile, shared, ring.slot, rank);
        }
      }
      drain(ring, shared);
    }
    bar_warp_sync();  // the cluster barrier below wants whole warps
  }

  // -- multiply warp of the even CTA, for both
  if (warp == kMultiplyWarp) {
    if (rank == 0 && elect_sync()) {
      Ring<plan.stages> ring;
      Ring<plan.acc_slots> acc;
      ScaleRing scales;
      for (int number = pair; number < args.tail.tiles; number += pairs, acc.advance()) {
        const Tile tile = find_tile(args, number);
        const int k_tiles = args.group[tile.group].k / plan.block_k;
        wait_cluster(shared + plan.acc_empty_barrier(acc.slot), acc.phase ^ 1);
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          wait(shared + plan.full_barrier(ring.slot), ring.phase);
          const int scale_slot = scales.acquire(shared);
          tcgen05_fence_after_thread_sync();
          multiply_stage(shared, tmem, ring.slot, acc.slot, scale_slot, tile, k_tile > 0);
          tcgen05_commit_multicast<2>(shared + plan.empty_barrier(ring.slot), 3);
        }
        tcgen05_commit_multicast<2>(shared + plan.acc_full_barrier(acc.slot), 3);
      }
    }
    bar_warp_sync();
  }

  // -- epilogue: warps 0..3 of both CTAs, each CTA its own 128 rows of the tile
  if (warp < 4) {
    Ring<plan.acc_slots> acc;
    int buffer = 0;
    for (int number = pair; number < args.tail.tiles; number += pairs, acc.advance()) {
      const Tile tile = find_tile(args, number);
      Tile own = tile;
      own.left += rank * plan.left_rows();
      wait(shared + plan.acc_full_barrier(acc.slot), acc.phase);
      tcgen05_fence_after_thread_sync();
      if constexpr (plan.epilogue == Epilogue::kTma)
        store_columns_tma(args, own, tmem, acc.slot, shared, buffer);
      else
        store_columns_staged(args.group[tile.group], own, tmem, acc.slot, shared);
      give_back_accumulator(shared, acc.slot);
    }
    if constexpr (plan.epilogue == Epilogue::kTma) finish_tma_stores();
  }

  // -- teardown
  leave_pair(warp, tmem);
}
