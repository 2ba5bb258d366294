// The other file of linked.cu: what a linker must tell apart, and bring together.
#include <cuda_runtime.h>

#include <cstdio>

__device__ int offset = 100;
static __device__ int hidden = 7;  // linked.cu has one of its own
__device__ int twice(int x) { return 2 * x; }
__device__ int of_part() { return hidden; }

template <int N>
__global__ void fill(int* p) {
  p[threadIdx.x] = N;
}

__global__ void from_part(int* p) {
  if (p == nullptr) printf("never\n");
  p[threadIdx.x] = offset + int(threadIdx.x);
}

void launch_part(int* p) {
  fill<3><<<1, 32>>>(p);
  from_part<<<1, 16>>>(p);
}
