#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "emulator/ptx/parser.h"

namespace fp4lab::emu::driver {

// The JIT options that have an effect here: the compilation mode, and the buffers for error messages.
struct JitOptions {
  Compilation how = Compilation::optimised;
  char* log = nullptr;
  size_t log_bytes = 0;
  void** filled = nullptr;  // receives the bytes used

  JitOptions() = default;
  JitOptions(unsigned count, const CUjit_option* options, void** values) {
    for (unsigned i = 0; i < count; ++i) {
      if (options[i] == CU_JIT_OPTIMIZATION_LEVEL && !values[i]) how = Compilation::as_written;
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log = static_cast<char*>(values[i]);
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
        log_bytes = reinterpret_cast<size_t>(values[i]), filled = &values[i];
      if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) values[i] = nullptr;  // nothing is written there
    }
  }
  void write(const std::string& text) const {
    if (log && log_bytes) std::snprintf(log, log_bytes, "%s", text.c_str());
    if (filled)
      *filled = reinterpret_cast<void*>(log && log_bytes ? std::min(text.size(), log_bytes - 1) : 0);
  }
};

}  // namespace fp4lab::emu::driver
