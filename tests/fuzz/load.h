// What both targets do with PTX text: read it, give its variables their places, and take them away again.
#pragma once

#include <string>

#include "emulator/ptx/load.h"
#include "emulator/ptx/parser.h"
#include "fp4lab/error.h"

inline void parse_and_load(std::string text) {
  using namespace fp4lab::emu;
  static GlobalMemory memory(uint64_t(16) << 20);
  try {
    const auto module = parse(std::move(text), "fuzz");
    load(*module, memory);
    unload(*module, memory);
  } catch (const PtxError&) {
  } catch (const fp4lab::Error&) {  // no memory for the variables
  }
}
