// Dual GEMM, C = silu(A * B1^T) * (A * B2^T), NVFP4 in, fp16 out: 2-CTA MMA (cta_group::2, M = 256): each
// CTA loads half of both B tiles.
//
// Parent: v2_persistent. The change: cta_group::2. A pair of CTAs holds 256 tokens, 128 each, and half of the
// B1 and B2 rows each; every MMA reads both shared memories, so each byte of B is loaded once for twice the
// work. The even CTA multiplies; both load, both store.
//
//   tile   256 tokens (left, MMA_M) x 64 of B1 and the same 64 of B2 (right, MMA_N)
//   rows   even CTA: tokens   0..127, B1 and B2  0..31, C of tokens   0..127
//          odd CTA:  tokens 128..255, B1 and B2 32..63, C of tokens 128..255
//   TMEM   | 0 A*B1 | 64 A*B2 | 128 scales, 7 slots |                       464 of 512 columns
//   stage  16384 + 2 x 4096 codes + 2048 + 2 x 2048 scales = 30720 bytes, 7 stages (of each CTA)
//
// Run: make run OP=dual KERNEL=v3_two_cta
#include "sm100/parts/epilogue.cuh"
#include "sm100/parts/load_pair.cuh"
#include "sm100/parts/multiply.cuh"
#include "sm100/parts/pair.cuh"

using namespace fp4lab;
using namespace fp4lab::isa;

// -- limits: 256 x mma_n tiles, as many pairs as the launch gives, clusters of two
static_assert(plan.op == Op::kDual && !plan.swap && plan.cta_group == 2 && plan.roles == Roles::kSpecialized);
static_assert(plan.split_k == 1 && plan.schedule == Schedule::kStatic && plan.epilogue == Epilogue::kDirect);

// -- byte map: plan.*_offset(); TMEM map: plan.*_column()
// -- barriers: init_pair_barriers in parts/pair.cuh

extern "C" __global__ void __launch_bounds__(plan.threads(), 1)
    dual_gemm_v3_two_cta(const __grid_constant__ Args args) {
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
    for (int number = pair; number < args.tail.tiles; number += pairs, acc.advance()) {
      const Tile tile = find_tile(args, number);
      Tile own = tile;
      own.left += rank * plan.left_rows();
      wait(shared + plan.acc_full_barrier(acc.slot), acc.phase);
      tcgen05_fence_after_thread_sync();
      store_tile(args.group[tile.group], own, tmem, acc.slot);
      give_back_accumulator(shared, acc.slot);
    }
  }

  // -- teardown
  leave_pair(warp, tmem);
}
