// Converts the runtime's descriptors of copies, fills and launches to the driver's and back: streams and
// graphs use the same ones.
#pragma once

#include "runtime/registry.h"

namespace fp4lab::cudart {

CUmemorytype source(cudaMemcpyKind);
CUmemorytype destination(cudaMemcpyKind);

// A driver's copy descriptor has an end in `host` or in `device`, depending on its type.
template <class Descriptor>
void ends(Descriptor& c, void* to, const void* from, cudaMemcpyKind kind) {
  c.srcMemoryType = source(kind), c.dstMemoryType = destination(kind);
  c.srcHost = from, c.srcDevice = device_pointer(from);
  c.dstHost = to, c.dstDevice = device_pointer(to);
}

cudaError_t driver_params(const cudaMemcpy3DParms*, CUDA_MEMCPY3D*);
cudaError_t driver_params(const cudaKernelNodeParams*, CUDA_KERNEL_NODE_PARAMS*);
CUDA_MEMSET_NODE_PARAMS driver_params(const cudaMemsetParams&);
CUDA_MEMCPY3D linear_copy(void* to, const void* from, size_t bytes);

cudaMemcpy3DParms runtime_params(const CUDA_MEMCPY3D&);
cudaKernelNodeParams runtime_params(const CUDA_KERNEL_NODE_PARAMS&);
cudaMemsetParams runtime_params(const CUDA_MEMSET_NODE_PARAMS&);

// A part of a registered variable: [offset, offset + bytes).
cudaError_t part_of(const void* symbol, size_t bytes, size_t offset, void** part);

}  // namespace fp4lab::cudart
