// Copies.
#include "runtime/on_stream/default_stream.h"
#include "runtime/registry.h"

namespace fp4lab::cudart {
namespace {

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, CUstream stream) {
  if (!bytes) return cudaSuccess;
  const CUdeviceptr d = device_pointer(to), s = device_pointer(from);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return from_driver(cuMemcpyHtoDAsync(d, from, bytes, stream));
    case cudaMemcpyDeviceToHost:
      return from_driver(cuMemcpyDtoHAsync(to, s, bytes, stream));
    case cudaMemcpyDeviceToDevice:
      return from_driver(cuMemcpyDtoDAsync(d, s, bytes, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return from_driver(cuMemcpyAsync(d, s, bytes, stream));
  }
  return cudaErrorInvalidMemcpyDirection;
}

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

// A driver's copy descriptor names an end by `host` or by `device`, as its type says.
template <class Descriptor>
void ends(Descriptor& c, void* to, const void* from, cudaMemcpyKind kind) {
  c.srcMemoryType = source(kind), c.dstMemoryType = destination(kind);
  c.srcHost = from, c.srcDevice = device_pointer(from);
  c.dstHost = to, c.dstDevice = device_pointer(to);
}

cudaError_t copy_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                    size_t height, cudaMemcpyKind kind, CUstream stream) {
  if (!width || !height) return cudaSuccess;
  if (kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
  CUDA_MEMCPY2D c{};
  ends(c, to, from, kind);
  c.srcPitch = from_pitch, c.dstPitch = to_pitch, c.WidthInBytes = width, c.Height = height;
  return from_driver(cuMemcpy2DAsync(&c, stream));
}

cudaError_t copy_3d(const cudaMemcpy3DParms* p, CUstream stream) {
  if (!p) return cudaErrorInvalidValue;
  if (p->srcArray || p->dstArray)
    return explain(cudaErrorNotSupported, "cudaMemcpy3D: CUDA arrays are not emulated");
  if (!p->extent.width || !p->extent.height || !p->extent.depth) return cudaSuccess;
  if (p->kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  CUDA_MEMCPY3D c{};
  ends(c, p->dstPtr.ptr, p->srcPtr.ptr, p->kind);
  c.srcPitch = p->srcPtr.pitch, c.srcHeight = p->srcPtr.ysize;
  c.dstPitch = p->dstPtr.pitch, c.dstHeight = p->dstPtr.ysize;
  c.srcXInBytes = p->srcPos.x, c.srcY = p->srcPos.y, c.srcZ = p->srcPos.z;
  c.dstXInBytes = p->dstPos.x, c.dstY = p->dstPos.y, c.dstZ = p->dstPos.z;
  c.WidthInBytes = p->extent.width, c.Height = p->extent.height, c.Depth = p->extent.depth;
  return from_driver(cuMemcpy3DAsync(&c, stream));
}

// A part of a registered variable: [offset, offset + bytes).
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

cudaError_t to_symbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
                      CUstream stream) {
  if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  void* part = nullptr;
  if (cudaError_t e = part_of(symbol, bytes, offset, &part)) return e;
  return copy(part, from, bytes, kind, stream);
}

cudaError_t from_symbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                        CUstream stream) {
  if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  void* part = nullptr;
  if (cudaError_t e = part_of(symbol, bytes, offset, &part)) return e;
  return copy(to, part, bytes, kind, stream);
}

}  // namespace
}  // namespace fp4lab::cudart

using namespace fp4lab::cudart;

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return call([&] { return copy(to, from, bytes, kind, on(nullptr)); });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call([&] { return copy(to, from, bytes, kind, on(stream)); });
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
  return call([&] { return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, on(nullptr)); });
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&] { return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, on(stream)); });
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  return call([&] { return copy_3d(p, on(nullptr)); });
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  return call([&] { return copy_3d(p, on(stream)); });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return call([&] { return to_symbol(symbol, from, bytes, offset, kind, on(nullptr)); });
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&] { return to_symbol(symbol, from, bytes, offset, kind, on(stream)); });
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  return call([&] { return from_symbol(to, symbol, bytes, offset, kind, on(nullptr)); });
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&] { return from_symbol(to, symbol, bytes, offset, kind, on(stream)); });
}
