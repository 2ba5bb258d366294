// A swapped tile to a row-major C in whole sectors. A TMEM lane is a column of C and a TMEM column a token,
// so the tile is turned on its way, 16 tokens x 32 columns of C at a time by each epilogue warp:
//
//   TMEM     two 16x256b loads: fragments of 8x8 matrices, rows = columns of C, columns = tokens
//   fp16     pairs of tokens packed in a register: what stmatrix takes
//   shared   stmatrix.trans: [token][32 columns], 64 bytes to a token; 16-byte pieces exchanged as the
//   64-byte
//            swizzle does (bits 5:4 ^= bits 8:7), so that neither the store nor the load has bank conflicts
//   global   each lane one sector: 32 bytes, half a token's 64
#pragma once
#include "isa/math.cuh"
#include "isa/memory.cuh"
#include "isa/tcgen05.cuh"
#include "isa/warp.cuh"
#include "sm100/parts/epilogue.cuh"

namespace fp4lab {

constexpr int kTurned = 16;  // tokens at a time
static_assert(!plan.swap || plan.n_step % kTurned == 0, "a load must not reach columns that no MMA wrote");

// Fragments of 16 tokens x 32 columns of C, fp32: v[8 half + 4 eight + 2 matrix ..] are two tokens of this
// lane's column of C; `half`, 16 columns of C; `matrix`, 8 of them; `eight`, 8 tokens.
__device__ __forceinline__ void load_fragments(u32 lanes, int column, u32 (&low)[8], u32 (&high)[8]) {
  isa::tcgen05_ld_16x256b(lanes + column, low);
  isa::tcgen05_ld_16x256b(lanes + (16 << 16) + column, high);
}

// The way of one warp's 32 columns of C through shared memory. Two buffers: while a lane still reads one, the
// others fill the next; the barrier in put() is between a buffer's reads and its next stores.
class Turn {
 public:
  __device__ __forceinline__ Turn(const GroupArgs& g, const Tile& tile, u32 shared) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const u32 stage = shared + plan.staging_offset() + warp * 2048;
    put_ = stage + lane % 8 * 64 + ((lane / 8) ^ (lane % 8 / 2)) * 16;
    take_ = stage + lane / 2 * 64 + ((lane % 2 * 2) ^ (lane / 4 % 4)) * 16;
    row_ = static_cast<int>(lane / 2) - kTurned;
    rows_ = min(tile.n, g.right_rows - tile.right);
    step_ = kTurned * 2 * static_cast<u32>(g.c_columns);
    out_ = reinterpret_cast<u8*>(g.c) +
           (static_cast<long long>(tile.right + row_) * g.c_columns + tile.left + warp * 32) * 2 +
           lane % 2 * 32;
    isa::bar_warp_sync();  // the last tile's reads of the first buffer
  }

  // The next 16 tokens, rounded to fp16, into shared memory. Stores the 16 tokens before.
  __device__ __forceinline__ void put(const u32 (&pairs)[8]) {
    flush();
    isa::stmatrix_x4_trans(put_ + buffer_, pairs[0], pairs[1], pairs[2], pairs[3]);
    isa::stmatrix_x4_trans(put_ + buffer_ + 512, pairs[4], pairs[5], pairs[6], pairs[7]);
    isa::bar_warp_sync();
    u32 a[4], b[4];
    isa::ld_shared_v4(take_ + buffer_, a);
    isa::ld_shared_v4((take_ + buffer_) ^ 16, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) sector_[i] = a[i], sector_[4 + i] = b[i];
    buffer_ ^= 1024;
    row_ += kTurned;
    out_ += step_;
  }
  // The last 16 tokens.
  __device__ __forceinline__ void flush() {
    if (static_cast<u32>(row_) < static_cast<u32>(rows_)) isa::st_global_no_allocate_v8(out_, sector_);
  }

 private:
  u32 put_, take_, buffer_ = 0;
  int row_, rows_;  // this lane's token of the 16 before, and the tokens there are
  u32 step_;        // bytes to the same place 16 tokens on
  u8* out_;
  u32 sector_[8];
};

__device__ __forceinline__ void pack_fragments(const u32 (&low)[8], const u32 (&high)[8], u32 (&pairs)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // i = 2 eight + matrix
    const int to = i / 2 * 4 + i % 2;
    pairs[to] = isa::cvt_rn_f16x2_f32(__uint_as_float(low[2 * i]), __uint_as_float(low[2 * i + 1]));
    pairs[to + 2] = isa::cvt_rn_f16x2_f32(__uint_as_float(high[2 * i]), __uint_as_float(high[2 * i + 1]));
  }
}

// Columns from `accumulator` on. The loads run a chunk ahead; `loaded()` is called once, after the last.
template <class Loaded>
__device__ __forceinline__ void store_columns_wide(const GroupArgs& g, const Tile& tile, u32 accumulator,
                                                   u32 shared, Loaded loaded) {
  if (tile.left >= g.left_rows) return loaded();  // the odd CTA's half of the last tile may be all padding
  const u32 lanes = own_lanes(accumulator);
  Turn turn(g, tile, shared);
  u32 low[8], high[8], pairs[8];
  load_fragments(lanes, 0, low, high);
#pragma unroll 2
  for (int t = kTurned;; t += kTurned) {
    isa::tcgen05_wait_ld(low, high);
    pack_fragments(low, high, pairs);
    if (t >= tile.n) break;
    load_fragments(lanes, t, low, high);
    turn.put(pairs);
  }
  loaded();
  turn.put(pairs);
  turn.flush();
}

}  // namespace fp4lab
