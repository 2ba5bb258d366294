// Copies.
#include "runtime/descriptors.h"
#include "runtime/on_stream/default_stream.h"

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
  if (p && !p->srcArray && !p->dstArray && (!p->extent.width || !p->extent.height || !p->extent.depth))
    return cudaSuccess;
  CUDA_MEMCPY3D c;
  if (cudaError_t e = driver_params(p, &c)) return e;
  return from_driver(cuMemcpy3DAsync(&c, stream));
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

// Copies of a batch may run in any order; here in the given one.
cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* bytes, size_t count,
                                 cudaMemcpyAttributes*, size_t*, size_t, cudaStream_t stream) {
  return call([&] {
    if (!count || !to || !from || !bytes) return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i)
      if (cudaError_t e = copy(to[i], from[i], bytes[i], cudaMemcpyDefault, on(stream))) return e;
    return cudaSuccess;
  });
}
