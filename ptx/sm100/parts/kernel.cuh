// What every Blackwell kernel starts from: the plan it was compiled for, its arguments, waits and the stage
// ring.
#pragma once
#include "fp4lab/kernel_args.h"
#include "fp4lab/plan.h"
#include "isa/mbarrier.cuh"
#include "isa/warp.cuh"

#ifndef FP4LAB_PLAN
#error "compile with -DFP4LAB_PLAN={.mma_m=128,...}: the plan as a designated initialiser"
#endif

namespace fp4lab {

constexpr Plan plan FP4LAB_PLAN;

using Args = GemmArgs<plan.group_capacity, plan.map_count(), plan.map_groups()>;
static_assert(sizeof(Args) == plan.args_bytes(), "host and kernel disagree about the argument struct");
static_assert(sizeof(Args) <= 32764, "kernel parameters end at 32764 bytes (CUDA 12.1 and later)");

// NVFP4's instruction shapes (PTX ISA 9.7.16.2.1) and the machine's limits; the host says the same with more
// words.
static_assert(plan.cta_group == 1 ? plan.mma_m == 128 : plan.cta_group == 2 && plan.mma_m == 256);
static_assert(plan.mma_n % (8 * plan.cta_group) == 0 && plan.mma_n >= 8 * plan.cta_group &&
              plan.mma_n <= 256);
static_assert(plan.block_k % 256 == 0, "one 128-byte swizzle atom holds K = 256");
static_assert(plan.shared_bytes() <= 232448, "227 KiB of shared memory per CTA");
static_assert(plan.tmem_columns() <= 512, "TMEM has 512 columns");

// Roles by warp. The epilogue has warps 0..3: TMEM lanes 32w..32w+31 belong to the warps whose id is w
// modulo 4.
enum WarpRole : u32 { kLoadWarp = 4, kMultiplyWarp = 5 };

// The shuffle tells the compiler that all lanes agree: branches on it are uniform, and what the tensor core
// takes from uniform registers gets there without detours.
__device__ __forceinline__ u32 warp_index() { return isa::shfl_sync_idx(threadIdx.x / 32, 0); }

__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
  while (!isa::mbarrier_try_wait_parity(barrier, parity)) {
  }
}
// For barriers on which threads of other CTAs arrive.
__device__ __forceinline__ void wait_cluster(u32 barrier, u32 parity) {
  while (!isa::mbarrier_try_wait_parity_cluster(barrier, parity)) {
  }
}

// Position in a ring of `slots` buffers. The consumer waits for `phase` on "full" barriers, the producer for
// `phase ^ 1` on "empty" ones: on a fresh barrier that passes at once, so the first round needs no special
// case.
template <int slots>
struct Ring {
  int slot = 0;
  u32 phase = 0;
  __device__ __forceinline__ void advance() {
    if (++slot == slots) {
      slot = 0;
      phase ^= 1;
    }
  }
};

// The generic address of a group's tensor map: inside the parameter struct, or this CTA's own copy in the
// workspace.
__device__ __forceinline__ const TensorMap* tensor_map(const Args& args, int group, Map map) {
  if constexpr (plan.maps == Maps::kReplaced) {
    TensorMap* const own = reinterpret_cast<TensorMap*>(args.tail.workspace) +
                           static_cast<u64>(blockIdx.x) * plan.group_capacity * plan.map_count();
    return own + group * plan.map_count() + plan.map_index(map);
  } else {
    return &args.maps[group][plan.map_index(map)];
  }
}

}  // namespace fp4lab
