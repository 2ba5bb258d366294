// Group GEMM, C_g = A_g * B_g^T, NVFP4 in, fp16 out: what pays, together; a cost model picks the plan.
//
// Parent: v7_split_k. The change: each earlier idea is a knob of the plan, and a cost model picks the plan
// for the sizes (tokens per tile, parts of K, accumulators, how C leaves). Loads begin as soon as the
// barriers exist: TMEM is allocated while the first stages are on their way. The first round of the ring is
// loaded without looking at empty barriers.
//
//   tile   256 weights (left, MMA_M) x up to 128 tokens (right, MMA_N)
//   rows   even CTA: weights   0..127, tokens 0..n/2-1, C of weights   0..127
//          odd CTA:  weights 128..255, tokens n/2..n-1, C of weights 128..255
//   TMEM   | 0 accumulator 0 | 128 accumulator 1 | 256 scales, 8 slots |    512 of 512 columns
//   stage  16384 + 8192 codes + 2048 + 2048 scales = 28672 bytes, 8 stages (of each CTA)
//   plan   mma_n=128 acc_slots=2 split_k=1 stages=8 scale_slots=8
//
// Run: make run KERNEL=v15_top
#include "sm100/parts/load_pair.cuh"
#include "sm100/parts/multiply.cuh"
#include "sm100/parts/pair.cuh"
#include "sm100/parts/split_k.cuh"
#include "sm100/parts/staged.cuh"

using namespace fp4lab;
using namespace fp4lab::isa;

// -- limits: 256 x mma_n tiles, as many pairs as the launch gives, clusters of two
static_assert(plan.op == Op::kGroup && plan.swap && plan.cta_group == 2 && plan.roles == Roles::kSpecialized);
static_assert(plan.schedule == Schedule::kStatic &&
              (plan.split_k == 1 || plan.epilogue == Epilogue::kDirect));

// -- byte map: plan.*_offset(); TMEM map: plan.*_column()
// -- barriers: init_pair_barriers in parts/pair.cuh

extern "C" __global__ void __launch_bounds__(plan.threads(), 1)
    group_gemm_v15_top(const __grid_constant__ Args args) {
  // -- setup
  extern __shared__ __align__(1024) u8 bytes[];
  const u32 shared = shared_address(bytes);
  const u32 warp = warp_index();
  const u32 rank = cluster_ctarank();
  const int pair = blockIdx.x / 2, pairs = gridDim.x / 2;

  if (threadIdx.x == 0) init_pair_barriers(shared);
  if constexpr (plan.pdl) {
    griddepcontrol_launch_dependents();  // the next kernel may set up as soon as SMs are free
    griddepcontrol_wait();               // what the kernel before wrote (inputs, workspace) is there
  }
  meet_peer();  // the barriers of both CTAs exist: enough for loads to start

  // -- load warp
  if (warp == kLoadWarp) {
    barrier_cluster_arrive();  // it needs no TMEM: what the others wait for below it only takes part in
    if (elect_sync()) {
      Ring<plan.stages> ring;
      prefetch_maps(args, find_tile(args, pair).group);
      int loaded = 0;
      for (int number = pair; number < args.tail.tiles; number += pairs) {
        const Tile tile = find_tile(args, number);
        const StageRange range = stage_range(args, tile);
        for (int k_tile = range.begin; k_tile < range.end; ++k_tile, ring.advance(), ++loaded) {
          if (loaded >= plan.stages) wait(shared + plan.empty_barrier(ring.slot), ring.phase ^ 1);
          load_stage_pair(args, tile, k_tile, shared, ring.slot, rank);
        }
      }
      drain(ring, shared);
    }
    bar_warp_sync();  // the cluster barriers below want whole warps
    barrier_cluster_wait();
  } else {
    if (warp == kMultiplyWarp) allocate_tmem(shared);
    tcgen05_fence_before_thread_sync();
    barrier_cluster_arrive();  // TMEM of both CTAs is allocated
    barrier_cluster_wait();
    tcgen05_fence_after_thread_sync();
  }
  const u32 tmem = ld_shared_b32(shared + plan.tmem_pointer_offset());

  // -- multiply warp of the even CTA, for both
  if (warp == kMultiplyWarp) {
    if (rank == 0 && elect_sync()) {
      Ring<plan.stages> ring;
      Ring<plan.acc_slots> acc;
      ScaleRing scales;
      for (int number = pair; number < args.tail.tiles; number += pairs, acc.advance()) {
        const Tile tile = find_tile(args, number);
        const StageRange range = stage_range(args, tile);
        wait_cluster(shared + plan.acc_empty_barrier(acc.slot), acc.phase ^ 1);
        for (int k_tile = range.begin; k_tile < range.end; ++k_tile, ring.advance()) {
          wait(shared + plan.full_barrier(ring.slot), ring.phase);
          const int scale_slot = scales.acquire(shared);
          tcgen05_fence_after_thread_sync();
          multiply_stage(shared, tmem, ring.slot, acc.slot, scale_slot, tile, k_tile > range.begin);
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
      const GroupArgs& g = args.group[tile.group];
      if constexpr (plan.split_k > 1) {
        const PartialSums sums(args, tile, number, rank);
        const bool inside = own.left < g.left_rows;  // the odd CTA's half of the last tile may be all padding
        if (inside) leave_part(sums, own, tmem, acc.slot);
        give_back_accumulator(shared, acc.slot);
        if (inside && sums.arrive_last(shared))
          store_sums(sums, g, own);
      } else {
        if constexpr (plan.epilogue == Epilogue::kTma)
          store_columns_tma(args, own, tmem, acc.slot, shared, buffer);
        else if constexpr (plan.epilogue == Epilogue::kStaged)
          store_columns_staged(g, own, tmem, acc.slot, shared);
        else
          store_tile(g, own, tmem, acc.slot);
        give_back_accumulator(shared, acc.slot);
      }
    }
    if constexpr (plan.epilogue == Epilogue::kTma) finish_tma_stores();
  }

  // -- teardown
  leave_pair(warp, tmem);
}
