// Modules and functions.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulator/core/place.h"
#include "emulator/driver/exchange.h"
#include "emulator/driver/jit_options.h"
#include "emulator/driver/launch.h"
#include "emulator/driver/register_count.h"
#include "emulator/driver/state.h"
#include "emulator/ptx/load.h"
#include "emulator/ptx/parser.h"
#include "fp4lab/emulator.h"
#include "fp4lab/error.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

namespace {

// "sm_100a" -> 100.
int architecture(const std::string& target) {
  int number = 0;
  return std::sscanf(target.c_str(), "sm_%d", &number) == 1 ? number : 0;
}

std::string foreign_target(std::string_view target) {
  const DeviceModel& device = *state().device;
  return fmt::format(
      "the PTX is for {}, the emulated device is {} (sm_{}a); FP4LAB_EMULATOR_DEVICE chooses another: {}",
      target, device.name, device.major * 10 + device.minor, device_model_names());
}

// "sm_100a" of ".target sm_100a"; empty: there is none.
std::string target_of(std::string_view ptx) {
  const size_t at = ptx.find("\n.target");
  const size_t begin = at == ptx.npos ? at : ptx.find("sm_", at);
  return begin == ptx.npos ? ""
                           : std::string(ptx.substr(
                                 begin, std::min(ptx.find_first_of(" ,\t\r\n", begin), ptx.size()) - begin));
}

// The driver of CUDA 13 has PTX ISA 9. A later CUDA 13 writes 9.1 and newer together with machine code that
// this driver would run (CUDA Compatibility, minor versions), so that PTX is accepted.
bool is_too_new(const Module& module) { return std::atoi(module.version.c_str()) > 9; }

// ptxas takes such a parameter, and the driver (580) then refuses the machine code: only a host that lays out
// shared memory itself (OpenCL) could give it a value.
std::string shared_pointer(const Module& module) {
  for (const Function& f : module.functions)
    for (const Parameter& p : f.params)
      if (f.entry && p.points_to_shared)
        return fmt::format(
            "{}: the parameter '{}' of kernel {} is a pointer to shared memory (.ptr .shared), "
            "for which CUDA's driver does not load a module",
            module.name, p.name, kernel_name(f.name));
  return {};
}

CUresult load_image(CUmodule* out, const void* image, size_t bytes, std::string_view name,
                    const JitOptions& options = {}) {
  if (CUresult r = ready()) return r;
  if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
  options.write("");
  const auto refuse = [&](CUresult code, const std::string& why) {
    options.write(why);
    return explain(code, why);
  };
  Image found = read_image(image, bytes);
  if (found.ptx.empty()) return refuse(found.code, found.reason);
  auto handle = std::make_unique<CUmod_st>();
  handle->context = context_stack().back();
  std::string target;
  try {
    std::string label(name);
    std::string ptx = exchange_ptx(std::move(found.ptx), label);
    target = target_of(ptx);
    handle->module = parse(std::move(ptx), label, options.how);
    if (!runs_on(handle->module->target, *state().device))
      return refuse(CUDA_ERROR_INVALID_PTX, foreign_target(handle->module->target));
    if (is_too_new(*handle->module))
      return refuse(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                    fmt::format("the PTX's .version is {}, the emulated driver's PTX ISA is 9",
                                handle->module->version));
    if (const std::string why = shared_pointer(*handle->module); !why.empty())
      return refuse(CUDA_ERROR_INVALID_IMAGE, why);
    load(*handle->module, *state().memory);
  } catch (const PtxError& e) {
    // What another device has, and this one has not, is no mistake in the text.
    const bool foreign = !target.empty() && !runs_on(target, *state().device);
    const std::string why = foreign ? foreign_target(target) : e.what();
    record_refusal(name, why);
    return refuse(CUDA_ERROR_INVALID_PTX, why);
  } catch (const fp4lab::Error& e) {
    return refuse(CUDA_ERROR_OPERATING_SYSTEM, e.what());
  } catch (const std::exception& e) {
    return refuse(CUDA_ERROR_OUT_OF_MEMORY, e.what());
  }
  for (const Function& f : handle->module->functions)
    if (f.entry) {
      auto& function = handle->functions[f.name] = std::make_unique<CUfunc_st>(handle.get(), &f);
      // The rest of 48 KiB (seen on an H200 with driver 580).
      function->max_dynamic_shared -= std::min<uint32_t>(function->max_dynamic_shared, f.static_shared_bytes);
    }
  for (const Symbol& s : handle->module->symbols)
    if (s.space == Space::global || s.space == Space::constant) handle->globals[s.name] = {s.address, s.size};
  std::lock_guard lock(state().mutex);
  for (const Function& f : handle->module->functions)
    state().overlapping |= std::ranges::any_of(
        f.source, [](const Source& s) { return !s.tokens.empty() && s.tokens[0] == "griddepcontrol"; });
  for (const Symbol& s : handle->module->symbols)
    if (s.managed) state().host_memory[s.address] = {s.size, HostMemory::managed, CU_MEM_ATTACH_GLOBAL};
  state().modules.insert(handle.get());
  *out = handle.release();
  return CUDA_SUCCESS;
}

// All of a module's constants, whichever its kernels read (seen on an H200 with driver 580).
uint64_t constant_bytes(const Module& module) {
  uint64_t end = 0;
  for (const Symbol& s : module.symbols)
    if (s.space == Space::constant) end = (end + s.align - 1) / s.align * s.align + s.size;
  return end;
}

bool known(CUmodule m) {
  std::lock_guard lock(state().mutex);
  return state().modules.contains(m);
}

// Whether the caller's function is valid for the call.
CUresult check(CUfunction f, CUresult of_null = CUDA_ERROR_INVALID_HANDLE) {
  if (CUresult r = ready_anywhere()) return r;
  return !f ? of_null : exists(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

extern "C" void fp4lab_emulator_label(const char* name) { state().label = name && *name ? name : "module"; }

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return load_image(module, image, 0, state().label);
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options,
                            void** values) {
  return load_image(module, image, 0, state().label, {count, options, values});
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return cuModuleLoadData(module, image);
}

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return load_file(module, path, 0, nullptr, nullptr);
}

CUresult fp4lab::emu::driver::load_file(CUmodule* module, const char* path, unsigned count,
                                        CUjit_option* options, void** values) {
  if (CUresult r = ready()) return r;
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  std::FILE* file = std::fopen(path, "rb");
  if (!file)
    return explain(CUDA_ERROR_FILE_NOT_FOUND, fmt::format("module {}: {}", path, std::strerror(errno)));
  std::string text;
  char piece[65536];
  while (const size_t n = std::fread(piece, 1, sizeof piece, file)) text.append(piece, n);
  std::fclose(file);
  return load_image(module, text.data(), text.size(), path, {count, options, values});
}

CUresult cuModuleUnload(CUmodule module) {
  if (CUresult r = ready(false)) return r;
  if (known(module))
    if (CUresult r = refuse_in_capture()) return r;
  {
    std::lock_guard lock(state().mutex);
    if (!state().modules.contains(module)) return CUDA_ERROR_INVALID_HANDLE;
    if (!module->context) return CUDA_ERROR_NOT_PERMITTED;  // a library's
    state().modules.erase(module);
  }
  free_module(module);
  return CUDA_SUCCESS;
}
void fp4lab::emu::driver::free_module(CUmodule module) {
  {
    std::lock_guard lock(state().mutex);
    for (const Symbol& s : module->module->symbols)
      if (s.managed) state().host_memory.erase(s.address);
  }
  if (state().checker) state().checker->forget(*module->module);
  unload(*module->module, *state().memory);
  delete module;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (CUresult r = ready_anywhere()) return r;
  if (!known(module)) return CUDA_ERROR_INVALID_HANDLE;
  if (!function || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  const auto found = module->functions.find(std::string_view(name));
  if (found != module->functions.end()) {
    *function = found->second.get();
    return CUDA_SUCCESS;
  }
  std::string names;
  for (const auto& [n, f] : module->functions) names += (names.empty() ? "" : ", ") + n;
  return explain(CUDA_ERROR_NOT_FOUND,
                 fmt::format("cuModuleGetFunction: no kernel '{}'; the module has: {}", name, names));
}

CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  if (CUresult r = ready_anywhere()) return r;
  if (!known(module)) return CUDA_ERROR_INVALID_HANDLE;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->functions.size());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule module) {
  if (CUresult r = ready_anywhere()) return r;
  if (!known(module)) return CUDA_ERROR_INVALID_HANDLE;
  if (!functions) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [name, f] : module->functions)
    if (count) *functions++ = f.get(), --count;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
  if (CUresult r = ready_anywhere()) return r;
  if (!known(module)) return CUDA_ERROR_INVALID_HANDLE;
  if (!name || !*name) return CUDA_ERROR_INVALID_VALUE;
  const auto found = module->globals.find(std::string_view(name));
  if (found == module->globals.end()) return CUDA_ERROR_NOT_FOUND;
  if (address) *address = found->second.address;
  if (bytes) *bytes = found->second.size;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (CUresult r = ready(false)) return r;
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction f) {
  if (CUresult r = check(f, CUDA_ERROR_INVALID_VALUE)) return r;
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = f->function->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction f) {
  if (CUresult r = check(f, CUDA_ERROR_INVALID_VALUE)) return r;
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  *module = f->module;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t* offset, size_t* size) {
  if (CUresult r = check(f, CUDA_ERROR_INVALID_VALUE)) return r;
  if (!offset || index >= f->function->params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = driver_offsets(*f->function)[index];
  if (size) *size = f->function->params[index].size;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction f) {
  if (CUresult r = check(f)) return r;
  if (!value || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  const Function& function = *f->function;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = int(max_threads(function));
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = int(function.static_shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = int(constant_bytes(*f->module->module));
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = int(function.frame_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = int(register_count(*f->module->module, function));
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = architecture(f->module->module->target);
      break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = int(f->max_dynamic_shared);
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = f->non_portable_cluster;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      *value = function.req_cluster[0] != 0;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      *value = int(required_cluster(*f).x);
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      *value = int(required_cluster(*f).y);
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      *value = int(required_cluster(*f).z);
      break;
    default:
      *value = f->attributes.contains(attribute)                                 ? f->attributes[attribute]
               : attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ? -1
                                                                                 : 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value) {
  if (CUresult r = check(f)) return r;
  const uint32_t limit = state().device->shared_per_cta_optin;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || value + f->function->static_shared_bytes > limit)
        return explain(CUDA_ERROR_INVALID_VALUE,
                       fmt::format("{}: {} bytes of dynamic and {} of static shared memory exceed the {} "
                                   "that a block may opt in to",
                                   f->function->name, value, f->function->static_shared_bytes, limit));
      f->max_dynamic_shared = uint32_t(value);
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      f->non_portable_cluster = value != 0;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      f->attributes[attribute] = value;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      if (value < 0) return CUDA_ERROR_INVALID_VALUE;
      if (f->function->req_cluster[0]) return CUDA_ERROR_NOT_PERMITTED;  // the kernel was compiled with one
      f->attributes[attribute] = value;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      if (value < 0 || value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING) return CUDA_ERROR_INVALID_VALUE;
      f->attributes[attribute] = value;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// Everything is loaded with its module.
CUresult cuFuncLoad(CUfunction f) { return check(f); }
CUresult cuFuncIsLoaded(CUfunctionLoadingState* loaded, CUfunction f) {
  if (CUresult r = check(f)) return r;
  if (!loaded) return CUDA_ERROR_INVALID_VALUE;
  *loaded = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config) {
  if (CUresult r = check(f)) return r;
  return unsigned(config) > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
