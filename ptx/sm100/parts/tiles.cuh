// From a tile's number to its place: group, first rows of both operands, MMA_N.
#pragma once
#include "sm100/parts/kernel.cuh"

namespace fp4lab {

struct Tile {
  int group;
  int left;   // first row of the left operand (MMA_M side)
  int right;  // first row of the right operand (MMA_N side)
  int n;      // rows of the right operand that are multiplied: those there, rounded up to the plan's step
  int part;   // of the tile's K, 0..GroupArgs::parts-1
};

// Half-open range of stages that a part of a tile multiplies; never empty.
struct StageRange {
  int begin, end;
};
__device__ __forceinline__ StageRange stage_range(const Args& args, const Tile& tile) {
  const GroupArgs& g = args.group[tile.group];
  const int stages = g.k / plan.block_k;
  if constexpr (plan.split_k == 1)
    return {0, stages};
  else
    return {stages * tile.part / g.parts, stages * (tile.part + 1) / g.parts};
}

// Groups are contiguous runs of tile numbers. No loop with an exit: the first tiles of up to 16 groups lie in
// a line or two of constants, which one round of comparisons needs.
__device__ __forceinline__ Tile find_tile(const Args& args, int number) {
  int group = 0;
#pragma unroll 16
  for (int next = 1; next < plan.group_capacity; ++next) group += number >= args.first_tile[next];
  const GroupArgs& g = args.group[group];
  int i = number - args.first_tile[group], part = 0;
  if constexpr (plan.split_k > 1) {  // the parts of a tile are neighbours
    part = i % g.parts;
    i /= g.parts;
  }
  int left, right;
  if constexpr (plan.raster == Raster::kRightFirst) {
    left = i / g.right_tiles;
    right = i - left * g.right_tiles;
  } else {
    right = i / g.left_tiles;
    left = i - right * g.left_tiles;
  }
  right *= plan.tile_columns();
  return {group, left * plan.mma_m, right, plan.tile_n(g.right_rows - right), part};
}

}  // namespace fp4lab
