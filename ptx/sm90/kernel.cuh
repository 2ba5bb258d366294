// NVFP4 GEMM on Hopper: C[m][n] = A[m][k] * B[n][k]^T, persistent and warp-specialised, for ragged groups.
//
// What: weights are the wgmma A operand, decoded in registers; tokens are wgmma N (8..256 in steps of 8),
// expanded
//   to fp16 once, in the same launch.
// Limits: tokens of a tile a multiple of 8 up to 256 and one of FP4LAB_TOKEN_TILES; C's n a multiple of 8;
// every CTA
//   of the grid resident at once (tokens are loaded after all CTAs have expanded their shares).
// Shared memory: work.h's stage_bytes and shared_bytes.
// Barriers: full[stage] 2 arrivals (weights, tokens) + bytes; empty[stage] the math warps;
//   bar 1 + w: math warpgroup w; bar 8: this CTA's share of the first range is expanded;
//   bar 9: this CTA's partial sums are in global memory; bar 10: the math warps; bar 11: the last stage is
//   free of the codes and scales of the local steps; bar 12: this CTA has announced its share.
// Roles: warpgroup 0: warp 0 loads weights, warp 1 tokens, warps 2 and 3 expand activations for the whole
// grid, warp 2 tells other units of partial sums; each other warpgroup decodes and multiplies 64 rows, after
// all of them have expanded the tokens of the unit's first steps.
#pragma once
#include "fp4lab/sm90/work.h"
#include "isa/mbarrier.cuh"
#include "isa/tma.cuh"
#include "isa/wgmma.cuh"
#include "sm90/decode.cuh"
#include "sm90/expand.cuh"
#include "sm90/store.cuh"

namespace fp4lab::sm90 {

// L2 cache policies as createpolicy.fractional would make them (PTX ISA 9.7.9.18; values as public kernels
// carry them).
constexpr u64 kL2EvictFirst = 0x12f0000000000000ull;
constexpr u64 kL2EvictLast = 0x14f0000000000000ull;

template <int kMaxTile_, int kWarpgroups_, int kStages_, int kLocal_, bool kDual_, bool kLoops_ = false,
          bool kAtOnce_ = false>
struct Config {
  static constexpr int kMaxTile = kMaxTile_, kWarpgroups = kWarpgroups_, kStages = kStages_, kLocal = kLocal_;
  static constexpr bool kDual = kDual_;
  // One loop for each size of tile; all activations expanded before the first product.
  static constexpr bool kLoops = kLoops_, kAtOnce = kAtOnce_;
  static constexpr u32 kChunkBytes = kMaxTile * kTokenRowBytes;
  static constexpr u32 kTokenBytes = kChunksPerStep * kChunkBytes;
  static constexpr u32 kWeightBytes = kWarpgroups * kWarpgroupStepBytes;
  static constexpr u32 kStageBytes = stage_bytes(kMaxTile, kWarpgroups);
  static constexpr u32 kStaging = kStages * kStageBytes;
  static constexpr u32 kStagingBytes = staging_bytes(kMaxTile, kWarpgroups, kStages);
  static constexpr u32 kFull = kStaging + kWarpgroups * 4 * kStagingBytes;
  static constexpr u32 kEmpty = kFull + 8 * kStages;
  static constexpr u32 kAllThreads = 128 * (1 + kWarpgroups), kMathThreads = 128 * kWarpgroups;
  static constexpr u32 kExpanded = 8, kMath = 10, kRaw = 11, kAnnounced = 12;  // barrier ids
  // Codes and scales of the local steps: the last stage's tokens and weights.
  static constexpr u32 kRawCodes = (kStages - 1) * kStageBytes, kRawScales = kRawCodes + kTokenBytes;
  // setmaxnreg shares out what the launch took: 65536 / threads, rounded down to 8, for every thread.
  static constexpr int kLaunchRegisters = 65536 / (128 * (1 + kWarpgroups)) / 8 * 8;
  static constexpr int kMathRegisters = kWarpgroups == 2 ? 232 : kWarpgroups == 3 ? 160 : 112;
  static constexpr int kProducerRegisters = kWarpgroups == 2 ? 40 : 32;
  static_assert(kWarpgroups >= 2 && kWarpgroups <= static_cast<int>(kMaxMathWarpgroups));
  static_assert(kProducerRegisters + kWarpgroups * kMathRegisters <= (1 + kWarpgroups) * kLaunchRegisters);
  static_assert(kMaxTile % 8 == 0 && kMaxTile <= static_cast<int>(kMaxTokens));
  static_assert(kLocal >= 0 && kLocal < kStages && kLocal <= static_cast<int>(kMostLocalSteps));
  static_assert(Local<kLocal>::kPitch <= kChunksPerStep * kTokenRowBytes &&
                3 * Local<kLocal>::kChunks * kScaleAtomBytes <=
                    kWeightBytes);  // a tile meets 3 rows of atoms
  static_assert(shared_bytes(kMaxTile, kWarpgroups, kStages) == kEmpty + 8 * kStages);
  static_assert(kEmpty + 8 * kStages <= kSharedLimit, "more shared memory than a CTA may have");
};

// Position in the ring of stages; a stage's n-th use has parity n % 2.
template <int kStages>
struct Ring {
  u32 stage = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

__device__ __forceinline__ void wait_for(u32 barrier, u32 parity) {
  while (!isa::mbarrier_try_wait_parity(barrier, parity)) {
  }
}

template <class C>
__device__ __forceinline__ void wait_for_raw(bool& raw) {
  isa::bar_sync(C::kRaw, 64 + C::kMathThreads);
  raw = false;
}

template <class C>
__device__ __forceinline__ void wait_for_announcement() {
  isa::bar_sync(C::kExpanded, C::kAllThreads);
  isa::bar_sync(C::kAnnounced, 64);
}

// Warp 0: the packed weights of every step of the unit. They need nothing from earlier kernels; the first
// step's are asked for at once, the others when this CTA's activations are announced: all CTAs wait for
// those, and the fence takes longer while weights stream in.
template <class C>
__device__ __forceinline__ void load_weights(const Params& p, const Work* work, u32 base) {
  if (work->steps == 0) {
    wait_for_announcement<C>();
    return;
  }
  const bool elected = isa::elect_sync();
  Ring<C::kStages> ring;
  bool first = true, raw = true;
  do {
    const u8* from = p.weights + work->weights;
    for (u32 left = work->steps; left != 0; --left) {
      const u32 full = base + C::kFull + 8 * ring.stage;
      wait_for(base + C::kEmpty + 8 * ring.stage, ring.parity ^ 1);
      if (raw && ring.stage == C::kStages - 1) wait_for_raw<C>(raw);
      if (elected) {
        isa::mbarrier_arrive_expect_tx(full, C::kWeightBytes);
        isa::cp_async_bulk(base + ring.stage * C::kStageBytes + C::kTokenBytes, from, C::kWeightBytes, full,
                           kL2EvictFirst);
      }
      from += C::kWeightBytes;
      ring.advance();
      if (first) wait_for_announcement<C>();
      first = false;
    }
  } while ((work++)->last == 0);
  if (raw) wait_for_raw<C>(raw);
}

// Warp 1: the expanded tokens, each range when all CTAs have expanded their shares of it.
template <class C>
__device__ __forceinline__ void load_tokens(const Params& p, const Work* work, u32 base) {
  if (work->steps == 0) return;
  const bool elected = isa::elect_sync();
  Ring<C::kStages> ring;
  u32 skip = min(static_cast<u32>(C::kLocal), work->steps);
  for (u32 i = 0; i < skip; ++i) ring.advance();
  u32 ready = 0;  // bit r: range r is there
  bool raw = true;
  do {
    const u32 stride = work->token_stride;
    const u8* from = p.tokens + work->tokens + static_cast<u64>(skip * kChunksPerStep) * stride;
    const u32 bytes = work->tile * kTokenRowBytes;
    const u32 end = work->first_step + work->steps;
    for (u32 step = work->first_step + skip; step != end; ++step) {
      const u32 range = C::kAtOnce ? 0 : step / kStepsPerRange;
      if ((ready >> range & 1) == 0) {
        wait_for_range(p, range);
        ready |= 1u << range;
      }
      const u32 full = base + C::kFull + 8 * ring.stage;
      wait_for(base + C::kEmpty + 8 * ring.stage, ring.parity ^ 1);
      if (raw && ring.stage == C::kStages - 1) wait_for_raw<C>(raw);
      if (elected) {
        isa::mbarrier_arrive_expect_tx(full, kChunksPerStep * bytes);
        const u32 to = base + ring.stage * C::kStageBytes;
#pragma unroll
        for (u32 chunk = 0; chunk < kChunksPerStep; ++chunk)
          isa::cp_async_bulk(to + chunk * C::kChunkBytes, from + chunk * stride, bytes, full, kL2EvictLast);
      }
      from += kChunksPerStep * stride;
      ring.advance();
    }
    skip = 0;
  } while ((work++)->last == 0);
  if (raw) wait_for_raw<C>(raw);
}

// Math warps: a share of the first range for the grid, and the tokens of the unit's first steps for this CTA.
template <class C>
__device__ __forceinline__ void expand_first(const Params& p, const Work* work, u32 base) {
  const u32 thread = threadIdx.x - 128, warp = thread / 32, warps = 4 * C::kWarpgroups;
  const Work w = *work;
  const Local<C::kLocal> local(p, w, base + C::kRawCodes, base + C::kRawScales);
  const shares<C::kAtOnce> share(p, warp, warps);
  isa::griddepcontrol_wait();
  if (C::kLocal != 0 && w.steps != 0) local.load(thread, C::kMathThreads);
  share.expand(p, 0);
  isa::fence_proxy_async_global();
  isa::bar_arrive(C::kExpanded, C::kAllThreads);
  if (w.steps == 0) return;
  if constexpr (C::kLocal != 0) {
    const u32 steps = min(static_cast<u32>(C::kLocal), w.steps);
    isa::cp_async_wait_all();
    isa::bar_sync(C::kMath, C::kMathThreads);
    local.template expand<C::kStageBytes, C::kChunkBytes>(steps, base, warp, warps);
    isa::fence_proxy_async_shared();
    isa::bar_sync(C::kMath, C::kMathThreads);
    if (thread < steps) isa::mbarrier_arrive(base + C::kFull + 8 * thread);
  }
  isa::bar_arrive(C::kRaw, 64 + C::kMathThreads);
}

template <class C>
struct Math {
  const Params& p;
  u32 base, warpgroup, thread;
  u32 codes, scales;  // where in a stage this thread's codes and scales are
  Ring<C::kStages> ring{};

  __device__ __forceinline__ Math(const Params& params, u32 base_, u32 warpgroup_, u32 thread_)
      : p(params), base(base_), warpgroup(warpgroup_), thread(thread_) {
    const u32 weights = base + C::kTokenBytes + warpgroup * kWarpgroupStepBytes;
    codes = weights + thread * 16;
    scales = weights + kCodeBytes + thread / 4 * 16;
    // Kept, or the compiler makes them again, special register and all, in every chunk.
    isa::keep(codes);
    isa::keep(scales);
  }

  using Fragment = u32[4][4];
  struct Packed {
    u32 codes[4], scales[4];
  };

  // This thread's codes and scales of one chunk of its 64 x 64 weights.
  __device__ __forceinline__ void take(Packed& packed, u32 stage, u32 chunk) const {
    isa::ld_shared_v4(codes + stage * C::kStageBytes + chunk * kBlockBytes, packed.codes);
    isa::ld_shared_v4(scales + stage * C::kStageBytes + chunk * kBlockBytes, packed.scales);
  }
  __device__ __forceinline__ static void decode(const Packed& packed, Fragment& a) {
#pragma unroll
    for (int j = 0; j < 4; ++j) decode_fragment(packed.codes[j], packed.scales[j], a[j]);
  }
  // The fragment's registers are read until its group is complete.
  __device__ __forceinline__ static void keep(Fragment& a) {
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) isa::keep(a[j][r]);
  }
  // The four products of one chunk, one group. The choice of wgmma's N is here, around the products alone:
  // ptxas adds up the wgmma registers of loops that exclude each other, and of fragments decoded in
  // alternative places, and serialises the products (C7511, C7512) when they are too many.
  __device__ __forceinline__ void multiply(u32 tile_index, float (&acc)[C::kMaxTile / 2], Fragment& a,
                                           u64 tokens) const {
    keep(a);
    switch (tile_index) {
#define FP4LAB_CASE(index, tile)    \
  case index:                       \
    products<tile>(acc, a, tokens); \
    break;
      FP4LAB_TOKEN_TILES(FP4LAB_CASE)
#undef FP4LAB_CASE
      default:
        __builtin_unreachable();  // the plan lists every tile
    }
  }
  template <int kTile>
  __device__ __forceinline__ static void products(float (&acc)[C::kMaxTile / 2], Fragment& a, u64 tokens) {
    float(&d)[kTile / 2] = *reinterpret_cast<float(*)[kTile / 2]>(&acc);
    isa::wgmma_fence();
#pragma unroll
    for (int j = 0; j < 4; ++j) isa::wgmma_f32_f16<kTile>(d, a[j], tokens + 2 * j, true);
    isa::wgmma_commit_group();
  }
  // How a loop starts the products of a chunk: v0 decides each time, the others know.
  struct AnySize {
    const Math& math;
    u32 tile_index;
    __device__ __forceinline__ void operator()(float (&acc)[C::kMaxTile / 2], Fragment& a, u64 tokens) const {
      math.multiply(tile_index, acc, a, tokens);
    }
  };
  template <int kTile>
  struct OneSize {
    __device__ __forceinline__ void operator()(float (&acc)[C::kMaxTile / 2], Fragment& a, u64 tokens) const {
      keep(a);
      products<kTile>(acc, a, tokens);
    }
  };
  // One arrival a warp.
  __device__ __forceinline__ void release(u32 stage) const {
    isa::bar_warp_sync();  // all lanes have read: .aligned alone orders no memory (9.7.13.2)
    if (thread % 32 == 0) isa::mbarrier_arrive(base + C::kEmpty + 8 * stage);
  }

  // The sums of a piece. While the tensor cores run one chunk, the next is decoded into the registers of the
  // chunk before, which wait_group 1 has finished.
  template <class Multiply>
  __device__ __forceinline__ void accumulate(u32 steps, float (&acc)[C::kMaxTile / 2], Multiply multiply) {
    // Zeros here and in `odd`, and no first product without D: registers undefined at their first use would
    // be live from the kernel's start.
    Fragment even, odd = {};
#pragma unroll
    for (int i = 0; i < C::kMaxTile / 2; ++i) acc[i] = 0;
    Packed first, second;  // codes of the even chunk of the next step, of the odd chunk of this one
    u32 stage = ring.stage, previous = C::kStages;
    wait_for(base + C::kFull + 8 * ring.stage, ring.parity);
    take(first, ring.stage, 0);
    take(second, ring.stage, 1);
    ring.advance();
    decode(first, even);
    for (u32 left = steps; left != 0; --left) {
      const u64 tokens = isa::wgmma_descriptor_k_major_128b(base + stage * C::kStageBytes);
      const bool more = left > 1;
      multiply(acc, even, tokens);
      // Asked early, so that the answer is there when the codes are wanted.
      const u32 next_full = base + C::kFull + 8 * ring.stage;
      const bool ready = isa::mbarrier_test_wait_parity(next_full, ring.parity);
      isa::wgmma_wait_group<1>();
      keep(odd);
      if (previous != C::kStages) release(previous);
      decode(second, odd);
      if (more && ready) {
        take(first, ring.stage, 0);
        take(second, ring.stage, 1);
      }
      multiply(acc, odd, tokens + C::kChunkBytes / 16);
      previous = stage;
      if (more) {
        if (!ready) {
          wait_for(next_full, ring.parity);
          take(first, ring.stage, 0);
          take(second, ring.stage, 1);
        }
        stage = ring.stage;
        ring.advance();
      }
      isa::wgmma_wait_group<1>();
      keep(even);
      if (more) decode(first, even);
    }
    isa::wgmma_wait_group<0>();
    keep(odd);
    release(previous);
#pragma unroll
    for (int i = 0; i < C::kMaxTile / 2; ++i) isa::keep(acc[i]);
  }

  // What the math warps need of a Work, all at once: each field would be a trip to the L2 of its own. Read
  // again behind the products, where registers are short; it is in the L1 then.
  struct Piece {
    u32 steps, group, row, token, tile, tile_index, helpers;
    bool finishes, last;
  };
  __device__ __forceinline__ static Piece read(const Work* work) {
    const u8* from = reinterpret_cast<const u8*>(work);
    u32 a[4], b[4], c[4];
    isa::ld_global_v4(from + 16, a);
    isa::ld_global_v4(from + 32, b);
    isa::ld_global_v4(from + 48, c);
    return {a[3], b[0], b[1], b[2], b[3] & 0xffff, b[3] >> 16 & 0xff, c[0], b[3] >> 24 != 0, c[1] != 0};
  }

  // One piece; says whether it was the last.
  __device__ __forceinline__ bool item(u32 index, u32 staging) {
    float acc[C::kMaxTile / 2];
    {
      const Piece early = read(p.work + index);
      if constexpr (C::kLoops) {
        // A loop for each size of tile, with nothing to decide in it: the compiler starts the products of the
        // first fragment while it decodes the others. For a few sizes only (the plan's tile_step): ptxas
        // counts the registers of all loops together, and serialises the products when they are too many.
        switch (early.tile_index) {
#define FP4LAB_CASE(index, tile)                   \
  case index:                                      \
    accumulate(early.steps, acc, OneSize<tile>{}); \
    break;
          FP4LAB_TOKEN_TILES(FP4LAB_CASE)
#undef FP4LAB_CASE
          default:
            __builtin_unreachable();  // the plan lists every tile
        }
      } else {
        accumulate(early.steps, acc, AnySize{*this, early.tile_index});
      }
    }
    const Piece w = read(p.work + index);
    const u32 tile = w.tile;
    if (!w.finishes) {
      publish_partial<C::kMaxTile, C::kWarpgroups>(p, tile, warpgroup, thread, acc);
      return w.last;
    }
    add_partials<C::kMaxTile, C::kWarpgroups>(p, tile, w.helpers, warpgroup, thread, acc);
    const Group& g = p.groups[w.group];
    const u32 row = w.row + warpgroup * kRowsPerWarpgroup;
    const u32 tokens = min(tile, g.m - w.token);
    const Tile to{g.out, g.n, C::kDual ? row / 2 : row, w.token, tokens};
    if constexpr (C::kDual) {
      store_dual_tile<C::kMaxTile, C::kStagingBytes>(to, staging, 1 + warpgroup, acc);
    } else {
      store_tile<C::kMaxTile, C::kStagingBytes>(to, staging, 1 + warpgroup, acc);
    }
    return w.last;
  }
};

__device__ __forceinline__ const Work* first_piece(const Params& p) {
  return p.work + blockIdx.x * p.pieces_per_unit;
}

template <class C>
__device__ __forceinline__ void gemm(const Params& p) {
  extern __shared__ __align__(1024) u8 shared[];
  const u32 base = isa::shared_address(shared);
  const u32 warp = isa::shfl_sync_idx(threadIdx.x / 32, 0);  // uniform, and the compiler knows

  if (threadIdx.x == 0) {
    for (u32 s = 0; s < C::kStages; ++s) {
      isa::mbarrier_init(base + C::kFull + 8 * s, 2);
      isa::mbarrier_init(base + C::kEmpty + 8 * s, C::kWarpgroups * 4);
    }
    isa::fence_mbarrier_init();
  }
  isa::bar_sync_all();
  isa::griddepcontrol_launch_dependents();

  if (warp < 4) {
    isa::setmaxnreg_dec<C::kProducerRegisters>();
    if (warp == 0) {
      load_weights<C>(p, first_piece(p), base);
    } else if (warp == 1) {
      isa::griddepcontrol_wait();
      isa::bar_sync(C::kExpanded, C::kAllThreads);
      if (threadIdx.x % 32 == 0) isa::red_add_release_gpu(p.arrived, 1);
      isa::bar_arrive(C::kAnnounced, 64);
      load_tokens<C>(p, first_piece(p), base);
      leave_ranges(p);
    } else {
      const Work* work = first_piece(p);
      const bool helps = warp == 2 && work->steps != 0 && !work->finishes;
      prefetch_share(p, warp - 2, kExpanderWarps, 0, kMaxRanges);
      isa::griddepcontrol_wait();
      isa::bar_sync(C::kExpanded, C::kAllThreads);
      expand_later_ranges(p, warp - 2);
      leave_ranges(p);
      if (helps) raise_flags<C::kWarpgroups>(p);
    }
  } else {
    isa::setmaxnreg_inc<C::kMathRegisters>();
    expand_first<C>(p, first_piece(p), base);
    Math<C> math(p, base, warp / 4 - 1, threadIdx.x % 128);
    const u32 staging = base + C::kStaging + (warp / 4 - 1) * 4 * C::kStagingBytes;  // the warpgroup's
    // An index, not a pointer: one register through the products.
    u32 piece = blockIdx.x * p.pieces_per_unit;
    if (p.work[piece].steps != 0)
      while (!math.item(piece++, staging)) {
      }
  }
}

}  // namespace fp4lab::sm90
