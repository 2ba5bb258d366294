// Libraries: kernels loaded at run time from PTX or a fatbin, without a host stub.
#include "runtime/registry.h"

using namespace fp4lab::cudart;

// Options of the JIT compiler and of loading do not change the result, and there is no compiler here.
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  return call([&] { return cuLibraryLoadData(library, code, nullptr, nullptr, 0, nullptr, nullptr, 0); });
}
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* file, cudaJitOption*, void**,
                                    unsigned, cudaLibraryOption*, void**, unsigned) {
  return call([&] { return cuLibraryLoadFromFile(library, file, nullptr, nullptr, 0, nullptr, nullptr, 0); });
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return call([&] { return cuLibraryUnload(library); });
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return call([&] { return cuLibraryGetKernel(kernel, library, name); });
}
cudaError_t cudaLibraryGetGlobal(void** address, size_t* bytes, cudaLibrary_t library, const char* name) {
  return call(
      [&] { return cuLibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(address), bytes, library, name); });
}
cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) {
  return call([&] { return cuLibraryGetKernelCount(count, library); });
}
cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned count, cudaLibrary_t library) {
  return call([&] { return cuLibraryEnumerateKernels(kernels, count, library); });
}
