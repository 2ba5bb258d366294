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
constexpr u32 kScaleBytesPerRange = kSegmentsPerRange * kChunksPerSegment * kScaleAtomBytes;  // of 128 tokens

static_assert(kSegmentsPerRange * kChunksPerSegment == 32);  // atoms of scales: one a lane

// One range of one token: each lane turns words of codes into 16-byte pieces of fp16; the warp writes four
// whole 128-byte rows a segment. Lane i brings the four scales of chunk i for all.
__device__ __forceinline__ void expand_range(const Params& p, Token at, u32 range) {
  const Group& g = p.groups[at.group];
  const u32 lane = threadIdx.x % 32;
  const u32 first = range * (kSegmentsPerRange * kPiecesPerSegment) + lane;
  // Pieces that exist, and those with data: K is padded to 128, M to 8. All offsets below 4 GiB: registers
  // are few here.
  const u32 filled = at.token < g.m ? g.k / 8 : 0;
  const u32 codes = (at.token * (g.k / 8) + first) * 4;
  constexpr u32 kInFlight = 6;  // words
  u32 word[kInFlight];
  const auto load = [&](u32 i) {
    word[i % kInFlight] = first + i * kPiecesPerSegment < filled
                              ? *reinterpret_cast<const u32*>(g.a + codes + i * (kPiecesPerSegment * 4))
                              : 0;
  };
#pragma unroll
  for (u32 i = 0; i < kInFlight; ++i) load(i);
  const u32 chunk = range * 32 + lane;
  const u32 scale_at = (at.token / kScaleAtomRows * (g.k / kChunk) + chunk) * kScaleAtomBytes +
                       scale_atom_offset(at.token % kScaleAtomRows, 0);
  const u32 scales = chunk * 8 < filled ? *reinterpret_cast<const u32*>(g.a_scale + scale_at) : 0;
  u32 out = (first / 8 * g.m_padded + at.token) * kTokenRowBytes + ((lane ^ at.token) % 8) * 16;
#pragma unroll
  for (u32 i = 0; i < kSegmentsPerRange; ++i) {
    const u32 scale =
        isa::shfl_sync_idx(scales, i * kChunksPerSegment + lane / 8) >> (lane / 2 % 4 * 8) & 0xff;
    if (first + i * kPiecesPerSegment < g.chunks * 8) {
      u32 v[4];
      decode_row(word[i % kInFlight], ue4m3_to_f16(scale), v);
      *reinterpret_cast<uint4*>(p.tokens + g.tokens + out) = uint4{v[0], v[1], v[2], v[3]};
    }
    if (i + kInFlight < kSegmentsPerRange) load(i + kInFlight);
    out += kChunksPerSegment * g.m_padded * kTokenRowBytes;
  }
}

// The share of a warp in each CTA: tokens first, first + step, .. Consecutive tokens go to different CTAs.
struct Share {
  u32 first, step;
  u32 place;  // lane i: where token i of the share is, group in the high half. A search through the groups
              // for each would take longer than its expansion.

  __device__ __forceinline__ Share(const Params& p, u32 warp, u32 warps)
      : first(warp * gridDim.x + blockIdx.x),
        step(warps * gridDim.x),
        place(find(p, first + threadIdx.x % 32 * step)) {}
  __device__ __forceinline__ static u32 find(const Params& p, u32 token) {
    if (token >= p.token_count) return 0;
    const Token at = find_token(p, token);
    return at.group << 16 | at.token;
  }
  __device__ __forceinline__ void expand(const Params& p, u32 range) const {
#pragma unroll 1
    for (u32 i = 0, token = first; token < p.token_count; ++i, token += step) {
      const u32 at = i < 32 ? isa::shfl_sync_idx(place, i) : find(p, token);
      expand_range(p, {at >> 16, at & 0xffff}, range);
    }
  }
};

// The share of a warp when all of K is expanded at once: items of p.segments segments of one token,
// consecutive items by different CTAs. The loads of an item are under way while the one before is expanded.
struct ShareOfAll {
  u32 first, step;
  u32 place;  // as in Share

  __device__ __forceinline__ ShareOfAll(const Params& p, u32 warp, u32 warps)
      : first(warp * gridDim.x + blockIdx.x),
        step(warps * gridDim.x),
        place(Share::find(p, (first + threadIdx.x % 32 * step) % p.token_count)) {}

  // What is loaded of an item, and where its values go.
  struct Item {
    u32 word[kSegmentsPerRange], scales;
    u32 out, stride;  // of this lane's first 16-byte piece in the workspace; from a segment to the next
    u32 left;         // 16-byte pieces from this lane's first to the end of the item
    u8* base;

    __device__ __forceinline__ void load(const Params& p, Token at, u32 part) {
      const Group& g = p.groups[at.group];
      const u32 lane = threadIdx.x % 32, first_segment = part * p.segments;
      const u32 piece = first_segment * kPiecesPerSegment + lane;
      const u32 end = (first_segment + p.segments) * kPiecesPerSegment;
      const u32 filled = at.token < g.m ? min(g.k / 8, end) : 0, all = min(g.chunks * 8, end);
      const u8* from = g.a + (at.token * (g.k / 8) + piece) * 4;
#pragma unroll
      for (u32 i = 0; i < kSegmentsPerRange; ++i)
        word[i] = piece + i * kPiecesPerSegment < filled
                      ? *reinterpret_cast<const u32*>(from + i * (kPiecesPerSegment * 4))
                      : 0;
      const u32 chunk = first_segment * kChunksPerSegment + lane;
      const u32 scale_at = (at.token / kScaleAtomRows * (g.k / kChunk) + chunk) * kScaleAtomBytes +
                           scale_atom_offset(at.token % kScaleAtomRows, 0);
      scales = chunk * 8 < filled ? *reinterpret_cast<const u32*>(g.a_scale + scale_at) : 0;
      out = (piece / 8 * g.m_padded + at.token) * kTokenRowBytes + ((lane ^ at.token) % 8) * 16;
      stride = kChunksPerSegment * g.m_padded * kTokenRowBytes;
      left = piece < all ? all - piece : 0;
      base = p.tokens + g.tokens;
    }
    __device__ __forceinline__ void store() const {
      const u32 lane = threadIdx.x % 32;
#pragma unroll
      for (u32 i = 0; i < kSegmentsPerRange; ++i) {
        const u32 scale =
            isa::shfl_sync_idx(scales, i * kChunksPerSegment + lane / 8) >> (lane / 2 % 4 * 8) & 0xff;
        if (i * kPiecesPerSegment < left) {
          u32 v[4];
          decode_row(word[i], ue4m3_to_f16(scale), v);
          *reinterpret_cast<uint4*>(base + out + i * stride) = uint4{v[0], v[1], v[2], v[3]};
        }
      }
    }
  };

  __device__ __forceinline__ void load(const Params& p, Item& item, u32 i) const {
    const u32 index = first + i * step, part = index / p.token_count;
    const u32 at = i < 32 ? isa::shfl_sync_idx(place, i) : Share::find(p, index % p.token_count);
    item.load(p, {at >> 16, at & 0xffff}, part);
  }
  __device__ __forceinline__ void expand(const Params& p, u32) const {
    if (first >= p.items) return;
    Item now;
    load(p, now, 0);
#pragma unroll 1
    for (u32 i = 1;; ++i) {
      const bool more = first + i * step < p.items;
      Item next;
      if (more) load(p, next, i);
      now.store();
      if (!more) break;
      now = next;
    }
  }
};
template <bool kAtOnce>
struct Shares {
  using type = Share;
};
template <>
struct Shares<true> {
  using type = ShareOfAll;
};
template <bool kAtOnce>
using shares = typename Shares<kAtOnce>::type;

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

// Until a range of every token is in the workspace.
__device__ __forceinline__ void wait_for_range(const Params& p, u32 range) {
  while (isa::ld_acquire_gpu(p.arrived + range) != arrivals(range)) {
  }
  isa::fence_proxy_async_global();
}

// The ranges behind the first, by warp `warp` of kExpanderWarps in each CTA.
__device__ __forceinline__ void expand_later_ranges(const Params& p, u32 warp) {
  const Share share(p, warp, kExpanderWarps);
#pragma unroll 1
  for (u32 range = 1; range < p.ranges; ++range) {
    share.expand(p, range);
    isa::fence_proxy_async_global();
    isa::bar_warp_sync();
    if (threadIdx.x % 32 == 0) isa::red_add_release_gpu(p.arrived + range, 1);
  }
}

// Said by every warp of the grid that counts ranges or waits for them, when it is done: the last one lowers
// the counters for the next launch.
__device__ __forceinline__ void leave_ranges(const Params& p) {
  u32* left = p.arrived + kMaxRanges;
  isa::bar_warp_sync();
  const u32 lane = threadIdx.x % 32;
  u32 before = 0;
  if (lane == 0) before = isa::atom_add_acq_rel_gpu(left, 1);
  if (isa::shfl_sync_idx(before, 0) != gridDim.x * (kExpanderWarps + 1) - 1) return;
  isa::bar_warp_sync();  // lane 0's acquire is the other lanes' too
  for (u32 range = lane; range <= kMaxRanges; range += 32) p.arrived[range] = 0;
}

// The tokens of a unit's first kSteps steps, for which no grid is waited: this CTA's math warps bring codes
// and scales to shared memory and expand them into stages 0, 1, .. as the copy engine would bring them. Until
// then they lie where the last stage will be: codes [token][kPitch], then scales [row of atoms][chunk][512].
template <u32 kSteps>
struct Local {
  static constexpr u32 kChunks = kSteps * kChunksPerStep, kPieces = kSteps * (kStep / 2 / 16);
  static constexpr u32 kPitch = kSteps * (kStep / 2) + 32;  // of a token's codes; 32 against bank conflicts
  const u8 *codes, *scales;   // of the tile's first token's first step; of its row of atoms
  u32 raw_codes, raw_scales;  // shared addresses
  u32 tokens, tile;           // of the tile: that exist, and with padding
  u32 first;                  // token in its row of atoms
  u32 row_bytes, atoms_bytes;
  u32 left_bytes;  // of a token's codes, up to the end of K

  __device__ __forceinline__ Local(const Params& p, const Work& w, u32 codes_area, u32 scales_area) {
    const Group& g = p.groups[w.group];
    row_bytes = g.k / 2;
    atoms_bytes = scale_atoms_k(g.k / kScaleBlock) * kScaleAtomBytes;
    left_bytes = row_bytes - w.first_step * (kStep / 2);
    codes = g.a + static_cast<u64>(w.token) * row_bytes + w.first_step * (kStep / 2);
    scales = g.a_scale + static_cast<u64>(w.token / kScaleAtomRows) * atoms_bytes +
             w.first_step * (kChunksPerStep * kScaleAtomBytes);
    raw_codes = codes_area, raw_scales = scales_area;
    tile = w.tile;
    tokens = min(tile, g.m - w.token);
    first = w.token % kScaleAtomRows;
  }

  // Starts the copies; `thread` of `threads`. What lies behind K is zero: K is a multiple of a chunk.
  __device__ __forceinline__ void load(u32 thread, u32 threads) const {
#pragma unroll 1
    for (u32 i = thread; i < tile * kPieces; i += threads) {
      const u32 token = i / kPieces, byte = i % kPieces * 16;
      const bool there = token < tokens && byte < left_bytes;
      isa::cp_async_16(raw_codes + token * kPitch + byte, there ? codes + token * row_bytes + byte : codes,
                       there ? 16 : 0);
    }
    constexpr u32 kRow = kChunks * kScaleAtomBytes;
    const u32 pieces = (first + tokens + kScaleAtomRows - 1) / kScaleAtomRows * (kRow / 16);
#pragma unroll 1
    for (u32 i = thread; i < pieces; i += threads) {
      const u32 row = i * 16 / kRow, byte = i * 16 % kRow;
      const bool there = byte < left_bytes / (kChunk / 2) * kScaleAtomBytes;
      isa::cp_async_16(raw_scales + i * 16, there ? scales + row * atoms_bytes + byte : scales,
                       there ? 16 : 0);
    }
  }

  // Behind the copies of all, `steps` of them: a lane takes the 16 values of one scale in every chunk, a warp
  // 8 tokens.
  template <u32 kStageBytes, u32 kChunkBytes>
  __device__ __forceinline__ void expand(u32 steps, u32 base, u32 warp, u32 warps) const {
    const u32 lane = threadIdx.x % 32, quarter = lane % 4;
#pragma unroll 1
    for (u32 eight = warp; eight < tile / 8; eight += warps) {
      const u32 token = eight * 8 + lane / 4;
      const u32 row = first + min(token, tokens - 1);  // padding has codes of zero and anyone's scale
      const u32 code_at = raw_codes + token * kPitch + quarter * 8;
      const u32 scale_at = raw_scales + row / kScaleAtomRows * (kChunks * kScaleAtomBytes) + row % 32 * 16 +
                           row % kScaleAtomRows / 32 * 4 + quarter;
      const u32 to = base + token * kTokenRowBytes;
      const u32 at[2] = {to + ((quarter * 2) ^ (token % 8)) * 16,
                         to + ((quarter * 2 + 1) ^ (token % 8)) * 16};
      u32 codes_of[kChunks][2], scale[kChunks];
#pragma unroll
      for (u32 chunk = 0; chunk < kChunks; ++chunk) {
        isa::ld_shared_v2(code_at + chunk * (kChunk / 2), codes_of[chunk]);
        scale[chunk] = isa::ld_shared_u8(scale_at + chunk * kScaleAtomBytes);
      }
#pragma unroll
      for (u32 chunk = 0; chunk < kChunks; ++chunk) {
        const u32 factor = ue4m3_to_f16(scale[chunk]);
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
          u32 v[4];
          decode_row(codes_of[chunk][i], factor, v);
          if (chunk / kChunksPerStep < steps)
            isa::st_shared_v4(
                at[i] + chunk / kChunksPerStep * kStageBytes + chunk % kChunksPerStep * kChunkBytes, v[0],
                v[1], v[2], v[3]);
        }
      }
    }
  }
};

}  // namespace fp4lab::sm90
