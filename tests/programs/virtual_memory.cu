// nvcc: -lcuda
// Virtual memory by the driver API: memory mapped side by side is one range for kernels, the same memory may
// be seen at two addresses, and what is not mapped or has no access cannot be touched.
#include <cuda.h>

#include "check.h"

#define DRIVER(call) EXPECT((call) == CUDA_SUCCESS)

__global__ void number(int* p, size_t n) {
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) p[i] = int(i);
}

int main() {
  CUDA(cudaFree(nullptr));
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  size_t piece = 0;
  DRIVER(cuMemGetAllocationGranularity(&piece, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUdeviceptr at, again;
  DRIVER(cuMemAddressReserve(&at, 4 * piece, 0, 0, 0));
  DRIVER(cuMemAddressReserve(&again, piece, 0, 0, 0));
  CUmemGenericAllocationHandle a, b, asked;
  DRIVER(cuMemCreate(&a, piece, &properties, 0));
  DRIVER(cuMemCreate(&b, piece, &properties, 0));
  EXPECT(cuMemCreate(&b, piece + 1, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
  DRIVER(cuMemMap(at, piece, 0, a, 0));
  DRIVER(cuMemMap(at + piece, piece, 0, b, 0));
  EXPECT(cuMemMap(at, piece, 0, b, 0) == CUDA_ERROR_INVALID_VALUE);
  DRIVER(cuMemMap(again, piece, 0, b, 0));
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT(cuMemsetD8(at, 0, 1) == CUDA_ERROR_INVALID_VALUE);  // no access yet
  DRIVER(cuMemSetAccess(at, 2 * piece, &access, 1));
  DRIVER(cuMemSetAccess(again, piece, &access, 1));

  const size_t n = 2 * piece / sizeof(int);
  DRIVER(cuMemsetD32(at, 0, n));
  number<<<1, 256>>>(reinterpret_cast<int*>(at), n);
  CUDA(cudaDeviceSynchronize());
  int got = 0;
  CUDA(cudaMemcpy(&got, reinterpret_cast<int*>(again), 4, cudaMemcpyDeviceToHost));
  EXPECT(got == int(piece / sizeof(int)));
  DRIVER(cuMemRetainAllocationHandle(&asked, reinterpret_cast<void*>(again)));
  EXPECT(asked == b);
  DRIVER(cuMemRelease(asked));

  // Memory lives while it is mapped.
  for (CUmemGenericAllocationHandle h : {a, b}) DRIVER(cuMemRelease(h));
  DRIVER(cuMemUnmap(at, 2 * piece));
  CUDA(cudaMemcpy(&got, reinterpret_cast<int*>(again) + 1, 4, cudaMemcpyDeviceToHost));
  EXPECT(got == int(piece / sizeof(int)) + 1);
  EXPECT(cuMemAddressFree(again, piece) == CUDA_ERROR_INVALID_VALUE);  // still mapped
  DRIVER(cuMemUnmap(again, piece));
  DRIVER(cuMemAddressFree(again, piece));
  DRIVER(cuMemAddressFree(at, 4 * piece));
  number<<<1, 1>>>(reinterpret_cast<int*>(at), 1);
  EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  std::puts("ok");
}
