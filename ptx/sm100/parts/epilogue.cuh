// From the accumulators in TMEM to fp16 in global memory, by four warps. Warp w of the four reaches the TMEM
// lanes 32w..32w+31 and no others (PTX ISA 9.7.16.8.1), so warp ids must cover the four residues modulo 4.
#pragma once
#include "isa/math.cuh"
#include "isa/memory.cuh"
#include "isa/tcgen05.cuh"
#include "isa/warp.cuh"
#include "sm100/parts/tiles.cuh"

namespace fp4lab {

__device__ __forceinline__ float silu(float x) {
  if constexpr (plan.silu == Silu::kExact) {
    return x / (1.0f + expf(-x));
  } else if constexpr (plan.silu == Silu::kTanh) {
    return 0.5f * x * (1.0f + isa::tanh_approx(0.5f * x));
  } else {
    return x * isa::rcp_approx_ftz(1.0f + isa::ex2_approx_ftz(-1.4426950408889634f * x));
  }
}

// n accumulator columns of this warp's lanes, finished: for the dual GEMM silu(product 0) * product 1.
template <int n>
__device__ __forceinline__ void load_accumulator(u32 tmem, int acc_slot, int column, float (&out)[n]) {
  u32 first[n];
  isa::tcgen05_ld_32x32b(tmem + plan.acc_column(acc_slot, 0) + column, first);
  if constexpr (plan.op == Op::kDual) {
    u32 second[n];
    isa::tcgen05_ld_32x32b(tmem + plan.acc_column(acc_slot, 1) + column, second);
    isa::tcgen05_wait_ld(first);
    isa::tcgen05_wait_ld(second);
#pragma unroll
    for (int i = 0; i < n; ++i) out[i] = silu(__uint_as_float(first[i])) * __uint_as_float(second[i]);
  } else {
    isa::tcgen05_wait_ld(first);
#pragma unroll
    for (int i = 0; i < n; ++i) out[i] = __uint_as_float(first[i]);
  }
}

// This warp's lanes of the accumulator.
__device__ __forceinline__ u32 own_lanes(u32 tmem) { return tmem + (threadIdx.x / 32 % 4 * 32 << 16); }

// Unswapped: a TMEM lane is a row of C, so each thread writes pieces of its own row, 32 bytes at a time.
__device__ __forceinline__ void store_rows(const GroupArgs& g, const Tile& tile, u32 tmem, int acc_slot) {
  const u32 warp = threadIdx.x / 32 % 4;
  const int row = tile.left + threadIdx.x % 128;
  if (tile.left + static_cast<int>(warp) * 32 >= g.left_rows)
    return;  // the whole warp: ld below is warp-collective
  const u32 lanes = tmem + (warp * 32 << 16);
  u8* const out = reinterpret_cast<u8*>(g.c) + (static_cast<u64>(row) * g.c_columns + tile.right) * 2;
  const int columns =
      min(plan.mma_n, g.right_rows - tile.right);  // a multiple of 16, see the problem's legality
#pragma unroll 1
  for (int c = 0; c < columns; c += 16) {
    float v[16];
    load_accumulator(lanes, acc_slot, c, v);
    u32 h[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) h[i] = isa::cvt_rn_f16x2_f32(v[2 * i], v[2 * i + 1]);
    if (row < g.left_rows) {
      if constexpr (plan.store_bytes == 32) {
        isa::st_global_no_allocate_v8(out + c * 2, h);
      } else {
        isa::st_global_no_allocate_v4(out + c * 2, h[0], h[1], h[2], h[3]);
        isa::st_global_no_allocate_v4(out + c * 2 + 16, h[4], h[5], h[6], h[7]);
      }
    }
  }
}

// Swapped: a TMEM lane is a column of C and an accumulator column a token. 32 lanes write 64 contiguous bytes
// of one token, two whole sectors, straight from registers. fetch(t, v) brings this lane's values of tokens
// t..t+chunk-1; `chunk` divides MMA_N, so it reads no column that no MMA wrote.
template <int chunk, class Fetch>
__device__ __forceinline__ void store_columns(const GroupArgs& g, const Tile& tile, Fetch fetch) {
  static_assert(plan.n_step % chunk == 0);
  const int column = tile.left + threadIdx.x % 128;
  if (column >= g.left_rows) return;  // left_rows is a multiple of 128: all four warps or none
  u8* out = reinterpret_cast<u8*>(g.c) + (static_cast<u64>(tile.right) * g.c_columns + column) * 2;
  const u32 pitch = g.c_columns * 2;
  const int tokens = min(tile.n, g.right_rows - tile.right);
#pragma unroll 1
  for (int t = 0; t < tokens; t += chunk) {
    float v[chunk];
    fetch(t, v);
#pragma unroll
    for (int i = 0; i < chunk; ++i, out += pitch)
      if (t + i < tokens) isa::st_global_no_allocate_b16(out, isa::cvt_rn_f16_f32(v[i]));
  }
}

__device__ __forceinline__ void store_tile(const GroupArgs& g, const Tile& tile, u32 tmem, int acc_slot) {
  if constexpr (plan.swap) {
    constexpr int chunk = plan.n_step % 16 == 0 ? 16 : 8;
    store_columns<chunk>(g, tile,
                         [&](int t, float(&v)[chunk]) { load_accumulator(own_lanes(tmem), acc_slot, t, v); });
  } else {
    store_rows(g, tile, tmem, acc_slot);
  }
}

}  // namespace fp4lab
