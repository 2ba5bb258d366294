// Group GEMM, C_g = A_g * B_g^T, NVFP4 in, fp16 out: multistage pipeline: TMA runs ahead of the MMAs.
//
// Parent: v0_baseline. The change: the working warp loads `stages - 1` stages ahead of the one that it
// multiplies, so that memory works while the tensor core does.
//
//   tile   128 tokens (left, MMA_M) x 128 weights (right, MMA_N)
//   rows   one CTA holds all of both
//   TMEM   | 0 accumulator | 128 scales of stage 0 | .. | 224 of stage 3 |  256 of 256 columns
//   stage  16384 + 16384 codes + 2048 + 2048 scales = 36864 bytes, 4 stages
//
// Run: make run KERNEL=v1_pipeline
#include "isa/fence.cuh"
#include "sm100/parts/epilogue.cuh"
#include "sm100/parts/load.cuh"
#include "sm100/parts/multiply.cuh"

using namespace fp4lab;
using namespace fp4lab::isa;

// -- limits: one CTA per 128 x mma_n tile
static_assert(plan.op == Op::kGroup && !plan.swap && plan.cta_group == 1 && plan.roles == Roles::kOneWarp);
static_assert(plan.stages >= 2, "the stage that is refilled is not the one that is multiplied");
static_assert(plan.scale_slots == plan.stages,
              "a stage's scales live in their own TMEM columns as long as the stage");
static_assert(plan.acc_slots == 1 && plan.split_k == 1);
static_assert(plan.schedule == Schedule::kTilePerCta && plan.epilogue == Epilogue::kDirect);

// -- byte map: plan.*_offset(); TMEM map: plan.*_column()
// -- barriers: full (1 arrival + bytes: TMA), empty (1: commit of the stage), acc_full (1)

extern "C" __global__ void __launch_bounds__(plan.threads(), 1)
    group_gemm_v1_pipeline(const __grid_constant__ Args args) {
  // -- setup
  extern __shared__ __align__(1024) u8 bytes[];
  const u32 shared = shared_address(bytes);
  const u32 warp = warp_index();
  const Tile tile = find_tile(args, blockIdx.x);
  const GroupArgs& g = args.group[tile.group];

  if (threadIdx.x == 32) {  // not in the warp that allocates: alloc wants its warp converged
    for (int s = 0; s < plan.stages; ++s) {
      mbarrier_init(shared + plan.full_barrier(s), 1);
      mbarrier_init(shared + plan.empty_barrier(s), 1);
    }
    mbarrier_init(shared + plan.acc_full_barrier(0), 1);
    fence_mbarrier_init();
  }
  if (warp == 0) {
    tcgen05_alloc<1>(shared + plan.tmem_pointer_offset(), plan.tmem_columns());
    tcgen05_relinquish_alloc_permit<1>();
  }
  tcgen05_fence_before_thread_sync();
  bar_sync_all();
  tcgen05_fence_after_thread_sync();
  const u32 tmem = ld_shared_b32(shared + plan.tmem_pointer_offset());

  // -- warp 0: fill the ring, then multiply one stage and refill the one before
  if (warp == 0) {
    if (elect_sync()) {
      const int k_tiles = g.k / plan.block_k;
      for (int k_tile = 0; k_tile < min(k_tiles, plan.stages); ++k_tile)
        load_stage(args, tile, k_tile, shared, k_tile);
      Ring<plan.stages> ring, refill;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
        wait(shared + plan.full_barrier(ring.slot), ring.phase);
        tcgen05_fence_after_thread_sync();
        multiply_stage(shared, tmem, ring.slot, 0, ring.slot, tile, k_tile > 0);
        tcgen05_commit<1>(shared + plan.empty_barrier(ring.slot));
        if (k_tile > 0) {
          const int next = k_tile - 1 + plan.stages;
          if (next < k_tiles) {
            wait(shared + plan.empty_barrier(refill.slot), refill.phase);
            load_stage(args, tile, next, shared, refill.slot);
          }
          refill.advance();
        }
      }
      tcgen05_commit<1>(shared + plan.acc_full_barrier(0));
      drain(ring, shared);
    }
    bar_warp_sync();  // the other 31 lanes would only spin beside the one that works
  }

  // -- epilogue: all four warps
  wait(shared + plan.acc_full_barrier(0), 0);
  tcgen05_fence_after_thread_sync();
  store_rows(g, tile, tmem, 0);

  // -- teardown
  tcgen05_fence_before_thread_sync();
  bar_sync_all();
  if (warp == 0) {
    tcgen05_fence_after_thread_sync();
    tcgen05_dealloc<1>(tmem, plan.tmem_columns());
  }
}
