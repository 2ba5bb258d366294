// nvcc: -lineinfo
// Mistakes that this program does not look at: it ends well, and only a check finds them. With the argument
// "spin" it launches a kernel that does not end.
#include <cstring>

#include "check.h"

__global__ void exchange(int* out) {
  __shared__ int s[64];
  s[threadIdx.x] = int(threadIdx.x);
  out[threadIdx.x] = s[63 - threadIdx.x];  // the other warp's, without a barrier
}

__global__ void sum(int* out) {
  __shared__ int s[64];
  s[threadIdx.x] = int(threadIdx.x);
  __syncthreads();
#pragma unroll
  for (int d = 32; d; d /= 2)
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];  // no barrier between the rounds
  if (threadIdx.x == 0) out[0] = s[0];
}

__global__ void past_the_end(const int* in, int* out) { out[threadIdx.x] = in[threadIdx.x + 1]; }

__global__ void spin(unsigned* out) {
  unsigned x = 1;
  while (x != 0) x = (x * 1664525u * 2 + 1013904223u) | 1;
  *out = x;
}

int main(int count, char** arguments) {
  int *in, *out;
  CUDA(cudaMalloc(&in, 64 * sizeof(int)));
  CUDA(cudaMemset(in, 0, 64 * sizeof(int)));
  CUDA(cudaMalloc(&out, 64 * sizeof(int)));
  if (count > 1 && !std::strcmp(arguments[1], "spin")) {
    spin<<<2, 64>>>(reinterpret_cast<unsigned*>(out));
    CUDA(cudaDeviceSynchronize());
  }
  for (int i = 0; i < 2; ++i) {
    exchange<<<1, 64>>>(out);
    sum<<<1, 64>>>(out);
    past_the_end<<<1, 64>>>(in, out);
  }
  CUDA(cudaDeviceSynchronize());
  std::puts("ok");
}
