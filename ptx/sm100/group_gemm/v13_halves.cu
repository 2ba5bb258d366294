// Group GEMM, C_g = A_g * B_g^T, NVFP4 in, fp16 out: two token tiles share each weight tile.
//
// Parent: v12_lean_issue. The change: a tile is 256 tokens wide, as two MMAs of N = 128 for each K = 64 that
// read the same weights: loaded once, and kept in the tensor core's buffer between the two (collector). Each
// half has an accumulator of its own out of a ring of three, so that the next tile starts when the first half
// is stored.
//
//   tile   256 weights (left, MMA_M) x up to 2 x 128 tokens (right, MMA_N)
//   rows   even CTA: weights   0..127, of each half's n tokens 0..n/2-1, C of weights   0..127
//          odd CTA:  weights 128..255, of each half's n tokens n/2..n-1, C of weights 128..255
//   TMEM   | 0 accumulator 0 | 128 1 | 256 2 | 384 scales, 2 slots of 48 |  480 of 512 columns
//   stage  16384 + 2 x 8192 codes + 2048 + 2 x 2048 scales = 38912 bytes, 5 stages (and 8 KiB of staging)
//
// Predicted, not measured: notes/experiments/023-halves.toml: 0.9 us less for g8k2048, up to 0.5 us for
// g8k7168; a loss where one wave is not full.
//
// Run: make run KERNEL=v13_halves
#include "sm100/parts/issue.cuh"
#include "sm100/parts/load_pair.cuh"
#include "sm100/parts/multiply.cuh"
#include "sm100/parts/pair.cuh"
#include "sm100/parts/wide_store.cuh"

using namespace fp4lab;
using namespace fp4lab::isa;

// -- limits: 256 x mma_n tiles, as many pairs as the launch gives, clusters of two
static_assert(plan.op == Op::kGroup && plan.swap && plan.cta_group == 2 && plan.roles == Roles::kSpecialized);
static_assert(plan.halves == 2 && plan.split_k == 1 && plan.schedule == Schedule::kStatic &&
              plan.epilogue == Epilogue::kTransposed);

// -- byte map: plan.*_offset(); TMEM map: plan.*_column()
// -- barriers: init_pair_barriers in parts/pair.cuh

extern "C" __global__ void __launch_bounds__(plan.threads(), 1)
    group_gemm_v13_halves(const __grid_constant__ Args args) {
  // -- setup: loads start as soon as both CTAs have their barriers; the first tile is found, and its maps are
  // fetched, while the barrier is under way; TMEM is allocated while the first stages are
  extern __shared__ __align__(1024) u8 bytes[];
  const u32 shared = shared_address(bytes);
  const u32 warp = warp_index();
  const u32 rank = cluster_ctarank();
  const int pair = blockIdx.x / 2, pairs = gridDim.x / 2;
  if (threadIdx.x == 0) init_pair_barriers(shared);
  if constexpr (plan.pdl) griddepcontrol_launch_dependents();  // the next kernel may set up
  barrier_cluster_arrive_relaxed();
  Tile tile = find_tile(args, pair);
  if (threadIdx.x == 32) prefetch_maps(args, tile.group);
  barrier_cluster_wait();
  u32 tmem = 0;
  if (warp != kLoadWarp) tmem = start_tmem(shared, warp);

  // -- load warp
  if (warp == kLoadWarp) {
    if (elect_sync()) {
      if constexpr (plan.pdl) griddepcontrol_wait();  // what the kernel before wrote is there
      Ring<plan.stages> ring;
      int loaded = 0;  // the first round of the ring needs no empty barriers
      for (int number = pair; number < args.tail.tiles; number += pairs) {
        if (number != pair) tile = find_tile(args, number);
        const int k_tiles = args.group[tile.group].k / plan.block_k;
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance(), ++loaded) {
          if (loaded >= plan.stages) wait(shared + plan.empty_barrier(ring.slot), ring.phase ^ 1);
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
      for (int number = pair; number < args.tail.tiles; number += pairs) {
        if (number != pair) tile = find_tile(args, number);
        const int k_tiles = args.group[tile.group].k / plan.block_k;
        const bool both = tile.n > plan.mma_n;
        const int first = next_accumulator(acc, shared);
        const int second = both ? next_accumulator(acc, shared) : first;
        const u32 two[] = {tmem + plan.acc_column(first, 0), tmem + plan.acc_column(second, 0)};
        const u32 one[] = {two[0]};
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          wait(shared + plan.full_barrier(ring.slot), ring.phase);
          const int scale_slot = scales.acquire(shared);
          tcgen05_fence_after_thread_sync();
          if (both)
            issue_stage(shared, tmem, ring.slot, two, scale_slot, tile, k_tile > 0);
          else
            issue_stage(shared, tmem, ring.slot, one, scale_slot, tile, k_tile > 0);
          tcgen05_commit_multicast<2>(shared + plan.empty_barrier(ring.slot), 3);
        }
        tcgen05_commit_multicast<2>(shared + plan.acc_full_barrier(first), 3);
        if (both) tcgen05_commit_multicast<2>(shared + plan.acc_full_barrier(second), 3);
      }
      drain_accumulators(acc, shared);
    }
    bar_warp_sync();
  }

  // -- epilogue: warps 0..3 of both CTAs, each CTA its own 128 rows of the tile, one half after the other
  if (warp < 4) {
    if constexpr (plan.pdl) griddepcontrol_wait();  // nobody reads the old C any more
    Ring<plan.acc_slots> acc;
    for (int number = pair; number < args.tail.tiles; number += pairs) {
      if (number != pair) tile = find_tile(args, number);
#pragma unroll 1
      for (int half = 0; half * plan.mma_n < tile.n; ++half, acc.advance()) {
        Tile own = tile;
        own.left += rank * plan.left_rows();
        own.right += plan.right_start(half);
        own.n = plan.right_n(tile.n, half);
        wait(shared + plan.acc_full_barrier(acc.slot), acc.phase);
        tcgen05_fence_after_thread_sync();
        store_columns_wide(args.group[tile.group], own, tmem + plan.acc_column(acc.slot, 0), shared,
                           [&] { hand_back_accumulator(shared, acc.slot); });
      }
    }
  }

  // -- teardown
  leave_pair_relaxed(warp, tmem);
}
