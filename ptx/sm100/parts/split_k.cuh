// Adding the parts of a tile whose K was split, inside the launch: every part leaves its fp32 sums in the
// workspace and counts itself; whoever counts last adds all of them, in the order of K, and stores. The
// order, and so every bit, does not depend on who came last. Nobody waits for anybody.
#pragma once
#include "sm100/parts/epilogue.cuh"

namespace fp4lab {

// By the four epilogue warps of one CTA, for its 128 lanes. `number` is the tile part's number, `rank` the
// CTA's.
struct PartialSums {
  u32* counter;
  u8* sums;  // of the tile's first part: [column / 16][lane][16], whatever a lane's 16 are
  int parts;

  __device__ __forceinline__ PartialSums(const Args& args, const Tile& tile, int number, u32 rank)
      : parts(args.group[tile.group].parts) {
    u8* const workspace = reinterpret_cast<u8*>(args.tail.workspace);
    const long long slot = static_cast<long long>(number - tile.part) * plan.cta_group + rank;
    counter = reinterpret_cast<u32*>(workspace) + slot;
    sums = workspace + plan.partials_offset(args.tail.tiles) + slot * plan.partial_bytes();
  }
  __device__ __forceinline__ u8* at(int part, int column) const {
    return sums + part * plan.cta_group * plan.partial_bytes() + (column / 16 * 128 + threadIdx.x % 128) * 64;
  }

  // A lane's 16 sums of columns `column` .. + 15.
  __device__ __forceinline__ void put(int part, int column, const u32 (&low)[8], const u32 (&high)[8]) const {
    isa::st_global_v8(at(part, column), low);
    isa::st_global_v8(at(part, column) + 32, high);
  }
  // What the same lane has put for all parts, added in the order of K.
  __device__ __forceinline__ void sum(int column, u32 (&low)[8], u32 (&high)[8]) const {
    isa::ld_global_v8(at(0, column), low);
    isa::ld_global_v8(at(0, column) + 32, high);
#pragma unroll
    for (int part = 1; part < plan.split_k; ++part) {
      if (part == parts) return;
      u32 a[8], b[8];
      isa::ld_global_v8(at(part, column), a);
      isa::ld_global_v8(at(part, column) + 32, b);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        low[i] = __float_as_uint(__uint_as_float(low[i]) + __uint_as_float(a[i]));
        high[i] = __float_as_uint(__uint_as_float(high[i]) + __uint_as_float(b[i]));
      }
    }
  }

  // True in the CTA whose part completes the tile. The barriers make the other warps' stores part of what the
  // atomic releases, and what it acquires visible to them.
  __device__ __forceinline__ bool arrive_last(u32 shared) const {
    const u32 flag = shared + plan.last_part_offset();
    isa::bar_sync(1, 128);
    if (threadIdx.x == 0) {
      const bool last = isa::atom_add_acq_rel_gpu(counter, 1) == parts - 1;
      if (last) *counter = 0;  // for the next launch; nobody else comes to this tile in this one
      isa::st_shared_b32(flag, last);
    }
    isa::bar_sync(1, 128);
    return isa::ld_shared_b32(flag) != 0;
  }
};

// Straight from TMEM lanes, and straight to C.
__device__ __forceinline__ void leave_part(const PartialSums& sums, const Tile& tile, u32 tmem,
                                           int acc_slot) {
  const u32 lanes = own_lanes(tmem) + plan.acc_column(acc_slot, 0);
#pragma unroll 1
  for (int c = 0; c < tile.n; c += 16) {
    u32 low[8], high[8];
    isa::tcgen05_ld_32x32b(lanes + c, low);
    isa::tcgen05_ld_32x32b(lanes + c + 8, high);
    isa::tcgen05_wait_ld(low, high);
    sums.put(tile.part, c, low, high);
  }
}
__device__ __forceinline__ void store_sums(const PartialSums& sums, const GroupArgs& g, const Tile& tile) {
  store_columns<16>(g, tile, [&](int t, float(&v)[16]) {
    u32 low[8], high[8];
    sums.sum(t, low, high);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = __uint_as_float(low[i]), v[8 + i] = __uint_as_float(high[i]);
  });
}

}  // namespace fp4lab
