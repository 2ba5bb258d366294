// printf and assert in kernels, and launches that may begin early and wait for nobody. The output is
// compared by the test; the assertion spoils the context.
#include <cassert>

#include "check.h"

__global__ void hello(float x) {
  if (threadIdx.x == 3)
    printf("thread %d of block %u: %s %.3f %c %lld %5.1e|%-4d|\n", threadIdx.x, blockIdx.x, "says", x, 'c',
           1ll << 40, 12345.678, 42);
}
__global__ void checked(int limit) { assert(int(threadIdx.x) < limit && "thread is within the limit"); }
__global__ void alone(int limit) { assert(int(threadIdx.x) < limit); }

int main() {
  hello<<<1, 32>>>(2.5f);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = 1, config.blockDim = 32, config.attrs = &early, config.numAttrs = 1;
  CUDA(cudaLaunchKernelEx(&config, checked, 32));
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaLaunchKernelEx(&config, alone, 32));  // nothing is before it
  checked<<<1, 32>>>(31);
  EXPECT(cudaDeviceSynchronize() == cudaErrorAssert);
  std::puts("ok");
}
