// nvcc: -gencode arch=compute_90a,code=compute_90a -lcuda
// A program with PTX for one machine only, which comes to the driver before it comes to the runtime; the
// argument says how far. The machine is the one that it was built for from the first answer on, unless
// another was asked for.
#include <cuda.h>

#include <cstring>

#include "check.h"

__global__ void set(int* p) { *p = 7; }

int main(int count, char** arguments) {
  const char* first = count > 1 ? arguments[1] : "";
  int major = 0, again = 0;
  CUcontext context;
  if (*first) {
    EXPECT(!cuInit(0));
    EXPECT(!cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  }
  if (!std::strcmp(first, "primary")) EXPECT(!cuDevicePrimaryCtxRetain(&context, 0));
  if (!std::strcmp(first, "own")) EXPECT(!cuCtxCreate(&context, nullptr, 0, 0));
  CUDA(cudaDeviceGetAttribute(&again, cudaDevAttrComputeCapabilityMajor, 0));
  EXPECT(!major || major == again);
  std::printf("compute capability %d\n", again);
  int *p, got = 0;
  CUDA(cudaMalloc(&p, sizeof *p));
  set<<<1, 1>>>(p);
  if (again == 9) {
    CUDA(cudaMemcpy(&got, p, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == 7);
  } else {
    EXPECT(cudaGetLastError() == cudaErrorNoKernelImageForDevice);
  }
  std::puts("ok");
}
