#include "runtime/descriptors.h"

namespace fp4lab::cudart {

CUmemorytype source(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost       ? CU_MEMORYTYPE_HOST
         : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice ? CU_MEMORYTYPE_DEVICE
                                                                              : CU_MEMORYTYPE_UNIFIED;
}

CUmemorytype destination(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost       ? CU_MEMORYTYPE_HOST
         : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice ? CU_MEMORYTYPE_DEVICE
                                                                              : CU_MEMORYTYPE_UNIFIED;
}

cudaError_t driver_params(const cudaMemcpy3DParms* p, CUDA_MEMCPY3D* out) {
  if (!p) return cudaErrorInvalidValue;
  if (p->srcArray || p->dstArray)
    return explain(cudaErrorNotSupported, "cudaMemcpy3D: CUDA arrays are not emulated");
  if (p->kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  CUDA_MEMCPY3D& c = *out = {};
  ends(c, p->dstPtr.ptr, p->srcPtr.ptr, p->kind);
  c.srcPitch = p->srcPtr.pitch, c.srcHeight = p->srcPtr.ysize;
  c.dstPitch = p->dstPtr.pitch, c.dstHeight = p->dstPtr.ysize;
  c.srcXInBytes = p->srcPos.x, c.srcY = p->srcPos.y, c.srcZ = p->srcPos.z;
  c.dstXInBytes = p->dstPos.x, c.dstY = p->dstPos.y, c.dstZ = p->dstPos.z;
  c.WidthInBytes = p->extent.width, c.Height = p->extent.height, c.Depth = p->extent.depth;
  return cudaSuccess;
}

cudaError_t driver_params(const cudaKernelNodeParams* p, CUDA_KERNEL_NODE_PARAMS* out) {
  if (!p) return cudaErrorInvalidValue;
  CUfunction f;
  if (cudaError_t e = find_function(p->func, &f)) return e;
  *out = {};
  out->func = f;
  out->gridDimX = p->gridDim.x, out->gridDimY = p->gridDim.y, out->gridDimZ = p->gridDim.z;
  out->blockDimX = p->blockDim.x, out->blockDimY = p->blockDim.y, out->blockDimZ = p->blockDim.z;
  out->sharedMemBytes = p->sharedMemBytes;
  out->kernelParams = p->kernelParams, out->extra = p->extra;
  return cudaSuccess;
}

CUDA_MEMSET_NODE_PARAMS driver_params(const cudaMemsetParams& p) {
  return {device_pointer(p.dst), p.pitch, p.value, p.elementSize, p.width, p.height};
}

CUDA_MEMCPY3D linear_copy(void* to, const void* from, size_t bytes) {
  CUDA_MEMCPY3D c{};
  ends(c, to, from, cudaMemcpyDefault);
  c.WidthInBytes = c.srcPitch = c.dstPitch = bytes;
  c.Height = c.Depth = c.srcHeight = c.dstHeight = 1;
  return c;
}

cudaMemcpy3DParms runtime_params(const CUDA_MEMCPY3D& c) {
  cudaMemcpy3DParms p{};
  void* const from = c.srcMemoryType == CU_MEMORYTYPE_HOST ? const_cast<void*>(c.srcHost)
                                                           : reinterpret_cast<void*>(c.srcDevice);
  void* const to = c.dstMemoryType == CU_MEMORYTYPE_HOST ? c.dstHost : reinterpret_cast<void*>(c.dstDevice);
  p.srcPtr = {from, c.srcPitch, c.WidthInBytes, c.srcHeight};
  p.dstPtr = {to, c.dstPitch, c.WidthInBytes, c.dstHeight};
  p.srcPos = {c.srcXInBytes, c.srcY, c.srcZ}, p.dstPos = {c.dstXInBytes, c.dstY, c.dstZ};
  p.extent = {c.WidthInBytes, c.Height, c.Depth};
  p.kind = cudaMemcpyDefault;
  return p;
}

cudaKernelNodeParams runtime_params(const CUDA_KERNEL_NODE_PARAMS& p) {
  cudaKernelNodeParams out{};
  out.func = const_cast<void*>(find_kernel(p.func));
  out.gridDim = {p.gridDimX, p.gridDimY, p.gridDimZ};
  out.blockDim = {p.blockDimX, p.blockDimY, p.blockDimZ};
  out.sharedMemBytes = p.sharedMemBytes;
  out.kernelParams = p.kernelParams;
  return out;
}

cudaMemsetParams runtime_params(const CUDA_MEMSET_NODE_PARAMS& p) {
  return {reinterpret_cast<void*>(p.dst), p.pitch, p.value, p.elementSize, p.width, p.height};
}

cudaError_t part_of(const void* symbol, size_t bytes, size_t offset, void** part) {
  CUdeviceptr address;
  size_t size;
  if (cudaError_t e = find_variable(symbol, &address, &size)) return e;
  if (offset > size || bytes > size - offset)
    return explain(cudaErrorInvalidValue, "bytes %zu to %zu of a variable of %zu bytes", offset,
                   offset + bytes, size);
  *part = reinterpret_cast<void*>(address + offset);
  return cudaSuccess;
}

}  // namespace fp4lab::cudart
