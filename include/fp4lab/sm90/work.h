// What the Hopper kernels read: byte layouts, the work list and the launch parameters. Host and device
// include this one file; it needs no other header (NVRTC has none).
#pragma once

#include "fp4lab/portable.h"

namespace fp4lab::sm90 {

// K is walked in steps of 128, each two chunks of 64: a chunk is one row of the 128-byte swizzle in fp16 and
// four wgmma steps of 16. K is padded with zeros to whole steps. Each math warpgroup of a CTA has 64 weight
// rows.
constexpr unsigned kChunk = 64;
constexpr unsigned kChunksPerStep = 2;
constexpr unsigned kStep = kChunk * kChunksPerStep;
constexpr unsigned kRowsPerWarpgroup = 64;
constexpr unsigned kMaxMathWarpgroups = 4;

// Packed weights: [tile of 64 * warpgroups rows][step][warpgroup][chunk of the step], blocks of
// 2048 bytes of codes (thread t: 16 bytes at 16 t, one 32-bit word per wgmma step) and 512 bytes of scales
// (warp w, lane / 4 = q: 16 bytes at 16 (8 w + q), one {row q, row q + 8} pair of fp16 per wgmma step).
constexpr unsigned kCodeBytes = 2048;
constexpr unsigned kScaleBytes = 512;
constexpr unsigned kBlockBytes = kCodeBytes + kScaleBytes;
constexpr unsigned kWarpgroupStepBytes = kBlockBytes * kChunksPerStep;
static_assert(kWarpgroupStepBytes % 1024 ==
              0);  // so that the token tile behind it keeps the swizzle's alignment

// Expanded activations of a group: [chunk][token, padded to 8][64 fp16], 16-byte pieces XORed with token % 8,
// which is the image that the 128-byte swizzle wants in shared memory.
constexpr unsigned kTokenRowBytes = kChunk * 2;
constexpr unsigned kMaxTokens = 256;  // wgmma N

// Activations are expanded by warps in ranges of K: the first range of every token before any product, by the
// math warps, the others behind the products, by two warps of the producers' warpgroup. A warp takes 256
// values of a token at a time, 8 a lane.
constexpr unsigned kChunksPerSegment = 4;
constexpr unsigned kSegmentsPerRange = 8;
constexpr unsigned kStepsPerRange = kSegmentsPerRange * kChunksPerSegment / kChunksPerStep;
constexpr unsigned kMaxRanges = 16;  // of K, 2048 each
constexpr unsigned kExpanderWarps = 2;
// The first steps of a unit's first piece each CTA expands by itself as well.
constexpr unsigned kMostLocalSteps = 2;

constexpr unsigned kMaxGroups = 32;  // they travel in the kernel's parameters

// Shared memory: [stage: tokens, two chunks | weights] x stages, staging of the math warps, barriers. A block
// of staging is 16 tokens x 16 rows of fp16; a warp has one, two or four, as the stages leave room.
constexpr unsigned kSharedLimit = 232448;
constexpr unsigned kStagingBlock = 512;
FP4LAB_HD constexpr unsigned stage_bytes(unsigned max_tile, unsigned warpgroups) {
  return kChunksPerStep * max_tile * kTokenRowBytes + warpgroups * kWarpgroupStepBytes;
}
FP4LAB_HD constexpr unsigned staging_bytes(unsigned max_tile, unsigned warpgroups, unsigned stages) {
  const unsigned used = stages * (stage_bytes(max_tile, warpgroups) + 2 * 8);
  const unsigned block = warpgroups * 4 * kStagingBlock;
  return used + 4 * block <= kSharedLimit   ? 4 * kStagingBlock
         : used + 2 * block <= kSharedLimit ? 2 * kStagingBlock
                                            : kStagingBlock;
}
FP4LAB_HD constexpr unsigned shared_bytes(unsigned max_tile, unsigned warpgroups, unsigned stages) {
  return stages * (stage_bytes(max_tile, warpgroups) + 2 * 8) +
         warpgroups * 4 * staging_bytes(max_tile, warpgroups, stages);
}

// One operand set: a group of the group GEMM, or the dual GEMM's only one.
struct Group {
  const unsigned char* a;        // [m][k/2] e2m1 pairs, low nibble first
  const unsigned char* a_scale;  // ue4m3, blocked 128x4 (scale_layout.h)
  unsigned short* out;           // [m][n] fp16
  unsigned long long tokens;     // byte offset of the expanded activations in the workspace
  unsigned m, m_padded;          // m_padded: multiple of 8
  unsigned n, k;
  unsigned chunks;       // ceil(k / 128) * 2
  unsigned first_token;  // running count of m_padded
};

// A piece of one output tile: 64 * warpgroups rows of the weights x `tile` tokens over `steps` steps of K.
struct Work {
  unsigned long long weights;  // byte offset of the first step's blocks
  unsigned long long tokens;   // byte offset of the first chunk's first token row in the workspace
  unsigned token_stride;       // bytes from one chunk to the next
  unsigned unused;
  unsigned first_step, steps;  // of K; 0 steps: the unit has nothing to do
  unsigned group;
  unsigned row, token;       // first weight row and first token of the tile
  unsigned short tile;       // tokens of the tile, multiple of 8
  unsigned char tile_index;  // of its size in the kernel's list of token tiles
  unsigned char finishes;    // 1: stores C, after adding the partial sums of `helpers` units before this one
  unsigned helpers;          // units unit - helpers .. unit - 1 hold partial sums of this tile
  unsigned last;             // 1: the unit has no further piece
  // 1, 2: the unit and the next one (the one before) each have a half of the tile's steps, add their sums,
  // and store the first (second) half of its tokens; both finish it.
  unsigned half;
  unsigned unused_too;  // a piece is read in 16-byte loads
};
static_assert(sizeof(Work) == 64);
#if !defined(__CUDACC__)  // ptx/sm90/kernel.cuh takes these from what it loads
static_assert(__builtin_offsetof(Work, steps) == 28 && __builtin_offsetof(Work, group) == 32 &&
              __builtin_offsetof(Work, tile) == 44 && __builtin_offsetof(Work, tile_index) == 46 &&
              __builtin_offsetof(Work, finishes) == 47 && __builtin_offsetof(Work, helpers) == 48 &&
              __builtin_offsetof(Work, last) == 52 && __builtin_offsetof(Work, half) == 56);
#endif

// A unit's first piece as far as it is wanted before its products. It comes with the parameters: a first look
// at the work list takes 800 ns, half of it for the translation of its address.
struct FirstPiece {
  unsigned weights;  // Work::weights in steps: of 64 * warpgroups rows
  unsigned short first_step, steps, token;
  unsigned char group;
  // tile / 8 - 1, + 32 when its sums go to another unit, + 64 when it is the last
  unsigned char tile_and_ends;

  FP4LAB_HD static constexpr unsigned char pack(unsigned tile, bool publishes, bool last) {
    return static_cast<unsigned char>(tile / 8 - 1 + (publishes ? 32 : 0) + (last ? 64 : 0));
  }
  FP4LAB_HD constexpr unsigned tile() const { return (tile_and_ends % 32 + 1) * 8; }
  FP4LAB_HD constexpr bool publishes() const { return (tile_and_ends & 32) != 0; }
  FP4LAB_HD constexpr bool last() const { return (tile_and_ends & 64) != 0; }
};
static_assert(sizeof(FirstPiece) == 12);
// They travel in the kernel's parameters; H100 and H200 have up to 132 SMs.
constexpr unsigned kMaxUnits = 144;

// Weights of one group, for the repack: b2 is null except for the dual GEMM.
struct Weights {
  const unsigned char *b, *b_scale, *b2, *b2_scale;  // [n][k/2] e2m1 pairs, ue4m3 blocked 128x4
  unsigned long long packed;                         // byte offset of the group in the packed weights
  unsigned n, k, tiles, steps;                       // n of one operand
  unsigned warpgroups;                               // a tile has 64 * warpgroups rows
};

struct Params {
  const Work* work;  // [unit][pieces_per_unit]
  const unsigned char* weights;
  unsigned char* tokens;
  float* partial;   // [cta][warpgroup][register / 4][128 threads][4]
  unsigned* flags;  // [cta][warpgroup], zero between launches
  // [kMaxRanges] arrivals of those who have expanded their share of a range, then [1] warps that need no
  // range any more; zero between launches
  unsigned* arrived;
  unsigned pieces_per_unit;
  unsigned group_count;
  unsigned token_count;  // padded, of all groups
  unsigned ranges;       // of K, of the group with the most; 1 when all activations are expanded at once
  unsigned segments;     // of K that a warp then expands at a time, 1..kSegmentsPerRange
  unsigned items;        // such pieces of all tokens
  Group groups[kMaxGroups];
  FirstPiece first[kMaxUnits];
};
static_assert(sizeof(Params) <= 4096);  // what a kernel takes without asking for more

}  // namespace fp4lab::sm90
