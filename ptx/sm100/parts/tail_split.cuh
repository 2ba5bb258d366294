// The parts of a split tile as fragments: what 16x256b loads bring goes into the workspace as it is and comes
// back to the same lane, so that the sums leave by the same way as a whole tile's.
#pragma once
#include "sm100/parts/split_k.cuh"
#include "sm100/parts/wide_store.cuh"

namespace fp4lab {

// The accumulator's columns as the tile's columns `first` .. + n - 1.
__device__ __forceinline__ void leave_fragments(const PartialSums& sums, int part, u32 accumulator, int first,
                                                int n) {
  const u32 lanes = own_lanes(accumulator);
#pragma unroll 1
  for (int c = 0; c < n; c += kTurned) {
    u32 low[8], high[8];
    load_fragments(lanes, c, low, high);
    isa::tcgen05_wait_ld(low, high);
    sums.put(part, first + c, low, high);
  }
}
__device__ __forceinline__ void store_sums_wide(const PartialSums& sums, const GroupArgs& g, const Tile& tile,
                                                u32 shared) {
  Turn turn(g, tile, shared);
#pragma unroll 1
  for (int c = 0; c < tile.n; c += kTurned) {
    u32 low[8], high[8], pairs[8];
    sums.sum(c, low, high);
    pack_fragments(low, high, pairs);
    turn.put(pairs);
  }
  turn.flush();
}

}  // namespace fp4lab
