// The driver API's entry points as data.
#pragma once

#include <span>

namespace fp4lab::emu::driver {

struct EntryPoint {
  const char* name;  // without version
  int since;         // the first CUDA version in which the name means this symbol
  bool per_thread;   // stream 0 is the calling thread's default stream
  void* function;
};

std::span<const EntryPoint> entry_points();

}  // namespace fp4lab::emu::driver
