// Launches.
#include <cstddef>
#include <vector>

#include "runtime/on_stream/default_stream.h"
#include "runtime/registry.h"

namespace fp4lab::cudart {
namespace {

static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(cudaLaunchAttribute, val) == offsetof(CUlaunchAttribute, value));
static_assert(int(cudaLaunchAttributeClusterDimension) == int(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
static_assert(int(cudaLaunchAttributePreferredSharedMemoryCarveout) ==
              int(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT));

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream,
                   CUlaunchAttribute* attributes, unsigned count) {
  CUfunction f;
  if (cudaError_t e = find_function(kernel, &f)) return e;
  if (shared > 0xffffffff) return cudaErrorInvalidValue;
  const CUlaunchConfig config{grid.x,  grid.y,           grid.z,     block.x,    block.y,
                              block.z, unsigned(shared), on(stream), attributes, count};
  return from_driver(cuLaunchKernelEx(&config, f, args, nullptr));
}

}  // namespace
}  // namespace fp4lab::cudart

using namespace fp4lab::cudart;

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared,
                             cudaStream_t stream) {
  return call([&] { return launch(kernel, grid, block, args, shared, stream, nullptr, 0); });
}

cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared,
                                        cudaStream_t stream) {
  return call([&] {
    CUlaunchAttribute cooperative{};
    cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    cooperative.value.cooperative = 1;
    return launch(kernel, grid, block, args, shared, stream, &cooperative, 1);
  });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* kernel, void** args) {
  return call([&] {
    if (!c || (c->numAttrs && !c->attrs)) return cudaErrorInvalidValue;
    return launch(kernel, c->gridDim, c->blockDim, args, c->dynamicSmemBytes, c->stream,
                  reinterpret_cast<CUlaunchAttribute*>(c->attrs), c->numAttrs);
  });
}

// Called by host stubs (crt/host_runtime.h).
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define LAUNCH_FROM_STUB __cudaLaunchKernel_ptsz
#else
#define LAUNCH_FROM_STUB __cudaLaunchKernel
#endif
extern "C" cudaError_t LAUNCH_FROM_STUB(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                                        size_t shared, cudaStream_t stream) {
  return call([&] { return launch(kernel, grid, block, args, shared, stream, nullptr, 0); });
}
#undef LAUNCH_FROM_STUB

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call([&] { return cuLaunchHostFunc(on(stream), function, data); });
}
