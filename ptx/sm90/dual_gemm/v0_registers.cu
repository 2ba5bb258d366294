// Dual GEMM: C = silu(A * B1^T) * (A * B2^T), NVFP4 in, fp16 out. The kernel is ../kernel.cuh; the packed
// weights interleave B1 and B2 so that one thread holds both sums of an element.
#include "sm90/kernel.cuh"
#include "sm90/repack.cuh"

extern "C" __global__ void __launch_bounds__(128 * (1 + FP4LAB_WARPGROUPS), 1)
    dual_gemm_v0_registers(const __grid_constant__ fp4lab::sm90::Params p) {
  fp4lab::sm90::gemm<
      fp4lab::sm90::Config<FP4LAB_MAX_TILE, FP4LAB_WARPGROUPS, FP4LAB_STAGES, FP4LAB_LOCAL, true>>(p);
}
