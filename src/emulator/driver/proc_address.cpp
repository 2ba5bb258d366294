// cuGetProcAddress: entry points by name and CUDA version.
#include <fmt/format.h>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

#undef cuGetProcAddress
extern "C" {

CUresult CUDAAPI cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* status) {
  if (!name || !function) return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const EntryPoint* best = nullptr;  // the newest form that a program of that version knows
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
  return explain(CUDA_ERROR_NOT_FOUND, newer
                                           ? fmt::format("cuGetProcAddress: CUDA {}.{} has no {} yet",
                                                         version / 1000, version % 1000 / 10, name)
                                           : fmt::format("cuGetProcAddress: the driver API has no {}", name));
}

CUresult CUDAAPI cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
}
