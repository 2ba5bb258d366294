// Memory allocated and freed in stream order, and hints about where memory will be used.
#include "runtime/on_stream/default_stream.h"

using namespace fp4lab::cudart;

// Zero bytes give a null pointer, which is freed like any other (seen on an H200 with driver 580).
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return call([&] {
    if (!pointer) return CUDA_ERROR_INVALID_VALUE;
    *pointer = nullptr;
    if (!bytes) return CUDA_SUCCESS;
    return cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(pointer), bytes, on(stream));
  });
}
cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return call([&] {
    return cuMemAllocFromPoolAsync(reinterpret_cast<CUdeviceptr*>(pointer), bytes, pool, on(stream));
  });
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return call([&] { return pointer ? cuMemFreeAsync(device_pointer(pointer), on(stream)) : CUDA_SUCCESS; });
}

// Host and device share one memory: nothing has to move.
cudaError_t cudaMemPrefetchAsync(const void* p, size_t bytes, cudaMemLocation where, unsigned flags,
                                 cudaStream_t stream) {
  return call([&] {
    return cuMemPrefetchAsync(device_pointer(p), bytes, driver_location(where), flags, on(stream));
  });
}
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* p, size_t bytes, unsigned flags) {
  return call([&] { return cuStreamAttachMemAsync(on(stream), device_pointer(p), bytes, flags); });
}
