// Weights, once: packed NVFP4 [n][k/2] with blocked scales to the fragment order of work.h. Every lane of the
// GEMM then loads exactly its own codes with one 16-byte load per 64 values of K. A kernel of its own, in the
// module of every GEMM that wants weights in this order.
#pragma once
#include "fp4lab/scale_layout.h"
#include "fp4lab/sm90/work.h"
#include "sm90/decode.cuh"

namespace fp4lab::sm90 {

// Weight row of accumulator row `q + 8 half` of warp `warp` of a warpgroup's 64 rows, and the operand it is
// of. The dual GEMM interleaves: 32 rows of B1 (half 0) and the same 32 rows of B2 (half 1).
struct Source {
  const u8* codes;
  const u8* scales;
  u32 row;
};
__device__ __forceinline__ Source source(const Weights& w, u32 block, u32 warp, u32 q, u32 half) {
  const u32 first = block * kRowsPerWarpgroup;
  if (w.b2 == nullptr) return {w.b, w.b_scale, first + 16 * warp + 8 * half + q};
  return {half == 0 ? w.b : w.b2, half == 0 ? w.b_scale : w.b2_scale, first / 2 + 8 * warp + q};
}

__device__ __forceinline__ void repack(const Weights& w, unsigned char* packed) {
  const u32 words = w.tiles * w.steps * w.warpgroups * (kChunksPerStep * kCodeBytes / 4);
  for (u32 index = blockIdx.x * blockDim.x + threadIdx.x; index < words; index += gridDim.x * blockDim.x) {
    const u32 j = index % 4, thread = index / 4 % 128, block = index / 512;  // block: in memory's order
    const u32 half_step = block % kChunksPerStep, warpgroup = block / kChunksPerStep % w.warpgroups;
    const u32 step = block / (kChunksPerStep * w.warpgroups) % w.steps;
    const u32 tile = block / (kChunksPerStep * w.warpgroups * w.steps);
    const u32 warp = thread / 32, q = thread % 32 / 4, i = thread % 4;
    const u32 k = (step * kChunksPerStep + half_step) * kChunk + 16 * j;
    u32 word = 0, scale = 0;
    for (u32 half = 0; half < 2; ++half) {  // rows q and q + 8: registers 0, 2 and 1, 3
      const Source s = source(w, tile * w.warpgroups + warpgroup, warp, q, half);
      if (s.row >= w.n || k >= w.k) continue;
      const u8* bytes = s.codes + (static_cast<u64>(s.row) * w.k + k) / 2;
      for (u32 v = 0; v < 2; ++v)  // positions 2i, 2i + 1 and 2i + 8, 2i + 9 of K
        for (u32 h = 0; h < 2; ++h) {
          const u32 code = code_at(2 * i + h);
          word |= pack_code(bytes[4 * v + code / 2] >> (4 * (code % 2)) & 15, half + 2 * v, h);
        }
      const u8 ue4m3 = s.scales[blocked_scale_offset(s.row, k / kScaleBlock, w.k / kScaleBlock)];
      scale |= (ue4m3_to_f16(ue4m3) & 0xffff) << (16 * half);
    }
    unsigned char* to = packed + w.packed + static_cast<u64>(block) * kBlockBytes;
    reinterpret_cast<u32*>(to)[thread * 4 + j] = word;
    if (i == 0) reinterpret_cast<u32*>(to + kCodeBytes)[(8 * warp + q) * 4 + j] = scale;
  }
}

}  // namespace fp4lab::sm90

extern "C" __global__ void __launch_bounds__(256)
    repack_weights(const __grid_constant__ fp4lab::sm90::Weights w, unsigned char* packed) {
  fp4lab::sm90::repack(w, packed);
}
