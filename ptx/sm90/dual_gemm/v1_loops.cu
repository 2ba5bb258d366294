// Dual GEMM: C = silu(A * B1^T) * (A * B2^T), NVFP4 in, fp16 out. After v0_registers, one loop for each size
// of tile, so that nothing is decided between the products. The kernel is ../kernel.cuh.
#include "sm90/kernel.cuh"
#include "sm90/repack.cuh"

extern "C" __global__ void __launch_bounds__(128 * (1 + FP4LAB_WARPGROUPS), 1)
    dual_gemm_v1_loops(const __grid_constant__ fp4lab::sm90::Params p) {
  fp4lab::sm90::gemm<fp4lab::sm90::Config<FP4LAB_MAX_TILE, FP4LAB_WARPGROUPS, FP4LAB_STAGES, FP4LAB_LOCAL,
                                          true, true, FP4LAB_AT_ONCE != 0, FP4LAB_SPLIT == 2>>(p);
}
