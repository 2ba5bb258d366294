// Dual GEMM, C = silu(A * B1^T) * (A * B2^T), NVFP4 in, fp16 out: multistage pipeline, warp specialisation.
//
// Parent: v0_baseline. The change: a ring of stages, a warp that loads, a warp that multiplies, four that
// store.
//
//   tile   128 tokens (left, MMA_M) x 64 of B1 and the same 64 of B2 (right, MMA_N)
//   rows   one CTA holds all of the three
//   TMEM   | 0 A*B1 | 64 A*B2 | 128 scales of stage 0 | .. | 320 of stage 4 |  368 of 512 columns
//   stage  16384 + 2 x 8192 codes + 2048 + 2 x 2048 scales = 38912 bytes, 5 stages
//
// Run: make run OP=dual KERNEL=v1_warp_specialized
#include "isa/fence.cuh"
#include "sm100/parts/epilogue.cuh"
#include "sm100/parts/load.cuh"
#include "sm100/parts/multiply.cuh"

using namespace fp4lab;
using namespace fp4lab::isa;

// -- limits: one CTA per 128 x mma_n tile
static_assert(plan.op == Op::kDual && !plan.swap && plan.cta_group == 1 && plan.roles == Roles::kSpecialized);
static_assert(plan.acc_slots == 1 && plan.split_k == 1 && plan.schedule == Schedule::kTilePerCta);
static_assert(plan.epilogue == Epilogue::kDirect);
static_assert(plan.scale_slots == plan.stages,
              "a stage's scales live in their own TMEM columns as long as the stage");

// -- byte map: plan.*_offset(); TMEM map: plan.*_column()
// -- barriers: full[stages] (1 arrival + bytes: TMA), empty[stages] (1: commit of the stage), acc_full (1)

extern "C" __global__ void __launch_bounds__(plan.threads(), 1)
    dual_gemm_v1_warp_specialized(const __grid_constant__ Args args) {
  // -- setup
  extern __shared__ __align__(1024) u8 bytes[];
  const u32 shared = shared_address(bytes);
  const u32 warp = warp_index();
  const Tile tile = find_tile(args, blockIdx.x);
  const GroupArgs& g = args.group[tile.group];
  const int k_tiles = g.k / plan.block_k;

  if (threadIdx.x == 0) {
    for (int s = 0; s < plan.stages; ++s) {
      mbarrier_init(shared + plan.full_barrier(s), 1);
      mbarrier_init(shared + plan.empty_barrier(s), 1);
    }
    mbarrier_init(shared + plan.acc_full_barrier(0), 1);
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
      prefetch_maps(args, tile.group);
      Ring<plan.stages> ring;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
        wait(shared + plan.empty_barrier(ring.slot), ring.phase ^ 1);
        load_stage(args, tile, k_tile, shared, ring.slot);
      }
      drain(ring, shared);
    }
    bar_warp_sync();  // bar.sync below wants whole warps
  }

  // -- multiply warp
  if (warp == kMultiplyWarp) {
    if (elect_sync()) {
      Ring<plan.stages> ring;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
        wait(shared + plan.full_barrier(ring.slot), ring.phase);
        tcgen05_fence_after_thread_sync();
        multiply_stage(shared, tmem, ring.slot, 0, ring.slot, tile, k_tile > 0);
        tcgen05_commit<1>(shared + plan.empty_barrier(ring.slot));
      }
      tcgen05_commit<1>(shared + plan.acc_full_barrier(0));
    }
    bar_warp_sync();
  }

  // -- epilogue: warps 0..3
  if (warp < 4) {
    wait(shared + plan.acc_full_barrier(0), 0);
    tcgen05_fence_after_thread_sync();
    store_rows(g, tile, tmem, 0);
    tcgen05_fence_before_thread_sync();
  }

  // -- teardown
  bar_sync_all();
  if (warp == kMultiplyWarp) {
    tcgen05_fence_after_thread_sync();
    tcgen05_dealloc<1>(tmem, plan.tmem_columns());
  }
}
