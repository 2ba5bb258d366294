// Activations: packed NVFP4 in global memory to fp16 in the workspace, each value once per launch.
#pragma once
#include "fp4lab/scale_layout.h"
#include "fp4lab/sm90/work.h"
#include "isa/fence.cuh"
#include "isa/memory.cuh"
#include "isa/warp.cuh"
#include "sm90/decode.cuh"

namespace fp4lab::sm90 {

// `token` counts through all groups.
struct Token {
  u32 group, token;
};
__device__ __forceinline__ Token find_token(const Params& p, u32 token) {
  u32 group = 0;
  while (group + 1 < p.group_count && token >= p.groups[group + 1].first_token) ++group;
  return {group, token - p.groups[group].first_token};
}

constexpr u32 kPiecesPerSegment = kChunksPerSegment * 8;  // of 8 values, one a lane
static_assert(kPiecesPerSegment == 32);
constexpr u32 kScaleBytesPerSegment =
    kPiecesPerSegment / 2 / kScaleAtomScales * kScaleAtomBytes;  // of 128 tokens
constexpr u32 kScaleBytesPerRange = kSegmentsPerRange * kScaleBytesPerSegment;

// One range of one token: each lane turns words of codes into 16-byte pieces of fp16; the warp writes four
// whole 128-byte rows a segment.
__device__ __forceinline__ void expand_range(const Params& p, u32 token_index, u32 range) {
  const Token at = find_token(p, token_index);
  const Group& g = p.groups[at.group];
  const u32 lane = threadIdx.x % 32;
  const u32 first = range * (kSegmentsPerRange * kPiecesPerSegment) + lane;
  // Pieces that exist, and those with data: K is padded to 128, M to 8.
  const u32 existing = g.chunks * 8, filled = at.token < g.m ? g.k / 8 : 0;
  const u8* codes = g.a + (static_cast<u64>(at.token) * (g.k / 8) + first) * 4;
  const u8* scales = g.a_scale + blocked_scale_offset(at.token, first / 2, g.k / kScaleBlock);
  u8* out = p.tokens + g.tokens + (static_cast<u64>(first / 8) * g.m_padded + at.token) * kTokenRowBytes +
            ((lane ^ at.token) % 8) * 16;
  const u32 out_step = kChunksPerSegment * g.m_padded * kTokenRowBytes;
  u32 word[kSegmentsPerRange], scale[kSegmentsPerRange];
#pragma unroll
  for (u32 i = 0; i < kSegmentsPerRange; ++i) {
    const bool load = first + i * kPiecesPerSegment < filled;
    word[i] = load ? *reinterpret_cast<const u32*>(codes + i * (kPiecesPerSegment * 4)) : 0;
    scale[i] = load ? scales[i * kScaleBytesPerSegment] : 0;  // the next segment begins a new atom
  }
#pragma unroll
  for (u32 i = 0; i < kSegmentsPerRange; ++i)
    if (first + i * kPiecesPerSegment < existing) {
      u32 v[4];
      decode_row(word[i], ue4m3_to_f16(scale[i]), v);
      *reinterpret_cast<uint4*>(out + i * out_step) = uint4{v[0], v[1], v[2], v[3]};
    }
}

// The share of warp `warp` of `warps` in each CTA of a range. Consecutive tokens go to different CTAs.
__device__ __forceinline__ void expand_share(const Params& p, u32 warp, u32 warps, u32 range) {
  for (u32 token = warp * gridDim.x + blockIdx.x; token < p.token_count; token += warps * gridDim.x)
    expand_range(p, token, range);
}

// Starts this warp's tokens on their way to the L2: `ranges` of K from range `first` on, of the codes of each
// token, and its share of the scales, which the tokens of a row of atoms divide among them. Only a hint, so
// it may run before the kernel that writes the activations is over: the L2 is where that kernel's stores go.
__device__ __forceinline__ void prefetch_share(const Params& p, u32 warp, u32 warps, u32 first, u32 ranges) {
  constexpr u32 kLine = 128, kCodeBytesPerRange = kStepsPerRange * kStep / 2;
  const u32 lane = threadIdx.x % 32;
  for (u32 token = warp * gridDim.x + blockIdx.x; token < p.token_count; token += warps * gridDim.x) {
    const Token at = find_token(p, token);
    const Group& g = p.groups[at.group];
    if (at.token >= g.m) continue;
    const u32 row = g.k / 2, end = min(row, (first + ranges) * kCodeBytesPerRange);
    for (u32 i = first * kCodeBytesPerRange + lane * kLine; i < end; i += 32 * kLine)
      isa::prefetch_global_l2(g.a + static_cast<u64>(at.token) * row + i);
    const u32 atoms_row = at.token / kScaleAtomRows;
    const u32 sharers = min(static_cast<u32>(kScaleAtomRows), g.m - atoms_row * kScaleAtomRows);
    const u32 scale_row = scale_atoms_k(g.k / kScaleBlock) * kScaleAtomBytes;
    const u32 scale_end = min(scale_row, (first + ranges) * kScaleBytesPerRange);
    for (u32 i = first * kScaleBytesPerRange + (at.token % kScaleAtomRows + lane * sharers) * kLine;
         i < scale_end; i += 32 * sharers * kLine)
      isa::prefetch_global_l2(g.a_scale + static_cast<u64>(atoms_row) * scale_row + i);
  }
}

// Ranges are announced by counters: one arrival a CTA for the first, one an expander warp for the others.
__device__ __forceinline__ u32 arrivals(u32 range) { return gridDim.x * (range == 0 ? 1 : kExpanderWarps); }

// What the counter of a range will be when all shares of this launch are done. To be asked after earlier
// launches are over and before this CTA arrives.
__device__ __forceinline__ u32 arrivals_expected(const Params& p, u32 range) {
  return (isa::ld_acquire_gpu(p.arrived + range) / arrivals(range) + 1) * arrivals(range);
}

// The ranges behind the first, by warp `warp` of kExpanderWarps in each CTA.
__device__ __forceinline__ void expand_later_ranges(const Params& p, u32 warp) {
  for (u32 range = 1; range < p.ranges; ++range) {
    expand_share(p, warp, kExpanderWarps, range);
    isa::fence_proxy_async_global();
    isa::bar_warp_sync();
    if (threadIdx.x % 32 == 0) isa::red_add_release_gpu(p.arrived + range, 1);
  }
}

}  // namespace fp4lab::sm90
