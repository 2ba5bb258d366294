// What is not emulated says so by name.
#include "check.h"

__global__ void nothing() {}
__global__ void other() {}
__global__ void fault() { __trap(); }

int main() {
  cudaResourceDesc resource{};
  cudaTextureDesc texture{};
  cudaTextureObject_t object = 0;
  FAILS(cudaErrorNotSupported, cudaCreateTextureObject(&object, &resource, &texture, nullptr));
  FAILS(cudaErrorNotSupported, cudaCreateTextureObject(&object, &resource, &texture, nullptr));
  cudaArray_t array;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  EXPECT(format.x == 32 && format.f == cudaChannelFormatKindFloat);
  FAILS(cudaErrorNotSupported, cudaMallocArray(&array, &format, 16));
  cudaIpcMemHandle_t handle;
  FAILS(cudaErrorNotSupported, cudaIpcGetMemHandle(&handle, &object));
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  CUDA(cudaGetDriverEntryPointByVersion("cuNoSuchCall", &entry, 13000, cudaEnableDefault, &found));
  EXPECT(!entry && found == cudaDriverEntryPointSymbolNotFound);
  CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 11000, cudaEnableDefault, &found));
  EXPECT(!entry && found == cudaDriverEntryPointVersionNotSufficent);
  int peer = 0;
  FAILS(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&peer, 0, 1));
  nothing<<<1, 1>>>();
  CUDA(cudaDeviceSynchronize());
  // A fault's error stays, for kernels that were not launched before too.
  fault<<<1, 1>>>();
  FAILS(cudaErrorLaunchFailure, cudaDeviceSynchronize());
  other<<<1, 1>>>();
  EXPECT(cudaGetLastError() == cudaErrorLaunchFailure);
  std::puts("ok");
}
