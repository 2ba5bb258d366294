// Two files of relocatable device code: functions, variables and templates of one used by the other.
// nvcc: -rdc=true tests/programs/linked/part.cu
#include "check.h"

extern __device__ int offset;
extern __device__ int twice(int);
extern __device__ int of_part();
static __device__ int hidden = 1000;

template <int N>
__global__ void fill(int* p) {
  p[threadIdx.x] = N;
}

__global__ void across(int* p) {
  if (p == nullptr) printf("never at all\n");
  p[threadIdx.x] = twice(threadIdx.x) + offset + hidden + of_part();
}

void launch_part(int* p);

int main() {
  int *p, got[32];
  CUDA(cudaMalloc(&p, sizeof got));
  across<<<1, 32>>>(p);
  CUDA(cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got[0] == 1107 && got[31] == 1169);
  const int other = 200;
  CUDA(cudaMemcpyToSymbol(hidden, &other, sizeof other));
  across<<<1, 32>>>(p);
  CUDA(cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got[1] == 309);
  launch_part(p);
  CUDA(cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got[15] == 115 && got[16] == 3);
  fill<3><<<1, 1>>>(p);
  CUDA(cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got[0] == 3 && got[1] == 101);
  std::puts("ok");
}
