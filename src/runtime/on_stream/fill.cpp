// Fills: of bytes only, as in the runtime's API.
#include "runtime/on_stream/default_stream.h"

namespace fp4lab::cudart {
namespace {

CUresult fill(void* to, int value, size_t bytes, CUstream stream) {
  return bytes ? cuMemsetD8Async(device_pointer(to), static_cast<unsigned char>(value), bytes, stream)
               : CUDA_SUCCESS;
}

CUresult fill_2d(void* to, size_t pitch, int value, size_t width, size_t height, CUstream stream) {
  return cuMemsetD2D8Async(device_pointer(to), pitch, static_cast<unsigned char>(value), width, height,
                           stream);
}

CUresult fill_3d(cudaPitchedPtr to, int value, cudaExtent extent, CUstream stream) {
  for (size_t z = 0; z < extent.depth; ++z)
    if (CUresult r = fill_2d(static_cast<char*>(to.ptr) + z * to.pitch * to.ysize, to.pitch, value,
                             extent.width, extent.height, stream))
      return r;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace fp4lab::cudart

using namespace fp4lab::cudart;

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return call([&] { return fill(to, value, bytes, on(nullptr)); });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return call([&] { return fill(to, value, bytes, on(stream)); });
}
cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return call([&] { return fill_2d(to, pitch, value, width, height, on(nullptr)); });
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return call([&] { return fill_2d(to, pitch, value, width, height, on(stream)); });
}
cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  return call([&] { return fill_3d(to, value, extent, on(nullptr)); });
}
cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
  return call([&] { return fill_3d(to, value, extent, on(stream)); });
}
