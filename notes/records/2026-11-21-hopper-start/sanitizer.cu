// What compute-sanitizer (CUDA 13.0) makes of legal ways to synchronise that the Hopper kernels use, with
// what it said on an H200 on 2026-11-21. On a GPU of compute capability 9.0:
//
//   nvcc -std=c++17 -lineinfo -gencode=arch=compute_90a,code=sm_90a -o sanitizer sanitizer.cu
//   compute-sanitizer --tool synccheck ./sanitizer 0    a warp arrives at a named barrier and exits: no error
//   compute-sanitizer --tool synccheck ./sanitizer 1    the same, it exits behind a barrier of all: no error
//   compute-sanitizer --tool synccheck ./sanitizer 2    two warps wait, each at a bar.sync of its own: 32
//   errors,
//                                                       "Divergent thread(s) in block"
//   compute-sanitizer --tool racecheck ./sanitizer 3    32 lanes read, bar.warp.sync, lane 0 arrives: races
//   compute-sanitizer --tool racecheck ./sanitizer 4    32 lanes read and arrive: no hazard
#include <cstdio>
#include <cstdlib>

__global__ void named(int kind) {
  if (threadIdx.x >= 32) {
    if (kind == 2) {
      asm volatile("bar.sync 1, 64;" ::: "memory");
    } else {
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    }
  } else {
    asm volatile("bar.sync 1, 64;" ::: "memory");
  }
  if (kind == 1) __syncthreads();
}

__device__ void wait_for(unsigned barrier, unsigned parity) {
  asm volatile(
      "{ .reg .pred p;\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again; }" ::"r"(
          barrier),
      "r"(parity)
      : "memory");
}

// Warp 0 copies `rounds` pieces of 512 bytes into one stage, warp 1 reads each.
template <bool kEveryLane>
__global__ void ring(const float4* from, float* out, int rounds) {
  __shared__ __align__(128) float4 stage[32];
  __shared__ __align__(8) unsigned long long full, empty;
  const unsigned to = __cvta_generic_to_shared(stage), f = __cvta_generic_to_shared(&full),
                 e = __cvta_generic_to_shared(&empty);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(f));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(e), "r"(kEveryLane ? 32 : 1));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int i = 0; i < rounds; ++i) {
      wait_for(e, (i & 1) ^ 1);
      if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(f) : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(
                to),
            "l"(from + 32 * i), "r"(f)
            : "memory");
      }
      __syncwarp();
    }
  } else {
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
      wait_for(f, i & 1);
      sum += stage[threadIdx.x - 32].x;
      if (kEveryLane) {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(e) : "memory");
      } else {
        asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
        if (threadIdx.x == 32) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(e) : "memory");
      }
    }
    out[threadIdx.x - 32] = sum;
  }
}

int main(int, char** argv) {
  const int kind = std::atoi(argv[1]);
  float4* from;
  float* out;
  cudaMalloc(&from, 512 * 8), cudaMalloc(&out, 128);
  cudaMemset(from, 0, 512 * 8);
  if (kind < 3) named<<<1, 64>>>(kind);
  if (kind == 3) ring<false><<<1, 64>>>(from, out, 8);
  if (kind == 4) ring<true><<<1, 64>>>(from, out, 8);
  std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
