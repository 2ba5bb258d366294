// Libraries: modules without a context, and their kernels. The emulator has one device, so a library is its
// module and a kernel its function. The handles are the same, so a CUkernel can also be launched.
#include <fmt/format.h>

#include <string_view>

#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

CUmodule module_of(CUlibrary library) { return reinterpret_cast<CUmodule>(library); }
CUfunction function_of(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

bool is_library(CUlibrary library) {
  std::lock_guard lock(state().mutex);
  return state().modules.contains(module_of(library));
}

CUresult of_no_context(CUlibrary* library, CUresult loaded) {
  if (!loaded) module_of(*library)->context = nullptr;
  return loaded;
}

}  // namespace

// Loading options do not change the result.
CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options, void** values,
                           unsigned count, CUlibraryOption*, void**, unsigned) {
  return of_no_context(
      library, cuModuleLoadDataEx(reinterpret_cast<CUmodule*>(library), code, count, options, values));
}
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* file, CUjit_option* options, void** values,
                               unsigned count, CUlibraryOption*, void**, unsigned) {
  return of_no_context(library,
                       load_file(reinterpret_cast<CUmodule*>(library), file, count, options, values));
}
CUresult cuLibraryUnload(CUlibrary library) {
  if (CUresult r = ready(false)) return r;
  if (CUresult r = refuse_in_capture()) return r;
  {
    std::lock_guard lock(state().mutex);
    if (!state().modules.erase(module_of(library))) return CUDA_ERROR_INVALID_HANDLE;
  }
  free_module(module_of(library));
  return CUDA_SUCCESS;
}
// No function has one address for host and device.
CUresult cuLibraryGetUnifiedFunction(void**, CUlibrary, const char*) { return CUDA_ERROR_INVALID_VALUE; }
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  if (CUresult r = ready()) return r;
  if (!is_library(library)) return CUDA_ERROR_INVALID_HANDLE;
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  *module = module_of(library);
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return cuModuleGetFunction(reinterpret_cast<CUfunction*>(kernel), module_of(library), name);
}
CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
  return cuModuleGetFunctionCount(count, module_of(library));
}
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library) {
  return cuModuleEnumerateFunctions(reinterpret_cast<CUfunction*>(kernels), count, module_of(library));
}
CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
  return cuModuleGetGlobal(address, bytes, module_of(library), name);
}
CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
  CUdeviceptr found = 0;
  if (CUresult r = cuLibraryGetGlobal(&found, bytes, library, name)) return r;
  std::lock_guard lock(state().mutex);
  if (!host_memory(found)) return CUDA_ERROR_NOT_FOUND;  // a variable, but not a managed one
  if (address) *address = found;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  if (CUresult r = ready()) return r;
  if (!exists(function_of(kernel))) return CUDA_ERROR_INVALID_HANDLE;
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  *function = function_of(kernel);
  return CUDA_SUCCESS;
}
CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  return cuFuncGetModule(reinterpret_cast<CUmodule*>(library), function_of(kernel));
}
CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  return cuFuncGetName(name, function_of(kernel));
}
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* bytes) {
  return cuFuncGetParamInfo(function_of(kernel), index, offset, bytes);
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  return device ? CUDA_ERROR_INVALID_DEVICE : cuFuncGetAttribute(value, attribute, function_of(kernel));
}
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  return device ? CUDA_ERROR_INVALID_DEVICE : cuFuncSetAttribute(function_of(kernel), attribute, value);
}
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device) {
  return device ? CUDA_ERROR_INVALID_DEVICE : cuFuncSetCacheConfig(function_of(kernel), config);
}
