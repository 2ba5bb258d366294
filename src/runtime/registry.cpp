#include "runtime/registry.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace fp4lab::cudart {
namespace {

struct FatBinary;

struct Kernel {  // __cudaGetKernel returns a pointer to one to the host stub
  FatBinary* binary;
  std::string name;
  CUfunction function = nullptr;
};

struct Variable {
  FatBinary* binary;
  std::string name;
  size_t bytes;
  void** managed;  // a managed variable: the host's pointer to it, set at loading; else null
};

struct FatBinary {
  const void* wrapper;
  bool tried = false;
  CUresult result = CUDA_SUCCESS;
  CUlibrary loaded = nullptr;  // whose kernels run in every context
  CUmodule module = nullptr;
  std::vector<Variable*> managed = {};
};

struct Registry {
  std::recursive_mutex mutex;
  std::unordered_set<FatBinary*> binaries;
  std::unordered_map<const void*, std::unique_ptr<Kernel>> kernels;  // by host stub
  std::unordered_map<const void*, Kernel*> handles;                  // Kernel* given out
  std::unordered_map<const void*, std::unique_ptr<Variable>> variables;
};

Registry& registry() {
  static Registry* r = new Registry;  // never destroyed: host code unregisters from atexit
  return *r;
}

// The driver prints why an image does not load; loading is tried once.
CUresult load(FatBinary& b) {
  if (b.tried) return b.result;
  b.tried = true;
  b.result = cuLibraryLoadData(&b.loaded, b.wrapper, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (!b.result) b.result = cuLibraryGetModule(&b.module, b.loaded);
  for (Variable* v : b.managed) {
    CUdeviceptr address = 0;
    if (!b.result) b.result = cuModuleGetGlobal(&address, nullptr, b.module, v->name.c_str());
    if (!b.result) *v->managed = reinterpret_cast<void*>(address);
  }
  return b.result;
}

// The runtime's own error code for missing symbols; a faulted context's error is passed on.
cudaError_t not_found_as(cudaError_t code, CUresult r) {
  return r == CUDA_ERROR_NOT_FOUND ? code : from_driver(r);
}

FatBinary* binary_of(void** handle) { return reinterpret_cast<FatBinary*>(handle); }

void add_variable(void** handle, const void* key, const char* name, size_t bytes, void** managed) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto& v = r.variables[key] = std::make_unique<Variable>(Variable{binary_of(handle), name, bytes, managed});
  if (managed) v->binary->managed.push_back(v.get());
}

}  // namespace

std::vector<const void*> registered_images() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<const void*> images;
  for (const FatBinary* b : r.binaries) images.push_back(b->wrapper);
  return images;
}

cudaError_t find_function(const void* kernel, CUfunction* function) {
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  Kernel* k = nullptr;
  if (auto it = r.kernels.find(kernel); it != r.kernels.end())
    k = it->second.get();
  else if (auto handle = r.handles.find(kernel); handle != r.handles.end())
    k = handle->second;
  if (!k) {
    *function = static_cast<CUfunction>(const_cast<void*>(kernel));
    return from_driver(cuFuncLoad(*function));  // a library's, or the driver's own
  }
  if (!k->function) {
    if (CUresult e = load(*k->binary)) return from_driver(e);
    if (CUresult e = cuModuleGetFunction(&k->function, k->binary->module, k->name.c_str()))
      return not_found_as(cudaErrorInvalidDeviceFunction, e);
  }
  *function = k->function;
  return cudaSuccess;
}

const void* find_kernel(CUfunction function) {
  {
    const std::lock_guard lock(registry().mutex);
    for (const auto& [stub, kernel] : registry().kernels)
      if (kernel->function == function) return stub;
  }
  return function;
}

cudaError_t find_variable(const void* symbol, CUdeviceptr* address, size_t* bytes) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto it = r.variables.find(symbol);
  // Host code accesses a managed variable through its pointer, so `&variable` is that pointer's value.
  if (it == r.variables.end())
    it = std::ranges::find_if(r.variables, [symbol](const auto& entry) {
      return entry.second->managed && *entry.second->managed == symbol;
    });
  if (it == r.variables.end()) return cudaErrorInvalidSymbol;
  const Variable& v = *it->second;
  if (CUresult e = load(*v.binary)) return from_driver(e);
  return not_found_as(cudaErrorInvalidSymbol,
                      cuModuleGetGlobal(address, bytes, v.binary->module, v.name.c_str()));
}

}  // namespace fp4lab::cudart

using namespace fp4lab::cudart;

// Called by nvcc's host code (crt/host_runtime.h); no public header declares them.
extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  auto* b = new FatBinary{wrapper};
  std::lock_guard lock(registry().mutex);
  registry().binaries.insert(b);
  return reinterpret_cast<void**>(b);
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  FatBinary* b = binary_of(handle);
  if (!r.binaries.erase(b)) return;
  std::erase_if(r.handles, [b](const auto& k) { return k.second->binary == b; });
  std::erase_if(r.kernels, [b](const auto& k) { return k.second->binary == b; });
  std::erase_if(r.variables, [b](const auto& v) { return v.second->binary == b; });
  if (b->loaded) cuLibraryUnload(b->loaded);
  delete b;
}

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto& k = r.kernels[host] = std::make_unique<Kernel>(Kernel{binary_of(handle), name});
  r.handles[k.get()] = k.get();
}

void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t bytes, int, int) {
  add_variable(handle, host, name, bytes, nullptr);
}

void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, size_t bytes, int,
                              int) {
  add_variable(handle, host, name, bytes, host);
}

// Called before the host's first use of a managed variable: its pointer must be set.
char __cudaInitModule(void** handle) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  return enter() == CUDA_SUCCESS && load(*binary_of(handle)) == CUDA_SUCCESS;
}

// Called once per host stub. The fat binary is loaded at the first launch, which can report errors.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const auto it = r.kernels.find(host);
  if (it == r.kernels.end()) return finish(cudaErrorInvalidDeviceFunction);
  *kernel = reinterpret_cast<cudaKernel_t>(it->second.get());
  return cudaSuccess;
}

}  // extern "C"

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* kernel) {
  return call([&] {
    if (!function) return cudaErrorInvalidValue;
    const cudaError_t e = find_function(kernel, function);
    return e == cudaErrorInvalidResourceHandle ? cudaErrorInvalidDeviceFunction : e;
  });
}

// In the emulator's driver a CUkernel and its CUfunction are one handle.
cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  return cudaGetFuncBySymbol(reinterpret_cast<cudaFunction_t*>(kernel), host);
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return call([&] {
    if (!address) return cudaErrorInvalidValue;
    return find_variable(symbol, reinterpret_cast<CUdeviceptr*>(address), nullptr);
  });
}

cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  return call([&] {
    if (!bytes) return cudaErrorInvalidValue;
    return find_variable(symbol, nullptr, bytes);
  });
}
