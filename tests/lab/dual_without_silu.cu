// Wrong on purpose: C = A * B1^T under the dual GEMM's name. In round 3 of the contest such a kernel was
// timed for two rounds before anybody compared its output with silu(A * B1^T) * (A * B2^T). The checker must
// not let it pass.
#include "isa/fence.cuh"
#include "sm100/parts/epilogue.cuh"
#include "sm100/parts/load.cuh"
#include "sm100/parts/multiply.cuh"

using namespace fp4lab;
using namespace fp4lab::isa;

// -- limits: one CTA per 128 x mma_n tile, one of everything
static_assert(plan.op == Op::kDual && !plan.swap && plan.cta_group == 1 && plan.roles == Roles::kOneWarp);
static_assert(plan.stages == 1 && plan.acc_slots == 1 && plan.scale_slots == 1 && plan.split_k == 1);
static_assert(plan.schedule == Schedule::kTilePerCta && plan.epilogue == Epilogue::kDirect);

// -- byte map: plan.*_offset(); TMEM map: plan.*_column()
// -- barriers: full (1 arrival + bytes: TMA), empty (1: commit of the stage), acc_full (1)

__device__ __forceinline__ void store_first_product_only(const GroupArgs& g, const Tile& tile, u32 tmem) {
  const int row = tile.left + threadIdx.x % 128;
  if (tile.left + static_cast<int>(threadIdx.x % 128 / 32 * 32) >= g.left_rows) return;
  u16* const out = reinterpret_cast<u16*>(g.c) + static_cast<u64>(row) * g.c_columns + tile.right;
  for (int c = 0; c < plan.mma_n; c += 8) {
    u32 v[8];
    tcgen05_ld_32x32b(tmem + (threadIdx.x / 32 % 4 * 32 << 16) + plan.acc_column(0, 0) + c, v);
    tcgen05_wait_ld(v);
    for (int i = 0; i < 8; ++i)
      if (row < g.left_rows) out[c + i] = cvt_rn_f16_f32(__uint_as_float(v[i]));
  }
}

extern "C" __global__ void __launch_bounds__(plan.threads(), 1)
    dual_gemm_v0_baseline(const __grid_constant__ Args args) {
  // -- setup
  extern __shared__ __align__(1024) u8 bytes[];
  const u32 shared = shared_address(bytes);
  const u32 warp = warp_index();
  const Tile tile = find_tile(args, blockIdx.x);
  const GroupArgs& g = args.group[tile.group];

  if (threadIdx.x == 32) {  // not in the warp that allocates: alloc wants its warp converged
    mbarrier_init(shared + plan.full_barrier(0), 1);
    mbarrier_init(shared + plan.empty_barrier(0), 1);
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

  // -- warp 0: load, multiply, wait, repeat
  if (warp == 0) {
    if (elect_sync()) {
      u32 phase = 0;
      for (int k_tile = 0; k_tile < g.k / plan.block_k; ++k_tile, phase ^= 1) {
        load_stage(args, tile, k_tile, shared, 0);
        wait(shared + plan.full_barrier(0), phase);
        tcgen05_fence_after_thread_sync();
        multiply_stage(shared, tmem, 0, 0, 0, tile, k_tile > 0);
        tcgen05_commit<1>(shared + plan.empty_barrier(0));
        wait(shared + plan.empty_barrier(0), phase);  // the MMAs have read the stage and its scales
      }
      tcgen05_commit<1>(shared + plan.acc_full_barrier(0));
    }
    bar_warp_sync();  // the other 31 lanes would only spin beside the one that works
  }

  // -- epilogue: all four warps
  wait(shared + plan.acc_full_barrier(0), 0);
  tcgen05_fence_after_thread_sync();
  store_first_product_only(g, tile, tmem);

  // -- teardown
  tcgen05_fence_before_thread_sync();
  bar_sync_all();
  if (warp == 0) {
    tcgen05_fence_after_thread_sync();
    tcgen05_dealloc<1>(tmem, plan.tmem_columns());
  }
}
