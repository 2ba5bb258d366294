// Variables of the device by their host symbols: constant, global, managed; static names.
#include "check.h"

struct Pair {
  int first;
  double second;
};
__constant__ Pair coefficients[2] = {{1, 0.5}, {2, 0.25}};
__device__ int counter = 7;
static __device__ float scale;
__managed__ int shared_with_host = 5;

__global__ void use(double* out) {
  out[threadIdx.x] = coefficients[threadIdx.x].first * coefficients[threadIdx.x].second * scale;
  if (threadIdx.x == 0) {
    counter += 9;
    shared_with_host += 1;
  }
}

int main() {
  EXPECT(shared_with_host == 5);
  shared_with_host = 40;
  const float host_scale = 8;
  CUDA(cudaMemcpyToSymbol(scale, &host_scale, sizeof host_scale));
  const Pair changed{3, 2.0};
  CUDA(cudaMemcpyToSymbol(coefficients, &changed, sizeof changed, sizeof(Pair)));
  size_t bytes = 0;
  CUDA(cudaGetSymbolSize(&bytes, coefficients));
  EXPECT(bytes == sizeof coefficients);
  cudaFuncAttributes attributes;
  CUDA(cudaFuncGetAttributes(&attributes, use));
  EXPECT(attributes.constSizeBytes == sizeof coefficients);
  double *out, got[2];
  CUDA(cudaMalloc(&out, sizeof got));
  use<<<1, 2>>>(out);
  CUDA(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got[0] == 1 * 0.5 * 8 && got[1] == 3 * 2.0 * 8);
  EXPECT(shared_with_host == 41);
  void* managed = nullptr;
  cudaPointerAttributes what;
  CUDA(cudaGetSymbolAddress(&managed, shared_with_host));
  CUDA(cudaGetSymbolSize(&bytes, shared_with_host));
  CUDA(cudaPointerGetAttributes(&what, managed));
  EXPECT(managed == &shared_with_host && bytes == sizeof(int) && what.type == cudaMemoryTypeManaged);
  FAILS(cudaErrorInvalidValue, cudaFree(managed));
  CUDA(cudaMemPrefetchAsync(managed, sizeof(int), {cudaMemLocationTypeDevice, 0}, 0));
  int value = 0;
  CUDA(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  EXPECT(value == 7 + 9);
  use<<<1, 1>>>(out);
  int* address = nullptr;
  CUDA(cudaGetSymbolAddress(reinterpret_cast<void**>(&address), counter));
  FAILS(cudaErrorInvalidValue, cudaFree(address));
  CUDA(cudaMemcpy(&value, address, sizeof value, cudaMemcpyDeviceToHost));
  EXPECT(value == 7 + 9 + 9);
  FAILS(cudaErrorInvalidValue, cudaMemcpyToSymbol(scale, &host_scale, 4, 4));
  FAILS(cudaErrorInvalidSymbol, cudaGetSymbolAddress(reinterpret_cast<void**>(&address), &value));
  std::puts("ok");
}
