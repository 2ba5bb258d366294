// The simplest program: one kernel, the device's properties, events, errors.
#include <cstring>
#include <vector>

#include "check.h"

template <class T>
__global__ void axpy(T a, const T* x, T* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

template <class T>
void run(int n) {
  std::vector<T> x(n), y(n);
  for (int i = 0; i < n; ++i) x[i] = T(i % 17), y[i] = T(i % 5);
  T *dx, *dy;
  CUDA(cudaMalloc(&dx, n * sizeof(T)));
  CUDA(cudaMalloc(&dy, n * sizeof(T)));
  CUDA(cudaMemcpy(dx, x.data(), n * sizeof(T), cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(dy, y.data(), n * sizeof(T), cudaMemcpyHostToDevice));
  axpy<<<(n + 255) / 256, 256>>>(T(3), dx, dy, n);
  CUDA(cudaGetLastError());
  CUDA(cudaDeviceSynchronize());
  std::vector<T> got(n);
  CUDA(cudaMemcpy(got.data(), dy, n * sizeof(T), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) EXPECT(got[i] == T(3) * x[i] + y[i]);
  CUDA(cudaFree(dx));
  CUDA(cudaFree(dy));
}

int main() {
  int count = 0, driver = 0, runtime = 0;
  CUDA(cudaGetDeviceCount(&count));
  EXPECT(count == 1);
  CUDA(cudaDriverGetVersion(&driver));
  CUDA(cudaRuntimeGetVersion(&runtime));
  EXPECT(runtime == CUDART_VERSION && driver >= runtime);
  cudaDeviceProp p;
  CUDA(cudaGetDeviceProperties(&p, 0));
  EXPECT(std::strstr(p.name, "NVIDIA"));
  EXPECT(p.major == 9 || p.major == 10);
  EXPECT(p.multiProcessorCount == (p.major == 9 ? 132 : 148));
  EXPECT(p.warpSize == 32 && p.sharedMemPerBlockOptin == 232448 && p.clusterLaunch && p.cooperativeLaunch);
  int sms = 0;
  CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  EXPECT(sms == p.multiProcessorCount);

  run<float>(10000);
  run<double>(777);
  run<int>(1);

  cudaEvent_t start, end;
  CUDA(cudaEventCreate(&start));
  CUDA(cudaEventCreate(&end));
  CUDA(cudaEventRecord(start));
  run<float>(100);
  CUDA(cudaEventRecord(end));
  CUDA(cudaEventSynchronize(end));
  float ms = -1;
  CUDA(cudaEventElapsedTime(&ms, start, end));
  EXPECT(ms >= 0);
  CUDA(cudaEventDestroy(start));
  CUDA(cudaEventDestroy(end));

  // Errors: codes, names, and the last error that is there until it is read.
  float* nothing = nullptr;
  axpy<<<1, 2048>>>(1.f, nothing, nothing, 0);
  EXPECT(cudaPeekAtLastError() == cudaErrorInvalidValue);  // so says CUDA 13 on an H200
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  EXPECT(cudaGetLastError() == cudaSuccess);
  axpy<<<0, 32>>>(1.f, nothing, nothing, 0);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  FAILS(cudaErrorInvalidDevice, cudaSetDevice(5));
  FAILS(cudaErrorInvalidValue, cudaMalloc(nullptr, 4));
  FAILS(cudaErrorInvalidResourceHandle, cudaFuncSetCacheConfig(&count, cudaFuncCachePreferL1));
  FAILS(cudaErrorMemoryAllocation, cudaMalloc(&nothing, size_t(1) << 50));
  CUDA(cudaMalloc(&nothing, 0));
  EXPECT(!nothing);
  CUDA(cudaFree(nullptr));
  EXPECT(!std::strcmp(cudaGetErrorName(cudaErrorInvalidConfiguration), "cudaErrorInvalidConfiguration"));
  EXPECT(!std::strcmp(cudaGetErrorString(cudaErrorInvalidConfiguration), "invalid configuration argument"));
  EXPECT(!std::strcmp(cudaGetErrorString(cudaError_t(12345)), "unrecognized error code"));

  // A fault stays with the context.
  axpy<<<1, 32>>>(1.f, nothing, nothing, 32);
  EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  EXPECT(cudaGetLastError() == cudaErrorIllegalAddress);
  EXPECT(cudaMalloc(&nothing, 4) == cudaErrorIllegalAddress);
  std::puts("ok");
}
