// Storing a swapped tile through shared memory: each epilogue warp turns 32 tokens x 32 columns of fp16
// round, then either writes them with one 32-byte store per lane and sector, or hands them to the TMA engine.
#pragma once
#include "isa/fence.cuh"
#include "isa/tma.cuh"
#include "sm100/parts/epilogue.cuh"

namespace fp4lab {

constexpr int kStagedTokens = 32;

// This warp's piece of the staging area: [token][32 columns], 64 bytes to a token. Lanes are columns, so the
// 32 two-byte stores of one token fall into 16 banks, two lanes to a word: no conflict.
__device__ __forceinline__ u32 staging(u32 shared, int buffer) {
  return shared + plan.staging_offset() + (threadIdx.x / 32 % 4 * plan.staging_buffers() + buffer) * 2048;
}

// Columns t0..t0+31 of the accumulator (as many as the tile has) into `stage`.
__device__ __forceinline__ void stage_tokens(const Tile& tile, u32 tmem, int acc_slot, int t0, u32 stage) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (int c = 0; c < kStagedTokens; c += 8) {
    if (t0 + c < tile.n) {
      float v[8];
      load_accumulator(own_lanes(tmem), acc_slot, t0 + c, v);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        isa::st_shared_b16(stage + (c + i) * 64 + lane * 2, isa::cvt_rn_f16_f32(v[i]));
    }
  }
}

__device__ __forceinline__ void store_columns_staged(const GroupArgs& g, const Tile& tile, u32 tmem,
                                                     int acc_slot, u32 shared) {
  const u32 lane = threadIdx.x % 32;
  const int column = tile.left + threadIdx.x % 128 / 32 * 32;
  if (column >= g.left_rows) return;
  const int tokens = min(tile.n, g.right_rows - tile.right);
  const u32 stage = staging(shared, 0);
#pragma unroll 1
  for (int t0 = 0; t0 < tokens; t0 += kStagedTokens) {
    stage_tokens(tile, tmem, acc_slot, t0, stage);
    isa::bar_warp_sync();
    // A lane reads and writes one sector: half a token's 64 bytes.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = half * 16 + lane / 2;
      if (t0 + token < tokens) {
        u32 lo[4], hi[4];
        isa::ld_shared_v4(stage + token * 64 + lane % 2 * 32, lo);
        isa::ld_shared_v4(stage + token * 64 + lane % 2 * 32 + 16, hi);
        const u32 sector[8] = {lo[0], lo[1], lo[2], lo[3], hi[0], hi[1], hi[2], hi[3]};
        u8* const row = reinterpret_cast<u8*>(g.c) +
                        (static_cast<u64>(tile.right + t0 + token) * g.c_columns + column) * 2;
        isa::st_global_no_allocate_v8(row + lane % 2 * 32, sector);
      }
    }
    isa::bar_warp_sync();  // all have read before the next tokens overwrite
  }
}

// The TMA engine writes 32 x 32 boxes and leaves out what lies beyond the last token. Two buffers: one is
// read by the engine while the warp fills the other. `buffer` lives as long as the warp, since stores outlive
// the tile.
__device__ __forceinline__ void store_columns_tma(const Args& args, const Tile& tile, u32 tmem, int acc_slot,
                                                  u32 shared, int& buffer) {
  const GroupArgs& g = args.group[tile.group];
  const int column = tile.left + threadIdx.x % 128 / 32 * 32;
  if (column >= g.left_rows) return;
  const int tokens = min(tile.n, g.right_rows - tile.right);
  const bool leader = threadIdx.x % 32 == 0;  // bulk groups belong to a thread: always the same one
#pragma unroll 1
  for (int t0 = 0; t0 < tokens; t0 += kStagedTokens, buffer ^= 1) {
    if (leader) isa::cp_async_bulk_wait_group_read<1>();  // the store before the last has read this buffer
    isa::bar_warp_sync();
    const u32 stage = staging(shared, buffer);
    stage_tokens(tile, tmem, acc_slot, t0, stage);
    isa::fence_proxy_async_shared();  // each writer's own stores, before the engine reads them
    isa::bar_warp_sync();
    if (leader) {
      isa::cp_async_bulk_tensor_2d_store(tensor_map(args, tile.group, Map::kOutput), column, tile.right + t0,
                                         stage);
      isa::cp_async_bulk_commit_group();
    }
  }
}
// Before the CTA ends: its shared memory must outlive the reads, its results must be written.
__device__ __forceinline__ void finish_tma_stores() {
  if (threadIdx.x % 32 == 0) isa::cp_async_bulk_wait_group<0>();
  isa::bar_warp_sync();
}

}  // namespace fp4lab
