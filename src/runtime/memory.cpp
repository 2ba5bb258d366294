// Memory: device, host, managed, pitched; pointer attributes.
#include <cstring>

#include "runtime/runtime.h"

using namespace fp4lab::cudart;

namespace {

CUresult allocate(void** pointer, size_t bytes) {
  if (!pointer) return CUDA_ERROR_INVALID_VALUE;
  *pointer = nullptr;
  if (!bytes) return CUDA_SUCCESS;  // a null pointer, as from the real runtime
  return cuMemAlloc(reinterpret_cast<CUdeviceptr*>(pointer), bytes);
}

CUresult allocate_pitched(void** pointer, size_t* pitch, size_t width, size_t height) {
  if (!pointer || !pitch) return CUDA_ERROR_INVALID_VALUE;
  *pointer = nullptr, *pitch = 0;
  if (!width || !height) return CUDA_SUCCESS;
  return cuMemAllocPitch(reinterpret_cast<CUdeviceptr*>(pointer), pitch, width, height, 4);
}

CUresult allocate_host(void** pointer, size_t bytes, unsigned flags) {
  if (!pointer) return CUDA_ERROR_INVALID_VALUE;
  *pointer = nullptr;
  return cuMemHostAlloc(pointer, bytes, flags);
}

}  // namespace

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return call([&] { return allocate(pointer, bytes); });
}
cudaError_t cudaFree(void* pointer) {
  return call([&] { return cuMemFree(device_pointer(pointer)); });
}
cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  return call([&] { return allocate_pitched(pointer, pitch, width, height); });
}
cudaError_t cudaMalloc3D(cudaPitchedPtr* p, cudaExtent extent) {
  return call([&] {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    p->xsize = extent.width, p->ysize = extent.height;
    return allocate_pitched(&p->ptr, &p->pitch, extent.width, extent.height * extent.depth);
  });
}
cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  return call([&] {
    if (!pointer) return CUDA_ERROR_INVALID_VALUE;
    *pointer = nullptr;
    if (!bytes) return CUDA_SUCCESS;
    return cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(pointer), bytes, flags);
  });
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call([&] { return cuMemGetInfo(free, total); });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return call([&] { return allocate_host(pointer, bytes, 0); });
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return call([&] { return allocate_host(pointer, bytes, flags); });
}
cudaError_t cudaFreeHost(void* pointer) {
  return call([&] { return pointer ? cuMemFreeHost(pointer) : CUDA_SUCCESS; });
}
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return call([&] { return cuMemHostRegister(pointer, bytes, flags); });
}
cudaError_t cudaHostUnregister(void* pointer) {
  return call([&] { return cuMemHostUnregister(pointer); });
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return call([&] { return cuMemHostGetDevicePointer(reinterpret_cast<CUdeviceptr*>(device), host, flags); });
}
cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  return call([&] { return cuMemHostGetFlags(flags, host); });
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, nullptr);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  return call([&] {
    if (to_device || from_device) return CUDA_ERROR_INVALID_DEVICE;
    return bytes ? cuMemcpyDtoDAsync(device_pointer(to), device_pointer(from), bytes, stream) : CUDA_SUCCESS;
  });
}

cudaError_t cudaMemAdvise(const void* p, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation where) {
  static_assert(int(cudaMemAdviseUnsetAccessedBy) == int(CU_MEM_ADVISE_UNSET_ACCESSED_BY));
  return call([&] {
    return cuMemAdvise(device_pointer(p), bytes, static_cast<CUmem_advise>(advice), driver_location(where));
  });
}
cudaError_t cudaMemRangeGetAttribute(void* data, size_t data_bytes, cudaMemRangeAttribute attribute,
                                     const void* p, size_t bytes) {
  static_assert(int(cudaMemRangeAttributeLastPrefetchLocation) ==
                int(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION));
  return call([&] {
    return cuMemRangeGetAttribute(data, data_bytes, static_cast<CUmem_range_attribute>(attribute),
                                  device_pointer(p), bytes);
  });
}
cudaError_t cudaMemRangeGetAttributes(void** data, size_t* data_bytes, cudaMemRangeAttribute* attributes,
                                      size_t count, const void* p, size_t bytes) {
  return call([&] {
    return cuMemRangeGetAttributes(data, data_bytes, reinterpret_cast<CUmem_range_attribute*>(attributes),
                                   count, device_pointer(p), bytes);
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
  return call([&] {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = {};
    out->type = cudaMemoryTypeUnregistered;
    out->device = -1;
    out->hostPointer = const_cast<void*>(pointer);
    unsigned type = 0, managed = 0;
    if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device_pointer(pointer)))
      return CUDA_SUCCESS;  // memory unknown to the driver: not an error since CUDA 11
    cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, device_pointer(pointer));
    out->device = 0;
    out->type = managed                        ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                               : cudaMemoryTypeHost;
    out->devicePointer = const_cast<void*>(pointer);
    if (out->type == cudaMemoryTypeDevice) out->hostPointer = nullptr;
    return CUDA_SUCCESS;
  });
}

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
