// The dual GEMM's epilogue with loads from TMEM under way while the chunk before is computed: 16 columns of
// both products at a time. A TMEM lane is a row of C, so each thread writes pieces of its own row, 32 bytes
// at a time.
#pragma once
#include "sm100/parts/epilogue.cuh"

namespace fp4lab {

constexpr int kChunk = 16;

// This thread's row of C.
struct Row {
  u8* out;
  bool inside;  // of the matrix
  bool any;     // some row of the warp is; what the warp does together it does then
  int columns;  // of the tile that are there, a multiple of 16

  __device__ __forceinline__ Row(const GroupArgs& g, const Tile& tile) {
    const int row = tile.left + threadIdx.x % 128;
    out = reinterpret_cast<u8*>(g.c) + (static_cast<u64>(row) * g.c_columns + tile.right) * 2;
    inside = row < g.left_rows;
    any = row - static_cast<int>(threadIdx.x % 32) < g.left_rows;
    columns = min(plan.mma_n, g.right_rows - tile.right);
  }
  __device__ __forceinline__ void store(int column, const float (&v)[kChunk]) const {
    u32 h[kChunk / 2];
#pragma unroll
    for (int i = 0; i < kChunk / 2; ++i) h[i] = isa::cvt_rn_f16x2_f32(v[2 * i], v[2 * i + 1]);
    if (!inside) return;
    if constexpr (plan.store_bytes == 32) {
      isa::st_global_no_allocate_v8(out + column * 2, h);
    } else {
      isa::st_global_no_allocate_v4(out + column * 2, h[0], h[1], h[2], h[3]);
      isa::st_global_no_allocate_v4(out + column * 2 + 16, h[4], h[5], h[6], h[7]);
    }
  }
};

// `loaded()` is called once, after the last load.
template <class Loaded>
__device__ __forceinline__ void store_dual_ahead(const GroupArgs& g, const Tile& tile, u32 tmem, int acc_slot,
                                                 Loaded loaded) {
  const Row row(g, tile);
  if (!row.any) return loaded();
  const u32 a = own_lanes(tmem) + plan.acc_column(acc_slot, 0),
            b = own_lanes(tmem) + plan.acc_column(acc_slot, 1);
  u32 first[kChunk], second[kChunk];
  isa::tcgen05_ld_32x32b(a, first);
  isa::tcgen05_ld_32x32b(b, second);
#pragma unroll 2
  for (int c = 0; c < row.columns; c += kChunk) {
    float x[kChunk], y[kChunk], v[kChunk];
    isa::tcgen05_wait_ld(first, second);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) x[i] = __uint_as_float(first[i]), y[i] = __uint_as_float(second[i]);
    if (c + kChunk < row.columns) {
      isa::tcgen05_ld_32x32b(a + c + kChunk, first);
      isa::tcgen05_ld_32x32b(b + c + kChunk, second);
    } else {
      loaded();
    }
#pragma unroll
    for (int i = 0; i < kChunk; ++i) v[i] = silu(x[i]) * y[i];
    row.store(c, v);
  }
}

// silu of the first product into registers, while the second is still multiplied; `second_ready()` waits for
// it.
template <class Ready, class Loaded>
__device__ __forceinline__ void store_dual_in_order(const GroupArgs& g, const Tile& tile, u32 tmem,
                                                    int acc_slot, Ready second_ready, Loaded loaded) {
  static_assert(plan.mma_n <= 128, "the first product waits in registers");
  const Row row(g, tile);
  const u32 a = own_lanes(tmem) + plan.acc_column(acc_slot, 0),
            b = own_lanes(tmem) + plan.acc_column(acc_slot, 1);
  float gate[plan.mma_n];
  u32 next[kChunk];
  if (row.any) {
    isa::tcgen05_ld_32x32b(a, next);
#pragma unroll
    for (int c = 0; c < plan.mma_n; c += kChunk) {
      if (c >= row.columns) break;
      float x[kChunk];
      isa::tcgen05_wait_ld(next);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) x[i] = __uint_as_float(next[i]);
      if (c + kChunk < row.columns) isa::tcgen05_ld_32x32b(a + c + kChunk, next);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) gate[c + i] = silu(x[i]);
    }
  }
  second_ready();
  if (!row.any) return loaded();
  isa::tcgen05_ld_32x32b(b, next);
#pragma unroll
  for (int c = 0; c < plan.mma_n; c += kChunk) {
    if (c >= row.columns) break;
    float v[kChunk];
    isa::tcgen05_wait_ld(next);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) v[i] = gate[c + i] * __uint_as_float(next[i]);
    if (c + kChunk < row.columns)
      isa::tcgen05_ld_32x32b(b + c + kChunk, next);
    else
      loaded();
    row.store(c, v);
  }
}

}  // namespace fp4lab
