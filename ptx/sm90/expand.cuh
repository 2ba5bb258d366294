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

// A piece as far as its operands' way to shared memory goes.
struct Span {
  u64 weights, tokens;  // byte offsets
  u32 stride;           // of tokens, from a chunk to the next
  u32 first_step, steps, tile;
  u32 group, token;
  bool publishes, last;
};
__device__ __forceinline__ Span span_of(const Work& w) {
  return {w.weights,    w.tokens, w.token_stride,
          w.first_step, w.steps,  w.tile,
          w.group,      w.token,  w.finishes == 0 || w.half != 0,
          w.last != 0};
}
// This CTA's first piece.
template <u32 kWarpgroups>
__device__ __forceinline__ Span first_span(const Params& p) {
  const FirstPiece& f = p.first[blockIdx.x];
  const Group& g = p.groups[f.group];
  const u32 stride = g.m_padded * kTokenRowBytes;
  return {static_cast<u64>(f.weights) * (kWarpgroups * kWarpgroupStepBytes),
          g.tokens + static_cast<u64>(f.first_step * kChunksPerStep) * stride + f.token * kTokenRowBytes,
          stride,
          f.first_step,
          f.steps,
          f.tile(),
          f.group,
          f.token,
          f.publishes(),
          f.last()};
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
  // The first range, in three calls as ShareOfAll's.
  __device__ __forceinline__ void prepare(const Params&) const {}
  __device__ __forceinline__ void start(const Params&) const {}
  __device__ __forceinline__ void finish(const Params& p) const { expand(p, 0); }
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

  // An item, in three calls: addresses; loads; values.
  struct Item {
    const u8 *codes, *scales_at;  // of this lane's first piece; of its chunk
    u32 filled;                   // 16-byte pieces with data, from this lane's first to the end of the item
    u32 scales_filled;            // 0 or 1
    u32 left;                     // pieces that exist: K is padded to 128, M to 8
    u32 out, stride;              // of the first piece in the workspace; from a segment to the next
    u8* base;
    u32 word[kSegmentsPerRange], scales;

    __device__ __forceinline__ void prepare(const Params& p, Token at, u32 part) {
      const Group& g = p.groups[at.group];
      const u32 lane = threadIdx.x % 32, first_segment = part * p.segments;
      const u32 piece = first_segment * kPiecesPerSegment + lane;
      const u32 end = (first_segment + p.segments) * kPiecesPerSegment;
      const u32 with_data = at.token < g.m ? min(g.k / 8, end) : 0, all = min(g.chunks * 8, end);
      codes = g.a + (at.token * (g.k / 8) + piece) * 4;
      filled = piece < with_data ? with_data - piece : 0;
      const u32 chunk = first_segment * kChunksPerSegment + lane;
      scales_at = g.a_scale + (at.token / kScaleAtomRows * (g.k / kChunk) + chunk) * kScaleAtomBytes +
                  scale_atom_offset(at.token % kScaleAtomRows, 0);
      scales_filled = chunk * 8 < with_data;
      out = (piece / 8 * g.m_padded + at.token) * kTokenRowBytes + ((lane ^ at.token) % 8) * 16;
      stride = kChunksPerSegment * g.m_padded * kTokenRowBytes;
      left = piece < all ? all - piece : 0;
      base = p.tokens + g.tokens;
    }
    __device__ __forceinline__ void load() {
#pragma unroll
      for (u32 i = 0; i < kSegmentsPerRange; ++i)
        word[i] =
            i * kPiecesPerSegment < filled ? isa::ld_global_b32(codes + i * (kPiecesPerSegment * 4)) : 0;
      scales = scales_filled != 0 ? isa::ld_global_b32(scales_at) : 0;
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
  Item now;

  __device__ __forceinline__ void prepare(const Params& p, Item& item, u32 i) const {
    const u32 index = first + i * step, part = index / p.token_count;
    const u32 at = i < 32 ? isa::shfl_sync_idx(place, i) : Share::find(p, index % p.token_count);
    item.prepare(p, {at >> 16, at & 0xffff}, part);
  }
  // Before the activations may be read; then; and when they are there.
  __device__ __forceinline__ void prepare(const Params& p) {
    if (first >= p.items) return;
    prepare(p, now, 0);
    isa::prefetch_global_l2(now.base + now.out);  // for the translation of the address
    isa::keep(now.filled), isa::keep(now.scales_filled), isa::keep(now.left);
    isa::keep(now.out), isa::keep(now.stride);
    isa::keep(now.codes), isa::keep(now.scales_at), isa::keep(now.base);
  }
  __device__ __forceinline__ void start(const Params& p) {
    if (first < p.items) now.load();
  }
  __device__ __forceinline__ void finish(const Params& p) {
    if (first >= p.items) return;
#pragma unroll 1
    for (u32 i = 1;; ++i) {
      const bool more = first + i * step < p.items;
      Item next;
      if (more) {
        prepare(p, next, i);
        next.load();
      }
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

// The tokens of a unit's first kSteps steps, for which no grid is waited: this CTA's math warps expand them
// from global memory into stages 0, 1, .. as the copy engine would bring them. A lane takes the 16 values of
// one scale of one token in each pass, all of which are asked for before any is used; the codes of a token
// that a warp loads lie together.
template <u32 kSteps, u32 kMaxTile, u32 kWarps>
struct Local {
  static constexpr u32 kLanes = kSteps * (kStep / kScaleBlock);  // of a token
  static_assert(32 % kLanes == 0);
  static constexpr u32 kPassTokens = kWarps * (32 / kLanes);
  static constexpr u32 kPasses = (kMaxTile + kPassTokens - 1) / kPassTokens;
  u32 tile;    // tokens of it, with padding
  u32 tokens;  // that have data where this lane is in K
  u32 first;   // this lane's first token
  u32 block;   // of this lane, of 16 values of K
  const u8 *codes, *scales;
  u32 pass_bytes;  // of codes, from a pass to the next
  u32 scale_at[kPasses];
  u32 code[kPasses][2], scale[kPasses];

  __device__ __forceinline__ Local(const Params& p, const Span& s, u32 warp) : tile(s.tile) {
    const Group& g = p.groups[s.group];
    const u32 lane = threadIdx.x % 32, row_bytes = g.k / 2;
    block = lane % kLanes;
    first = warp * (32 / kLanes) + lane / kLanes;
    const u32 chunk = s.first_step * kChunksPerStep + block / kScaleAtomScales;
    tokens = chunk < g.k / kChunk ? min(tile, g.m - s.token) : 0;
    codes = g.a + static_cast<u64>(s.token + first) * row_bytes + s.first_step * (kStep / 2) + block * 8;
    pass_bytes = kPassTokens * row_bytes;
    const u32 atoms_bytes = scale_atoms_k(g.k / kScaleBlock) * kScaleAtomBytes;
    scales = g.a_scale + static_cast<u64>(chunk) * kScaleAtomBytes;
#pragma unroll
    for (u32 i = 0; i < kPasses; ++i) {
      const u32 row = s.token + first + i * kPassTokens;
      scale_at[i] = row / kScaleAtomRows * atoms_bytes +
                    scale_atom_offset(row % kScaleAtomRows, block % kScaleAtomScales);
      isa::keep(scale_at[i]);
    }
    isa::keep(codes), isa::keep(scales), isa::keep(pass_bytes), isa::keep(tokens);
  }

  // Starts the loads. What lies behind K or M is zero.
  __device__ __forceinline__ void load() {
#pragma unroll
    for (u32 i = 0; i < kPasses; ++i) {
      const bool there = first + i * kPassTokens < tokens;
      code[i][0] = code[i][1] = scale[i] = 0;
      if (there) {
        isa::ld_global_v2(codes + i * pass_bytes, code[i]);
        scale[i] = isa::ld_global_u8(scales + scale_at[i]);
      }
    }
  }

  // Behind the loads, `steps` of them. Lanes of odd chunks write their second 16 bytes first: with those of
  // even chunks, they use all banks.
  template <u32 kStageBytes, u32 kChunkBytes>
  __device__ __forceinline__ void expand(u32 steps, u32 base) {
#pragma unroll
    for (u32 i = 0; i < kPasses; ++i) isa::keep(scale[i]);  // or the compiler waits for them earlier
    const u32 chunk = block / kScaleAtomScales, odd = chunk % 2;
    if (chunk / kChunksPerStep >= steps) return;
    const u32 to = base + chunk / kChunksPerStep * kStageBytes + chunk % kChunksPerStep * kChunkBytes +
                   first * kTokenRowBytes;
    const u32 piece = block % kScaleAtomScales * 2 + odd;
#pragma unroll
    for (u32 i = 0; i < kPasses; ++i) {
      const u32 token = first + i * kPassTokens;
      if (token >= tile) break;
      const u32 factor = ue4m3_to_f16(scale[i]);
#pragma unroll
      for (u32 h = 0; h < 2; ++h) {
        u32 v[4];
        decode_row((h == 0) == (odd == 0) ? code[i][0] : code[i][1], factor, v);
        isa::st_shared_v4(to + i * (kPassTokens * kTokenRowBytes) + ((piece ^ h) ^ token % 8) * 16, v[0],
                          v[1], v[2], v[3]);
      }
    }
  }
};
template <u32 kMaxTile, u32 kWarps>
struct Local<0, kMaxTile, kWarps> {
  __device__ __forceinline__ Local(const Params&, const Span&, u32) {}
  __device__ __forceinline__ void load() {}
  template <u32 kStageBytes, u32 kChunkBytes>
  __device__ __forceinline__ void expand(u32, u32) const {}
};

}  // namespace fp4lab::sm90
