// The end of a tile: partial sums from other units, silu * mul, fp16, transposed stores.
#pragma once
#include "fp4lab/sm90/work.h"
#include "isa/fence.cuh"
#include "isa/math.cuh"
#include "isa/memory.cuh"
#include "isa/warp.cuh"
#include "sm90/decode.cuh"

namespace fp4lab::sm90 {

constexpr u32 kPublished = 9;  // barrier id

// Where the sums of (cta, warpgroup) wait for the unit that finishes the tile.
template <int kMaxTile, int kWarpgroups>
__device__ __forceinline__ float4* partial_sums(const Params& p, u32 cta, u32 warpgroup) {
  return reinterpret_cast<float4*>(p.partial) +
         static_cast<u64>(cta * kWarpgroups + warpgroup) * (kMaxTile / 8 * 128);
}

// Of tokens `from` to `end`, multiples of 8.
template <int kMaxTile, int kWarpgroups>
__device__ __forceinline__ void publish_partial(const Params& p, u32 from, u32 end, u32 warpgroup, u32 thread,
                                                const float (&acc)[kMaxTile / 2]) {
  float4* to = partial_sums<kMaxTile, kWarpgroups>(p, blockIdx.x, warpgroup) + thread;
#pragma unroll
  for (int i = 0; i < kMaxTile / 8; ++i)
    if (8 * i >= from && 8 * i < end)
      to[i * 128] = float4{acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]};
  isa::bar_arrive(kPublished, 32 + 128 * kWarpgroups);
}

// Warp 2, in a CTA whose first piece has sums for another unit: waits for its sums to be stored and says so,
// which takes a fence that the math warps need not wait for.
template <int kWarpgroups>
__device__ __forceinline__ void raise_flags(const Params& p) {
  isa::bar_sync(kPublished, 32 + 128 * kWarpgroups);
  isa::fence_acq_rel_gpu();
  if (threadIdx.x % 32 < kWarpgroups)
    isa::st_release_gpu(p.flags + blockIdx.x * kWarpgroups + threadIdx.x % 32, 1);
}

// Adds the sums of tokens `first` to `end` that unit `cta` has published, and lowers its flag for the next
// launch.
template <int kMaxTile, int kWarpgroups>
__device__ __forceinline__ void add_partial(const Params& p, u32 cta, u32 first, u32 end, u32 warpgroup,
                                            u32 thread, float (&acc)[kMaxTile / 2]) {
  u32* flag = p.flags + cta * kWarpgroups + warpgroup;
  if (thread == 0)
    while (isa::ld_acquire_gpu(flag) == 0) {
    }
  isa::bar_sync(1 + warpgroup, 128);
  const float4* from = partial_sums<kMaxTile, kWarpgroups>(p, cta, warpgroup) + thread;
  constexpr int kInFlight = 8;
#pragma unroll
  for (int b = 0; b < kMaxTile / 8; b += kInFlight) {
    if (8 * (b + kInFlight) <= first || 8 * b >= end) continue;
    float4 v[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      v[i] = 8 * (b + i) >= first && 8 * (b + i) < end ? __ldcg(from + (b + i) * 128) : float4{0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      if (b + i < kMaxTile / 8) {
        float* to = acc + 4 * (b + i);
        to[0] += v[i].x, to[1] += v[i].y, to[2] += v[i].z, to[3] += v[i].w;
      }
  }
  isa::bar_sync(1 + warpgroup, 128);
  if (thread == 0) *flag = 0;
}

// x * sigmoid(x); exp(-x) = inf gives -0.
__device__ __forceinline__ float silu(float x) {
  return x * isa::rcp_approx_ftz(1.0f + isa::ex2_approx_ftz(x * -1.4426950408889634f));
}

struct Tile {
  u16* out;
  u32 n;          // row pitch of C
  u32 row;        // first C column of this warpgroup
  u32 token;      // first token of the tile
  u32 from, end;  // tokens of the tile to store; from: a multiple of 32
  __device__ __forceinline__ bool stores(u32 first, u32 tokens) const {
    return first + tokens > from && first < end;
  }
};

// C[token][row..row + 63] from the warpgroup's 64 accumulator rows; stmatrix.trans turns 8x8 blocks so that
// the rows of a token lie together, and the four warps' so that a store writes 128 bytes of each of four
// tokens. Staging is the warpgroup's: tokens of 128 bytes, 16-byte pieces XORed with token % 8 against bank
// conflicts.
template <int kMaxTile, u32 kStagingBytes>
__device__ __forceinline__ void store_tile(const Tile& t, u32 staging, u32 barrier,
                                           const float (&acc)[kMaxTile / 2]) {
  constexpr int kBlocks = kStagingBytes / kStagingBlock;
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const u32 write_token = lane / 16 * 8 + lane % 8;
  const u32 write_at = staging + write_token * 128 + ((warp * 2 + lane / 8 % 2) ^ (lane % 8)) * 16;
  const u32 own = warp * 4 + lane / 8;  // token of each 16 that this lane stores
  const u32 read_at = staging + own * 128 + ((lane % 8) ^ (own % 8)) * 16;
  const u32 row = t.row + lane % 8 * 8;
  const bool row_exists = row < t.n;
  u16* to = t.out + static_cast<u64>(t.token + own) * t.n + row;
#pragma unroll
  for (int b = 0; b < kMaxTile; b += 16 * kBlocks) {
    if (b + 16 * kBlocks <= t.from) continue;
    if (b >= t.end) break;
    isa::bar_sync(barrier, 128);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const int first = b + 16 * block;
      u32 r[4] = {0, 0, 0, 0};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (first + i / 2 * 8 < kMaxTile)
          r[i] = isa::cvt_rn_f16x2_f32(kSumScale * acc[first / 2 + 2 * i],
                                       kSumScale * acc[first / 2 + 2 * i + 1]);
      if (first < kMaxTile) isa::stmatrix_x4_trans(write_at + block * 2048, r[0], r[1], r[2], r[3]);
    }
    isa::bar_sync(barrier, 128);
    u32 w[kBlocks][4];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
      if (b + 16 * block < kMaxTile) isa::ld_shared_v4(read_at + block * 2048, w[block]);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const u32 token = b + 16 * block + own;
      if (b + 16 * block < kMaxTile && row_exists && token >= t.from && token < t.end)
        isa::st_global_no_allocate_v4(to + static_cast<u64>(b + 16 * block) * t.n, w[block][0], w[block][1],
                                      w[block][2], w[block][3]);
    }
  }
}

// The same for silu(B1 rows) * (B2 rows): accumulator row q is from B1, row q + 8 from B2, 8 columns of C a
// warp and 32 a warpgroup, 32 tokens a block.
template <int kMaxTile, u32 kStagingBytes>
__device__ __forceinline__ void store_dual_tile(const Tile& t, u32 staging, u32 barrier,
                                                const float (&acc)[kMaxTile / 2]) {
  constexpr int kBlocks = kStagingBytes / kStagingBlock;
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const u32 write_at = staging + lane * 64 + (warp ^ (lane / 2 % 4)) * 16;
  const u32 own = warp * 8 + lane / 4;
  const u32 read_at = staging + own * 64 + ((lane % 4) ^ (own / 2 % 4)) * 16;
  const u32 row = t.row + lane % 4 * 8;
  const bool row_exists = row < t.n;
  u16* to = t.out + static_cast<u64>(t.token + own) * t.n + row;
#pragma unroll
  for (int b = 0; b < kMaxTile; b += 32 * kBlocks) {
    if (b + 32 * kBlocks <= t.from) continue;
    if (b >= t.end) break;
    isa::bar_sync(barrier, 128);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const int first = b + 32 * block;
      if (!t.stores(first, 32)) continue;
      u32 r[4] = {0, 0, 0, 0};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (first + 8 * i < kMaxTile) {
          const float* v = acc + first / 2 + 4 * i;
          r[i] = isa::cvt_rn_f16x2_f32(silu(kSumScale * v[0]) * (kSumScale * v[2]),
                                       silu(kSumScale * v[1]) * (kSumScale * v[3]));
        }
      if (first < kMaxTile) isa::stmatrix_x4_trans(write_at + block * 2048, r[0], r[1], r[2], r[3]);
    }
    isa::bar_sync(barrier, 128);
    u32 w[kBlocks][4];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
      if (b + 32 * block < kMaxTile && t.stores(b + 32 * block, 32))
        isa::ld_shared_v4(read_at + block * 2048, w[block]);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const u32 token = b + 32 * block + own;
      if (b + 32 * block < kMaxTile && row_exists && token >= t.from && token < t.end)
        isa::st_global_no_allocate_v4(to + static_cast<u64>(b + 32 * block) * t.n, w[block][0], w[block][1],
                                      w[block][2], w[block][3]);
    }
  }
}

}  // namespace fp4lab::sm90
