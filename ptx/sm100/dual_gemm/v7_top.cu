// Dual GEMM, C = silu(A * B1^T) * (A * B2^T), NVFP4 in, fp16 out: the first product's MMAs of the last
// stages come first: its silu overlaps the second product's.
//
// Parent: v6_lean_issue. The change: the order of MMAs in the last `late_stages` stages of a tile: all of the
// first product, its commit, then all of the second. The epilogue computes silu of the first into registers
// meanwhile. The stages stay in the ring until the second product has read them.
//
//   tile   256 tokens (left, MMA_M) x 64 of B1 and the same 64 of B2 (right, MMA_N)
//   rows   even CTA: tokens   0..127, B1 and B2  0..31, C of tokens   0..127
//          odd CTA:  tokens 128..255, B1 and B2 32..63, C of tokens 128..255
//   TMEM   | 0 A*B1 | 64 A*B2 | 128 scales, 7 slots |                       464 of 512 columns
//   stage  16384 + 2 x 4096 codes + 2048 + 2 x 2048 scales = 30720 bytes, 7 stages (of each CTA)
//
// Predicted, not measured: notes/experiments/028-dual-product-order.toml: 174 cycles less with M = 256, 1024
// with M = 512.
//
// Run: make run OP=dual KERNEL=v7_top
#include "sm100/parts/dual_store.cuh"
#include "sm100/parts/issue.cuh"
#include "sm100/parts/load_pair.cuh"
#include "sm100/parts/multiply.cuh"
#include "sm100/parts/pair.cuh"

using namespace fp4lab;
using namespace fp4lab::isa;

// -- limits: 256 x mma_n tiles, as many pairs as the launch gives, clusters of two
static_assert(plan.op == Op::kDual && !plan.swap && plan.cta_group == 2 && plan.roles == Roles::kSpecialized);
static_assert(plan.split_k == 1 && plan.schedule == Schedule::kStatic && plan.epilogue == Epilogue::kDirect);
static_assert(plan.late_stages >= 1 && plan.late_stages <= plan.stages && plan.scale_slots == plan.stages,
              "late stages stay in the ring, with their scales");

// -- byte map: plan.*_offset(); TMEM map: plan.*_column()
// -- barriers: init_pair_barriers in parts/pair.cuh

extern "C" __global__ void __launch_bounds__(plan.threads(), 1)
    dual_gemm_v7_top(const __grid_constant__ Args args) {
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
      for (int number = pair; number < args.tail.tiles; number += pairs, acc.advance()) {
        if (number != pair) tile = find_tile(args, number);
        const int k_tiles = args.group[tile.group].k / plan.block_k;
        const u32 accumulators[] = {tmem + plan.acc_column(acc.slot, 0), tmem + plan.acc_column(acc.slot, 1)};
        wait(shared + plan.acc_empty_barrier(acc.slot), acc.phase ^ 1);
        const int early = max(0, k_tiles - plan.late_stages);
        for (int k_tile = 0; k_tile < early; ++k_tile, ring.advance()) {
          wait(shared + plan.full_barrier(ring.slot), ring.phase);
          tcgen05_fence_after_thread_sync();
          issue_stage(shared, tmem, ring.slot, accumulators, ring.slot, tile, k_tile > 0);
          tcgen05_commit_multicast<2>(shared + plan.empty_barrier(ring.slot), 3);
        }
        Ring<plan.stages> again = ring;
        for (int k_tile = early; k_tile < k_tiles; ++k_tile, ring.advance()) {
          wait(shared + plan.full_barrier(ring.slot), ring.phase);
          tcgen05_fence_after_thread_sync();
          issue_product<0>(shared, tmem, ring.slot, accumulators[0], tile, k_tile > 0);
        }
        tcgen05_commit_multicast<2>(shared + plan.acc_full_barrier(acc.slot, 0), 3);
        for (int k_tile = early; k_tile < k_tiles; ++k_tile, again.advance()) {
          issue_product<1>(shared, tmem, again.slot, accumulators[1], tile, k_tile > 0);
          tcgen05_commit_multicast<2>(shared + plan.empty_barrier(again.slot), 3);
        }
        tcgen05_commit_multicast<2>(shared + plan.acc_full_barrier(acc.slot, 1), 3);
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
      wait(shared + plan.acc_full_barrier(acc.slot, 0), acc.phase);
      tcgen05_fence_after_thread_sync();
      store_dual_in_order(
          args.group[tile.group], own, tmem, acc.slot,
          [&] {
            wait(shared + plan.acc_full_barrier(acc.slot, 1), acc.phase);
            tcgen05_fence_after_thread_sync();
          },
          [&] { hand_back_accumulator(shared, acc.slot); });
    }
  }

  // -- teardown
  leave_pair_relaxed(warp, tmem);
}
