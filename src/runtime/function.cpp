// Kernels: their attributes, names, parameters and occupancy.
#include "runtime/registry.h"

using namespace fp4lab::cudart;

namespace {

template <class Body>
cudaError_t with_function(const void* kernel, Body body) {
  return call([&] {
    CUfunction f;
    if (cudaError_t e = find_function(kernel, &f)) return e;
    return from_driver(body(f));
  });
}

CUresult attributes_of(CUfunction f, cudaFuncAttributes* out) {
  int value[CU_FUNC_ATTRIBUTE_MAX] = {};
  for (int a = 0; a < CU_FUNC_ATTRIBUTE_MAX; ++a)
    if (CUresult r = cuFuncGetAttribute(&value[a], static_cast<CUfunction_attribute>(a), f)) return r;
  *out = {};
  out->sharedSizeBytes = size_t(value[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]);
  out->constSizeBytes = size_t(value[CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES]);
  out->localSizeBytes = size_t(value[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES]);
  out->maxThreadsPerBlock = value[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
  out->numRegs = value[CU_FUNC_ATTRIBUTE_NUM_REGS];
  out->ptxVersion = value[CU_FUNC_ATTRIBUTE_PTX_VERSION];
  out->binaryVersion = value[CU_FUNC_ATTRIBUTE_BINARY_VERSION];
  out->cacheModeCA = value[CU_FUNC_ATTRIBUTE_CACHE_MODE_CA];
  out->maxDynamicSharedSizeBytes = value[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
  out->preferredShmemCarveout = value[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT];
  out->clusterDimMustBeSet = value[CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET];
  out->requiredClusterWidth = value[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
  out->requiredClusterHeight = value[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT];
  out->requiredClusterDepth = value[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH];
  out->clusterSchedulingPolicyPreference = value[CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE];
  out->nonPortableClusterSizeAllowed = value[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED];
  return CUDA_SUCCESS;
}

CUlaunchConfig driver_config(const cudaLaunchConfig_t& c) {
  return {c.gridDim.x,
          c.gridDim.y,
          c.gridDim.z,
          c.blockDim.x,
          c.blockDim.y,
          c.blockDim.z,
          unsigned(c.dynamicSmemBytes),
          c.stream,
          reinterpret_cast<CUlaunchAttribute*>(c.attrs),
          c.numAttrs};
}

}  // namespace

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* kernel) {
  return with_function(kernel,
                       [&](CUfunction f) { return out ? attributes_of(f, out) : CUDA_ERROR_INVALID_VALUE; });
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  static_assert(int(cudaFuncAttributeMaxDynamicSharedMemorySize) ==
                int(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  static_assert(int(cudaFuncAttributeNonPortableClusterSizeAllowed) ==
                int(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED));
  return with_function(kernel, [&](CUfunction f) {
    return cuFuncSetAttribute(f, static_cast<CUfunction_attribute>(attribute), value);
  });
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value,
                                            int device) {
  return device ? finish(cudaErrorInvalidDevice) : cudaFuncSetAttribute(kernel, attribute, value);
}
cudaError_t cudaFuncSetCacheConfig(const void* kernel, cudaFuncCache config) {
  return with_function(
      kernel, [&](CUfunction f) { return cuFuncSetCacheConfig(f, static_cast<CUfunc_cache>(config)); });
}
cudaError_t cudaFuncSetSharedMemConfig(const void* kernel, cudaSharedMemConfig) {
  return with_function(kernel, [](CUfunction) { return CUDA_SUCCESS; });  // banks are of 4 bytes since sm_50
}
cudaError_t cudaFuncGetName(const char** name, const void* kernel) {
  return with_function(kernel, [&](CUfunction f) { return cuFuncGetName(name, f); });
}
cudaError_t cudaFuncGetParamInfo(const void* kernel, size_t index, size_t* offset, size_t* bytes) {
  return with_function(kernel, [&](CUfunction f) { return cuFuncGetParamInfo(f, index, offset, bytes); });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* kernel,
                                                                   int threads, size_t dynamic,
                                                                   unsigned flags) {
  return with_function(kernel, [&](CUfunction f) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, threads, dynamic, flags);
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads,
                                                          size_t dynamic) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, dynamic, 0);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* kernel, int blocks,
                                                      int threads) {
  return with_function(kernel, [&](CUfunction f) {
    return cuOccupancyAvailableDynamicSMemPerBlock(bytes, f, blocks, threads);
  });
}
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* kernel,
                                                 const cudaLaunchConfig_t* config) {
  return with_function(kernel, [&](CUfunction f) {
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    const CUlaunchConfig c = driver_config(*config);
    return cuOccupancyMaxPotentialClusterSize(size, f, &c);
  });
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* kernel,
                                           const cudaLaunchConfig_t* config) {
  return with_function(kernel, [&](CUfunction f) {
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    const CUlaunchConfig c = driver_config(*config);
    return cuOccupancyMaxActiveClusters(clusters, f, &c);
  });
}
