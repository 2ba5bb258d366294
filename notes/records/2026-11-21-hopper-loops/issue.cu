// What a Hopper SM can issue beside wgmma: W warpgroups decode weights in registers and multiply, as
// ptx/sm90/kernel.cuh does but with nothing loaded and nothing awaited, while E warps a scheduler expand
// packed activations from shared memory to swizzled fp16 in shared memory. Cycles a chunk of 64 values of K,
// of the products and of the expansion; the first should be 2 W N. From the project's folder, on a GPU of
// compute capability 9.0:
//
//   nvcc -std=c++20 -O3 -Iptx -Iinclude -gencode=arch=compute_90a,code=sm_90a -o issue
//   notes/records/2026-11-21-hopper-loops/issue.cu
//   ./issue
#include <cstdio>
#include <cstdlib>

#include "isa/fence.cuh"
#include "isa/memory.cuh"
#include "isa/warp.cuh"
#include "isa/wgmma.cuh"
#include "sm90/decode.cuh"

namespace {

using fp4lab::u32;
using fp4lab::u64;
namespace isa = fp4lab::isa;

// Eight codes of memory's order times a scale, with one shift, two LOP3 and one HMUL2 a pair; pair i is
// values i and i + 4.
__device__ __forceinline__ void expand_word(u32 codes, u32 scale, u32 (&v)[4]) {
  constexpr u32 kSigns = 0x80008000, kMagnitudes = 0x0e000e00;
  v[0] = isa::mul_rn_f16x2(((codes << 12) & kSigns) | ((codes << 9) & kMagnitudes), scale);
  v[1] = isa::mul_rn_f16x2(((codes << 8) & kSigns) | ((codes << 5) & kMagnitudes), scale);
  v[2] = isa::mul_rn_f16x2(((codes << 4) & kSigns) | ((codes << 1) & kMagnitudes), scale);
  v[3] = isa::mul_rn_f16x2((codes & kSigns) | ((codes >> 3) & kMagnitudes), scale);
}

template <int W, int E, int N, bool kDecode>
__global__ void __launch_bounds__(128 * (W + (E ? E : 1)), 1) issue(u32 chunks, u64* out) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const u32 base = isa::shared_address(shared);
  for (u32 i = threadIdx.x; i < 50000; i += blockDim.x)
    reinterpret_cast<u32*>(shared)[i] = 0x3c003c00 ^ ((i * 2654435761u) & 0x83ff83ff);
  isa::fence_proxy_async_shared();
  __syncthreads();
  const u32 warpgroup = isa::shfl_sync_idx(threadIdx.x / 128, 0);
  if (warpgroup >= W) {
    isa::setmaxnreg_dec<W == 2 ? (E == 2 ? 56 : 88) : (E == 2 ? 32 : 56)>();
    if (E == 0) return;
    // A lane: the 16 values of one scale; token t / 4, quarter t % 4.
    const u32 t = threadIdx.x - W * 128, token = t / 4, quarter = t % 4;
    u32 codes = base + 160 * 1024 + token * 32 + quarter * 8,
        scales = base + 176 * 1024 + token * 16 + quarter;
    u32 to[2] = {base + 65536 + token * 128 + ((quarter * 2) ^ (token % 8)) * 16,
                 base + 65536 + token * 128 + ((quarter * 2 + 1) ^ (token % 8)) * 16};
    isa::keep(codes), isa::keep(scales), isa::keep(to[0]), isa::keep(to[1]);
    const long long begin = clock64();
    for (u32 chunk = 0; chunk < chunks; ++chunk) {
#pragma unroll
      for (u32 r = 0; r < N / 32 / (E ? E : 1); ++r) {
        u32 c[2], v[4];
        isa::ld_shared_v2(codes + r * 1024 * E, c);
        const u32 scale = fp4lab::sm90::ue4m3_to_f16(isa::ld_shared_u8(scales + r * 512 * E), 0x78007800);
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
          expand_word(c[i], scale, v);
          isa::st_shared_v4(to[i] + r * 4096 * E, v[0], v[1], v[2], v[3]);
        }
      }
    }
    const long long end = clock64();
    if (blockIdx.x == 0 && t == 0) out[1] = end - begin;
  } else {
    isa::setmaxnreg_inc<W == 2 ? (E == 2 ? 192 : 208) : (E == 2 ? 136 : 152)>();
    float sums[N / 2] = {};
    u32 a[2][4][4];
    for (auto& fragment : a)
      for (auto& registers : fragment)
        for (u32& r : registers) r = 0x3c003800 ^ (threadIdx.x & 0xff);
    u32 codes = base + 128 * 1024 + warpgroup * 5120 + threadIdx.x % 128 * 16;
    u32 scales = base + 130 * 1024 + warpgroup * 5120 + threadIdx.x % 128 / 4 * 16;
    isa::keep(codes), isa::keep(scales);
    const u64 tokens = isa::wgmma_descriptor_k_major_128b(base);
    const long long begin = clock64();
    for (u32 step = 0; step < chunks / 2; ++step) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        u32 c[4], s[4];
        if (kDecode) isa::ld_shared_v4(codes + h * 2560, c), isa::ld_shared_v4(scales + h * 2560, s);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          for (u32& r : a[h][j]) isa::keep(r);
        isa::wgmma_fence();
#pragma unroll
        for (int j = 0; j < 4; ++j)
          isa::wgmma_f32_f16<N>(sums, a[h][j], tokens + 2 * j + h * (N * 128 / 16), true);
        isa::wgmma_commit_group();
        isa::wgmma_wait_group<1>();
#pragma unroll
        for (int j = 0; j < 4; ++j)
          for (u32& r : a[h ^ 1][j]) isa::keep(r);
        if (kDecode)
#pragma unroll
          for (int j = 0; j < 4; ++j) fp4lab::sm90::decode_fragment(c[j], s[j], a[h ^ 1][j]);
      }
    }
    isa::wgmma_wait_group<0>();
    const long long end = clock64();
    if (blockIdx.x == 0 && threadIdx.x == 0) out[0] = end - begin;
    float all = 0;
    for (float sum : sums) all += sum;
    if (all == 1.2345f) out[2] = 1;  // so that nothing is left out
  }
}

u64* out;

template <int W, int E, int N, bool kDecode>
void time_it() {
  constexpr u32 kShared = 200704, kChunks = 4000;
  const auto kernel = issue<W, E, N, kDecode>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  cudaMemset(out, 0, 64);
  for (int i = 0; i < 2; ++i) kernel<<<132, 128 * (W + (E ? E : 1)), kShared>>>(kChunks, out);
  u64 cycles[2];
  if (const cudaError_t error = cudaMemcpy(cycles, out, sizeof cycles, cudaMemcpyDeviceToHost)) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
    std::exit(1);
  }
  std::printf("%10d %6d %4d %8d %10.1f %10.1f\n", W, N, 2 * N * W, E, cycles[0] / double(kChunks),
              cycles[1] / double(kChunks));
}

template <int W, int N>
void time_all() {
  time_it<W, 0, N, false>();
  time_it<W, 0, N, true>();
  time_it<W, 1, N, true>();
  time_it<W, 2, N, true>();
}

}  // namespace

int main() {
  cudaMalloc(&out, 64);
  std::printf(
      "warpgroups tokens 2NW  expanding  products  expansion   (the first row of four: nothing is "
      "decoded)\n");
  time_all<2, 64>(), time_all<2, 128>(), time_all<2, 192>();
  time_all<3, 64>(), time_all<3, 96>(), time_all<3, 128>();
}
