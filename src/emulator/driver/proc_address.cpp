// cuGetProcAddress: entry points by name and CUDA version. cuGetExportTable: requests of NVIDIA's own
// libraries.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

// A CUDA runtime requires all of these at its start.
bool is_interoperation(std::string_view name) {
  constexpr std::string_view kFamilies[] = {"cuGL", "cuGraphics", "cuEGL", "cuVDPAU"};
  return std::ranges::any_of(kFamilies, [&](std::string_view f) { return name.starts_with(f); });
}

// The file that contains this code; empty if unknown.
std::string file_of(const void* code) {
  Dl_info info;
  if (!dladdr(code, &info) || !info.dli_fname) return {};
  return std::filesystem::path(info.dli_fname).filename();
}

// NVIDIA's compilers look for a driver, and work without one.
bool compiles_only(std::string_view library) {
  return library.starts_with("libnvrtc") || library.starts_with("libnvJitLink");
}

// Bindings for a newer CUDA (CUDA Python) ask for dozens of missing names and work without them: only the
// first are printed to stderr, the caller is told of all.
CUresult tell_sparingly(const char* name, const std::string& why) {
  constexpr size_t kTold = 3;
  static std::mutex mutex;
  static std::set<std::string, std::less<>> asked;
  std::lock_guard lock(mutex);
  if (asked.size() > kTold || !asked.insert(name).second) return CUDA_ERROR_NOT_FOUND;
  if (asked.size() <= kTold) return explain(CUDA_ERROR_NOT_FOUND, "cuGetProcAddress: " + why);
  return explain(CUDA_ERROR_NOT_FOUND,
                 fmt::format("cuGetProcAddress: {} is missing too; further ones are not printed", name));
}

}  // namespace

#undef cuGetProcAddress
extern "C" {

// Undocumented tables of NVIDIA's CUDA runtime, which is part of each of NVIDIA's libraries and of programs
// linked with nvcc's default, -cudart static.
CUresult CUDAAPI cuGetExportTable(const void** table, const CUuuid*) {
  if (table) *table = nullptr;
  const std::string asker = file_of(__builtin_return_address(0));
  static std::mutex mutex;
  static std::set<std::string> told;  // it asks for several tables
  std::lock_guard lock(mutex);
  if (compiles_only(asker) || !told.insert(asker).second) return CUDA_ERROR_NOT_SUPPORTED;
  const bool library = asker.find(".so") != std::string::npos;
  return explain(
      CUDA_ERROR_NOT_SUPPORTED,
      fmt::format("cuGetExportTable: {} contains a CUDA runtime of its own, which needs NVIDIA's driver: {}",
                  asker.empty() ? "the program" : asker,
                  library ? "this library is not emulated, and its calls fail"
                          : "link the program with nvcc -cudart shared"));
}

CUresult CUDAAPI cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* status) {
  if (!name || !function) return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const EntryPoint* best = nullptr;  // the newest form known to a program of that version
  bool newer = false;
  for (const EntryPoint& e : entry_points()) {
    if (std::string_view(e.name) != name || (e.per_thread && !per_thread)) continue;
    if (e.since > version)
      newer = true;
    else if (!best || e.per_thread > best->per_thread ||
             (e.per_thread == best->per_thread && e.since > best->since))
      best = &e;
  }
  *function = best ? best->function : nullptr;
  if (status)
    *status = best    ? CU_GET_PROC_ADDRESS_SUCCESS
              : newer ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (best) return CUDA_SUCCESS;
  if (is_interoperation(name) || !*name) return CUDA_ERROR_NOT_FOUND;
  return tell_sparingly(
      name, newer ? fmt::format("CUDA {}.{} has no {} yet", version / 1000, version % 1000 / 10, name)
                  : fmt::format("the driver API of CUDA 13.0 has no {}", name));
}

CUresult CUDAAPI cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
}
