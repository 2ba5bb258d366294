// NVFP4 GEMM on Hopper: C[m][n] = A[m][k] * B[n][k]^T, persistent and warp-specialised, for ragged groups.
//
// What: weights are the wgmma A operand, decoded in registers; tokens are wgmma N (8..256 in steps of 8),
//   expanded to fp16 once, in the same launch.
// Limits: tokens of a tile a multiple of 8 up to 256 and one of FP4LAB_TOKEN_TILES; C's n a multiple of 8;
//   every CTA of the grid resident at once (tokens are loaded after all CTAs have expanded their shares).
// Shared memory: work.h's stage_bytes and shared_bytes.
// Barriers: full[stage] 2 arrivals (weights, tokens) + bytes; empty[stage] the math warps;
//   bar 1 + w: math warpgroup w; bar 8: this CTA's share of the first range is expanded;
//   bar 9: this CTA's partial sums are in global memory; bar 10: the math warps; bar 11: this CTA has
//   announced its share.
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
          bool kAtOnce_ = false, bool kHalves_ = false>
struct Config {
  static constexpr int kMaxTile = kMaxTile_, kWarpgroups = kWarpgroups_, kStages = kStages_, kLocal = kLocal_;
  static constexpr bool kDual = kDual_;
  // One loop for each size of tile; all activations expanded before the first product.
  static constexpr bool kLoops = kLoops_, kAtOnce = kAtOnce_;
  static constexpr bool kHalves = kHalves_;  // tiles in halves between neighbours
  static constexpr u32 kChunkBytes = kMaxTile * kTokenRowBytes;
  static constexpr u32 kTokenBytes = kChunksPerStep * kChunkBytes;
  static constexpr u32 kWeightBytes = kWarpgroups * kWarpgroupStepBytes;
  static constexpr u32 kStageBytes = stage_bytes(kMaxTile, kWarpgroups);
  static constexpr u32 kStaging = kStages * kStageBytes;
  static constexpr u32 kStagingBytes = staging_bytes(kMaxTile, kWarpgroups, kStages);
  static constexpr u32 kFull = kStaging + kWarpgroups * 4 * kStagingBytes;
  static constexpr u32 kEmpty = kFull + 8 * kStages;
  static constexpr u32 kAllThreads = 128 * (1 + kWarpgroups), kMathThreads = 128 * kWarpgroups;
  static constexpr u32 kExpanded = 8, kMath = 10, kAnnounced = 11;  // barrier ids
  // setmaxnreg shares out what the launch took: 65536 / threads, rounded down to 8, for every thread.
  static constexpr int kLaunchRegisters = 65536 / (128 * (1 + kWarpgroups)) / 8 * 8;
  static constexpr int kMathRegisters = kWarpgroups == 2 ? 232 : kWarpgroups == 3 ? 160 : 112;
  static constexpr int kProducerRegisters = kWarpgroups == 2 ? 40 : 32;
  static_assert(kWarpgroups >= 2 && kWarpgroups <= static_cast<int>(kMaxMathWarpgroups));
  static_assert(kProducerRegisters + kWarpgroups * kMathRegisters <= (1 + kWarpgroups) * kLaunchRegisters);
  static_assert(kMaxTile % 8 == 0 && kMaxTile <= static_cast<int>(kMaxTokens));
  static_assert(kLocal >= 0 && kLocal < kStages && kLocal <= static_cast<int>(kMostLocalSteps));
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
__device__ __forceinline__ void wait_for_announcement() {
  isa::bar_sync(C::kExpanded, C::kAllThreads);
  isa::bar_sync(C::kAnnounced, 64);
}

__device__ __forceinline__ const Work* first_work(const Params& p) {
  return p.work + blockIdx.x * p.pieces_per_unit;
}

// Warp 0: the packed weights of every step of the unit. They need nothing from earlier kernels; the first
// step's are asked for at once, the others when this CTA's activations are announced: all CTAs wait for
// those, and they take longer while weights stream in.
template <class C>
__device__ __forceinline__ void load_weights(const Params& p, u32 base) {
  const bool elected = isa::elect_sync();
  Ring<C::kStages> ring;
  bool first = true;
  Span s = first_span<C::kWarpgroups>(p);
  if (s.steps != 0)
    for (const Work* work = first_work(p);; s = span_of(*++work)) {
      const u8* from = p.weights + s.weights;
      for (u32 left = s.steps; left != 0; --left) {
        const u32 full = base + C::kFull + 8 * ring.stage;
        wait_for(base + C::kEmpty + 8 * ring.stage, ring.parity ^ 1);
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
      if (s.last) break;
    }
  if (first) wait_for_announcement<C>();
}

// Warp 1: the expanded tokens, each range when all CTAs have expanded their shares of it.
template <class C>
__device__ __forceinline__ void load_tokens(const Params& p, u32 base) {
  Span s = first_span<C::kWarpgroups>(p);
  if (s.steps == 0) return;
  const bool elected = isa::elect_sync();
  Ring<C::kStages> ring;
  u32 skip = min(static_cast<u32>(C::kLocal), s.steps);
  for (u32 i = 0; i < skip; ++i) ring.advance();
  u32 ready = 0;  // bit r: range r is there
  for (const Work* work = first_work(p);; s = span_of(*++work)) {
    const u8* from = p.tokens + s.tokens + static_cast<u64>(skip * kChunksPerStep) * s.stride;
    const u32 bytes = s.tile * kTokenRowBytes;
    const u32 end = s.first_step + s.steps;
    for (u32 step = s.first_step + skip; step != end; ++step) {
      const u32 range = C::kAtOnce ? 0 : step / kStepsPerRange;
      if ((ready >> range & 1) == 0) {
        wait_for_range(p, range);
        ready |= 1u << range;
      }
      const u32 full = base + C::kFull + 8 * ring.stage;
      wait_for(base + C::kEmpty + 8 * ring.stage, ring.parity ^ 1);
      if (elected) {
        isa::mbarrier_arrive_expect_tx(full, kChunksPerStep * bytes);
        const u32 to = base + ring.stage * C::kStageBytes;
#pragma unroll
        for (u32 chunk = 0; chunk < kChunksPerStep; ++chunk)
          isa::cp_async_bulk(to + chunk * C::kChunkBytes, from + chunk * s.stride, bytes, full, kL2EvictLast);
      }
      from += kChunksPerStep * s.stride;
      ring.advance();
    }
    if (s.last) break;
    skip = 0;
  }
}

// Math warps: a share of the first range for the grid, and the tokens of the unit's first steps for this CTA.
template <class C>
__device__ __forceinline__ void expand_first(const Params& p, u32 base) {
  constexpr u32 kWarps = 4 * C::kWarpgroups;
  const u32 thread = threadIdx.x - 128, warp = thread / 32;
  const Span s = first_span<C::kWarpgroups>(p);
  Local<C::kLocal, C::kMaxTile, kWarps> local(p, s, warp);
  shares<C::kAtOnce> share(p, warp, kWarps);
  share.prepare(p);
  isa::griddepcontrol_wait();
  share.start(p);
  if (C::kLocal != 0 && s.steps != 0) local.load();
  share.finish(p);
  isa::fence_proxy_async_global();
  isa::bar_arrive(C::kExpanded, C::kAllThreads);
  if (C::kLocal != 0 && s.steps != 0) {
    const u32 steps = min(static_cast<u32>(C::kLocal), s.steps);
    local.template expand<C::kStageBytes, C::kChunkBytes>(steps, base);
    isa::fence_proxy_async_shared();
    isa::bar_sync(C::kMath, C::kMathThreads);
    if (thread < steps) isa::mbarrier_arrive(base + C::kFull + 8 * thread);
  }
}

template <class C>
struct Math {
  const Params& p;
  u32 base, warpgroup, thread;
  u32 codes, scales;  // where in a stage this thread's codes and scales are
  u64 descriptor;     // of stage 0's tokens
  Ring<C::kStages> ring{};
  bool together = true;  // the warpgroups have not been set apart

  __device__ __forceinline__ Math(const Params& params, u32 base_, u32 warpgroup_, u32 thread_)
      : p(params), base(base_), warpgroup(warpgroup_), thread(thread_) {
    const u32 weights = base + C::kTokenBytes + warpgroup * kWarpgroupStepBytes;
    codes = weights + thread * 16;
    scales = weights + kCodeBytes + thread / 4 * 16;
    // Kept, or the compiler makes them again, special register and all, in every chunk.
    isa::keep(codes);
    isa::keep(scales);
    descriptor = isa::wgmma_descriptor_k_major_128b(base);
    isa::keep(descriptor);
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
  __device__ __forceinline__ static void unpack(const Packed& packed, Fragment& codes) {
#pragma unroll
    for (int j = 0; j < 4; ++j) unpack_fragment(packed.codes[j], codes[j]);
  }
  // Here, and not later.
  __device__ __forceinline__ static void unpack_early(const Packed& packed, Fragment& codes) {
    unpack(packed, codes);
    keep(codes);
  }
  __device__ __forceinline__ static void scale(const Fragment& codes, const Packed& packed, Fragment& a) {
#pragma unroll
    for (int j = 0; j < 4; ++j) scale_fragment(codes[j], packed.scales[j], a[j]);
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
    if (thread % 32 == 0 && stage != C::kStages) isa::mbarrier_arrive(base + C::kEmpty + 8 * stage);
  }

  // Once, before the first product: one warpgroup decodes while the other multiplies. Left alone they may
  // fall into step, which costs up to 4 % of all their time.
  __device__ __forceinline__ void set_apart() {
    if (!together) return;
    together = false;
    const u32 begin = isa::clock();
    while (isa::clock() - begin < warpgroup * (2 * C::kMaxTile)) {
    }
  }

  // The sums of a piece. While the tensor cores run one chunk, the next is decoded into the registers of the
  // chunk before, which wait_group 1 has finished. `meanwhile` is done beside the last.
  template <class Multiply, class Meanwhile>
  __device__ __forceinline__ void accumulate(u32 steps, float (&acc)[C::kMaxTile / 2], Multiply multiply,
                                             Meanwhile meanwhile) {
    // Zeros here and in `odd`, and no first product without D: registers undefined at their first use would
    // be live from the kernel's start.
    Fragment even, odd = {};
#pragma unroll
    for (int i = 0; i < C::kMaxTile / 2; ++i) acc[i] = 0;
    // In a block of its own, ahead of the branch, ptxas puts it between the products; of large tiles it
    // spills.
    constexpr bool kUnpackEarly = C::kMaxTile <= 128;
    Packed first, second;  // codes of the even chunk of the next step, of the odd chunk of this one
    u32 stage = ring.stage, previous = C::kStages;
    wait_for(base + C::kFull + 8 * ring.stage, ring.parity);
    take(first, ring.stage, 0);
    take(second, ring.stage, 1);
    ring.advance();
    Fragment unpacked;
    unpack(first, unpacked);
    scale(unpacked, first, even);
    set_apart();
    for (u32 left = steps;;) {
      const u64 tokens = descriptor + static_cast<u64>(stage) * (C::kStageBytes / 16);
      multiply(acc, even, tokens);
      const bool more = --left != 0;
      // Asked early, so that the answer is there when the codes are wanted.
      const u32 next_full = base + C::kFull + 8 * ring.stage;
      const bool ready = isa::mbarrier_test_wait_parity(next_full, ring.parity);
      if constexpr (kUnpackEarly) unpack_early(second, unpacked);
      isa::wgmma_wait_group<1>();
      keep(odd);
      if constexpr (!kUnpackEarly) unpack(second, unpacked);
      release(previous);
      scale(unpacked, second, odd);
      if (more && ready) {
        take(first, ring.stage, 0);
        take(second, ring.stage, 1);
      }
      multiply(acc, odd, tokens + C::kChunkBytes / 16);
      previous = stage;
      if constexpr (kUnpackEarly) unpack_early(first, unpacked);
      if (!more) break;
      if (!ready) {
        wait_for(next_full, ring.parity);
        take(first, ring.stage, 0);
        take(second, ring.stage, 1);
        if constexpr (kUnpackEarly) unpack_early(first, unpacked);
      }
      stage = ring.stage;
      ring.advance();
      isa::wgmma_wait_group<1>();
      keep(even);
      if constexpr (!kUnpackEarly) unpack(first, unpacked);
      scale(unpacked, first, even);
    }
    meanwhile();
    isa::wgmma_wait_group<0>();
    keep(even);
    keep(odd);
    release(previous);
#pragma unroll
    for (int i = 0; i < C::kMaxTile / 2; ++i) isa::keep(acc[i]);
  }

  // What the math warps need of a Work, all at once: each field would be a trip to the L2 of its own. Read
  // again behind the products, where registers are short; it is in the L1 then.
  struct Piece {
    u32 steps, group, row, token, tile, tile_index, helpers, half;
    bool finishes, last;
  };
  __device__ __forceinline__ static Piece read(const Work* work) {
    const u8* from = reinterpret_cast<const u8*>(work);
    u32 a[4], b[4], c[4];
    isa::ld_global_v4(from + 16, a);
    isa::ld_global_v4(from + 32, b);
    isa::ld_global_v4(from + 48, c);
    return {a[3], b[0], b[1], b[2], b[3] & 0xffff, b[3] >> 16 & 0xff, c[0], c[2], b[3] >> 24 != 0, c[1] != 0};
  }

  // One piece, of which `early` has been read; says whether it was the last.
  __device__ __forceinline__ bool item(u32 index, const Piece& early, u32 staging) {
    float acc[C::kMaxTile / 2];
    Piece w;
    const auto meanwhile = [&] { w = read(p.work + index); };
    if constexpr (C::kLoops) {
      // A loop for each size of tile, with nothing to decide in it: the compiler starts the products of the
      // first fragment while it decodes the others. For a few sizes only (the plan's tile_step): ptxas
      // counts the registers of all loops together, and serialises the products when they are too many.
      switch (early.tile_index) {
#define FP4LAB_CASE(index, tile)                              \
  case index:                                                 \
    accumulate(early.steps, acc, OneSize<tile>{}, meanwhile); \
    break;
        FP4LAB_TOKEN_TILES(FP4LAB_CASE)
#undef FP4LAB_CASE
        default:
          __builtin_unreachable();  // the plan lists every tile
      }
    } else {
      accumulate(early.steps, acc, AnySize{*this, early.tile_index}, meanwhile);
    }
    const u32 tile = w.tile;
    if (!w.finishes) {
      publish_partial<C::kMaxTile, C::kWarpgroups>(p, 0, tile, warpgroup, thread, acc);
      return w.last;
    }
    // Tokens that this unit finishes: of a tile in halves, one half, with the neighbour's sums of it.
    u32 from = 0, end = tile;
    if constexpr (C::kHalves) {
      constexpr u32 kHalf = (C::kMaxTile / 2 + 31) / 32 * 32;
      if (w.half == 1) end = min(kHalf, tile);
      if (w.half == 2) from = kHalf;
      publish_partial<C::kMaxTile, C::kWarpgroups>(p, w.half == 1 ? kHalf : 0, w.half == 1 ? tile : kHalf,
                                                   warpgroup, thread, acc);
      const u32 neighbour = w.half == 1 ? blockIdx.x + 1 : blockIdx.x - 1;
      add_partial<C::kMaxTile, C::kWarpgroups>(p, neighbour, from, end, warpgroup, thread, acc);
    }
    for (u32 h = w.helpers; h > 0; --h)
      add_partial<C::kMaxTile, C::kWarpgroups>(p, blockIdx.x - h, 0, tile, warpgroup, thread, acc);
    const Group& g = p.groups[w.group];
    const u32 row = w.row + warpgroup * kRowsPerWarpgroup;
    const u32 tokens = min(end, g.m - w.token);
    const Tile to{g.out, g.n, C::kDual ? row / 2 : row, w.token, from, tokens};
    if constexpr (C::kDual) {
      store_dual_tile<C::kMaxTile, C::kStagingBytes>(to, staging, 1 + warpgroup, acc);
    } else {
      store_tile<C::kMaxTile, C::kStagingBytes>(to, staging, 1 + warpgroup, acc);
    }
    return w.last;
  }
};

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
      load_weights<C>(p, base);
    } else if (warp == 1) {
      isa::griddepcontrol_wait();
      isa::bar_sync(C::kExpanded, C::kAllThreads);
      if (threadIdx.x % 32 == 0) isa::red_add_release_gpu(p.arrived, 1);
      isa::bar_arrive(C::kAnnounced, 64);
      load_tokens<C>(p, base);
      leave_ranges(p);
    } else {
      prefetch_share(p, warp - 2, kExpanderWarps, 0, kMaxRanges);
      // For the translation of the addresses.
      const Span s = first_span<C::kWarpgroups>(p);
      const Group& g = p.groups[s.group];
      if (warp == 3) isa::prefetch_global_l2(g.out + static_cast<u64>(s.token) * g.n);
      if (warp == 2) isa::prefetch_global_l2(p.arrived);
      isa::griddepcontrol_wait();
      isa::bar_sync(C::kExpanded, C::kAllThreads);
      expand_later_ranges(p, warp - 2);
      leave_ranges(p);
      if (warp == 2 && s.steps != 0 && s.publishes) raise_flags<C::kWarpgroups>(p);
    }
  } else {
    isa::setmaxnreg_inc<C::kMathRegisters>();
    const u32 warpgroup = warp / 4 - 1;
    // An index, not a pointer: one register through the products.
    u32 piece = blockIdx.x * p.pieces_per_unit;
    typename Math<C>::Piece early = Math<C>::read(p.work + piece);
    expand_first<C>(p, base);
    if (early.steps == 0) return;
    Math<C> math(p, base, warpgroup, threadIdx.x % 128);
    const u32 staging = base + C::kStaging + warpgroup * 4 * C::kStagingBytes;  // the warpgroup's
    while (!math.item(piece, early, staging)) early = Math<C>::read(p.work + ++piece);
  }
}

}  // namespace fp4lab::sm90
