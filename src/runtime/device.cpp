// The device: count, properties, attributes, limits, and device-wide synchronisation.
#include <cstring>

#include "runtime/runtime.h"

using namespace fp4lab::cudart;

namespace {

CUresult properties_of(cudaDeviceProp* p) {
  CUdevice device;
  if (CUresult r = cuDeviceGet(&device, 0)) return r;
  *p = {};
  if (CUresult r = cuDeviceGetName(p->name, sizeof p->name, device)) return r;
  if (CUresult r = cuDeviceGetUuid(&p->uuid, device)) return r;
  if (CUresult r = cuDeviceTotalMem(&p->totalGlobalMem, device)) return r;
  CUresult result = CUDA_SUCCESS;
  const auto get = [&](CUdevice_attribute a) {
    int value = 0;
    if (CUresult r = cuDeviceGetAttribute(&value, a, device)) result = r;
    return value;
  };
  p->sharedMemPerBlock = size_t(get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  p->regsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  p->warpSize = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  p->memPitch = size_t(get(CU_DEVICE_ATTRIBUTE_MAX_PITCH));
  p->maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  p->maxThreadsDim[0] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  p->maxThreadsDim[1] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  p->maxThreadsDim[2] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  p->maxGridSize[0] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  p->maxGridSize[1] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  p->maxGridSize[2] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  p->totalConstMem = size_t(get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY));
  p->major = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  p->minor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  p->textureAlignment = size_t(get(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT));
  p->multiProcessorCount = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  p->canMapHostMemory = get(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  p->concurrentKernels = get(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
  p->asyncEngineCount = get(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  p->unifiedAddressing = get(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  p->memoryBusWidth = get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  p->l2CacheSize = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  p->persistingL2CacheMaxSize = get(CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);
  p->maxThreadsPerMultiProcessor = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  p->streamPrioritiesSupported = get(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
  p->globalL1CacheSupported = get(CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED);
  p->localL1CacheSupported = get(CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED);
  p->sharedMemPerMultiprocessor = size_t(get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  p->regsPerMultiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  p->managedMemory = get(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
  p->concurrentManagedAccess = get(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  p->computePreemptionSupported = get(CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED);
  p->canUseHostPointerForRegisteredMem = get(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
  p->cooperativeLaunch = get(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
  p->sharedMemPerBlockOptin = size_t(get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  p->maxBlocksPerMultiProcessor = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  p->accessPolicyMaxWindowSize = get(CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE);
  p->reservedSharedMemPerBlock = size_t(get(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK));
  p->hostRegisterSupported = get(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  p->memoryPoolsSupported = get(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  p->clusterLaunch = get(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
  p->unifiedFunctionPointers = get(CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS);
  p->deviceNumaId = -1, p->hostNumaId = -1;
  return result;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  return call([&] { return count ? cuDeviceGetCount(count) : CUDA_ERROR_INVALID_VALUE; });
}
cudaError_t cudaGetDevice(int* device) {
  return call([&] {
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
  });
}
cudaError_t cudaSetDevice(int device) {
  return plain([&] { return set_device(device); });
}
cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return plain([&] { return set_device(device); });
}
cudaError_t cudaSetValidDevices(int* devices, int count) {
  return plain([&] {
    if (!devices && count) return cudaErrorInvalidValue;
    for (int i = 0; i < count; ++i)
      if (devices[i]) return cudaErrorInvalidDevice;
    return cudaSuccess;
  });
}
cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return call([&] { return cuDevicePrimaryCtxSetFlags(0, flags); });
}
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  return call([&] { return cuCtxGetFlags(flags); });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&] {
    if (!properties) return CUDA_ERROR_INVALID_VALUE;
    return device ? CUDA_ERROR_INVALID_DEVICE : properties_of(properties);
  });
}
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* properties) {
  return properties ? cudaGetDevice(device) : finish(cudaErrorInvalidValue);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  static_assert(int(cudaDevAttrMultiProcessorCount) == int(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  static_assert(int(cudaDevAttrClusterLaunch) == int(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH));
  static_assert(int(cudaDevAttrMaxSharedMemoryPerBlockOptin) ==
                int(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  return call(
      [&] { return cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device); });
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return call([&] { return cuDeviceGetPCIBusId(id, length, device); });
}
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
  return call([&] { return cuDeviceGetByPCIBusId(device, id); });
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&] { return cuCtxGetStreamPriorityRange(least, greatest); });
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call([&] { return cuDeviceCanAccessPeer(can, device, peer); });
}
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return call([&] { return cuCtxSetLimit(static_cast<CUlimit>(limit), value); });
}
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return call([&] { return cuCtxGetLimit(value, static_cast<CUlimit>(limit)); });
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  return call([&] { return cuCtxSetCacheConfig(static_cast<CUfunc_cache>(config)); });
}
cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  return call([&] { return cuCtxGetCacheConfig(reinterpret_cast<CUfunc_cache*>(config)); });
}
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) {
  return call([] { return CUDA_SUCCESS; });
}
cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  return call([&] {
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    *config = cudaSharedMemBankSizeFourByte;
    return CUDA_SUCCESS;
  });
}
cudaError_t cudaCtxResetPersistingL2Cache() {
  return call([] { return CUDA_SUCCESS; });
}
cudaError_t cudaDeviceSynchronize() {
  return call([] { return cuCtxSynchronize(); });
}
// Memory and modules stay until the process ends. A fault is cleared, as by a reset.
cudaError_t cudaDeviceReset() {
  return call([] { return cuDevicePrimaryCtxReset(0); });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return plain([&] { return cuDriverGetVersion(version); });
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  return plain([&] {
    if (!version) return cudaErrorInvalidValue;
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

// Nothing is profiled: start and stop are accepted. (CUDA's wheels for Python lack cuda_profiler_api.h.)
extern "C" {
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }
}

// The only device has no peers.
cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned flags) {
  if (flags) return finish(cudaErrorInvalidValue);
  return plain([&] { return device ? cudaErrorInvalidDevice : cudaErrorPeerAccessUnsupported; });
}
cudaError_t cudaDeviceDisablePeerAccess(int device) {
  return plain([&] { return device ? cudaErrorInvalidDevice : cudaErrorPeerAccessNotEnabled; });
}
cudaError_t cudaDeviceGetP2PAttribute(int*, cudaDeviceP2PAttr, int, int) {
  return plain([] { return cudaErrorInvalidDevice; });
}
