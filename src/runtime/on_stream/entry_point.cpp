// The driver's entry points by name.
#include "runtime/on_stream/default_stream.h"

namespace fp4lab::cudart {
namespace {

cudaError_t entry_point(const char* name, void** function, unsigned version, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* status) {
  if (!name || !function) return cudaErrorInvalidValue;
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  if (flags == cudaEnableDefault) flags = cudaEnablePerThreadDefaultStream;
#endif
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult r = cuGetProcAddress(name, function, int(version), flags, &found);
  if (r == CUDA_ERROR_INVALID_VALUE) return cudaErrorInvalidValue;
  if (status) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
  return r == CUDA_SUCCESS || status ? cudaSuccess : cudaErrorSymbolNotFound;
}

}  // namespace
}  // namespace fp4lab::cudart

using namespace fp4lab::cudart;

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return plain([&] { return entry_point(name, function, CUDART_VERSION, flags, status); });
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* status) {
  return plain([&] { return entry_point(name, function, version, flags, status); });
}
