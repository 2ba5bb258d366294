// Group GEMM, C_g = A_g * B_g^T, NVFP4 in, fp16 out: split-K for the last groups only; the other tiles store
// directly.
//
// Parent: v12_lean_issue. The change: split-K where it evens out the last wave and nowhere else. The last
// `split_groups` groups of the launch have `split_k` parts for each tile; tiles of the others store directly.
// A part's sums go to the workspace as the fragments that 16x256b loads bring, and come back to the same
// lanes, so that split tiles leave by the wide store too.
//
//   tile   256 weights (left, MMA_M) x up to 128 tokens (right, MMA_N)
//   rows   even CTA: weights   0..127, tokens 0..n/2-1, C of weights   0..127
//          odd CTA:  weights 128..255, tokens n/2..n-1, C of weights 128..255
//   TMEM   | 0 accumulator 0 | 128 accumulator 1 | 256 scales, 7 slots |    480 of 512 columns
//   stage  16384 + 8192 codes + 2048 + 2048 scales = 28672 bytes, 7 stages (and 8 KiB of staging)
//
// Predicted, not measured: notes/experiments/024-tail-split.toml: 0.5 to 1 us less for g8k7168.
//
// Run: make run KERNEL=v14_tail_split
#include "sm100/parts/issue.cuh"
#include "sm100/parts/load_pair.cuh"
#include "sm100/parts/multiply.cuh"
#include "sm100/parts/pair.cuh"
#include "sm100/parts/tail_split.cuh"

using namespace fp4lab;
using namespace fp4lab::isa;

// -- limits: 256 x mma_n tiles, as many pairs as the launch gives, clusters of two
static_assert(plan.op == Op::kGroup && plan.swap && plan.cta_group == 2 && plan.roles == Roles::kSpecialized);
static_assert(plan.split_k >= 2 && plan.schedule == Schedule::kStatic &&
              plan.epilogue == Epilogue::kTransposed);

// -- byte map: plan.*_offset(); TMEM map: plan.*_column()
// -- barriers: init_pair_barriers in parts/pair.cuh

extern "C" __global__ void __launch_bounds__(plan.threads(), 1)
    group_gemm_v14_tail_split(const __grid_constant__ Args args) {
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
        const StageRange range = stage_range(args, tile);
        for (int k_tile = range.begin; k_tile < range.end; ++k_tile, ring.advance(), ++loaded) {
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
      for (int number = pair; number < args.tail.tiles; number += pairs, acc.advance()) {
        if (number != pair) tile = find_tile(args, number);
        const StageRange range = stage_range(args, tile);
        const u32 accumulator[] = {tmem + plan.acc_column(acc.slot, 0)};
        wait(shared + plan.acc_empty_barrier(acc.slot), acc.phase ^ 1);
        for (int k_tile = range.begin; k_tile < range.end; ++k_tile, ring.advance()) {
          wait(shared + plan.full_barrier(ring.slot), ring.phase);
          const int scale_slot = scales.acquire(shared);
          tcgen05_fence_after_thread_sync();
          issue_stage(shared, tmem, ring.slot, accumulator, scale_slot, tile, k_tile > range.begin);
          tcgen05_commit_multicast<2>(shared + plan.empty_barrier(ring.slot), 3);
        }
        tcgen05_commit_multicast<2>(shared + plan.acc_full_barrier(acc.slot), 3);
      }
      drain_accumulators(acc, shared);
    }
    bar_warp_sync();
  }

  // -- epilogue: warps 0..3 of both CTAs, each CTA its own 128 rows of the tile
  if (warp < 4) {
    if constexpr (plan.pdl) griddepcontrol_wait();  // nobody reads the old C any more
    Ring<plan.acc_slots> acc;
    for (int number = pair; number < args.tail.tiles; number += pairs, acc.advance()) {
      if (number != pair) tile = find_tile(args, number);
      Tile own = tile;
      own.left += rank * plan.left_rows();
      wait(shared + plan.acc_full_barrier(acc.slot), acc.phase);
      tcgen05_fence_after_thread_sync();
      const GroupArgs& g = args.group[tile.group];
      const u32 accumulator = tmem + plan.acc_column(acc.slot, 0);
      if (g.parts == 1) {
        store_columns_wide(g, own, accumulator, shared, [&] { hand_back_accumulator(shared, acc.slot); });
        continue;
      }
      const PartialSums sums(args, tile, number, rank);
      const bool inside = own.left < g.left_rows;  // the odd CTA's half of the last tile may be all padding
      if (inside) leave_fragments(sums, tile.part, accumulator, 0, tile.n);
      hand_back_accumulator(shared, acc.slot);
      if (inside && sums.arrive_last(shared)) store_sums_wide(sums, g, own, shared);
    }
  }

  // -- teardown
  leave_pair_relaxed(warp, tmem);
}
