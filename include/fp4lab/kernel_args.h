// What a kernel receives: one struct by value (__grid_constant__), tensor maps included. Host and kernel
// share this file; the host builds the same bytes for a capacity it learns at run time (args_layout in
// plan.h).
#pragma once

namespace fp4lab {

// A CUtensorMap, opaque: 128 bytes. cuda.h 13.0 aligns it to 128.
struct alignas(128) TensorMap {
  unsigned long long words[16];
};
static_assert(sizeof(TensorMap) == 128);

// One matrix product as the MMA sees it: rows of the left operand become MMA_M, rows of the right one MMA_N.
// Unswapped left = A (tokens) and right = B (weights); swapped the other way round.
struct alignas(16) GroupArgs {
  unsigned long long
      codes_left;  // device pointers; packed e2m1, [rows][k / 2]. Read only to edit maps on the device
  unsigned long long codes_right;
  unsigned long long scales_left;  // device pointers; blocked 128x4 layout, padded to 128 rows and 4 scales
  unsigned long long scales_right[2];  // [1] only for the dual GEMM (B2)
  unsigned long long c;                // fp16, row-major [M][N], 32-byte aligned
  int left_rows;
  int right_rows;
  int k;         // multiple of Plan::block_k
  int box_rows;  // rows of the right operand that one TMA load brings into this CTA
  int left_tiles;
  int right_tiles;
  int c_columns;  // N: the row pitch of C in elements
  int parts;      // in which each tile's K is split: Plan::split_k, or fewer when K is short
  int unused[4];
};
static_assert(sizeof(GroupArgs) == 96);

struct alignas(16) TailArgs {
  int tiles;  // all groups together, every part of a tile counted
  unsigned long long
      workspace;  // split-K partial sums and counters, or tensor maps edited on the device; 0 if unused
};

// map_groups: groups that come with tensor maps of their own; 1 when the kernel edits the first group's maps.
template <int capacity, int maps_per_group, int map_groups = capacity>
struct GemmArgs {
  TensorMap maps[map_groups][maps_per_group];
  GroupArgs group[capacity];
  TailArgs tail;
  int first_tile[capacity];  // tiles of the groups before this one; kNoTile where there is no group
};
constexpr int kNoTile = 0x7fffffff;

}  // namespace fp4lab
