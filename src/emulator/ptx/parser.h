// PTX text to Module.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "emulator/core/error.h"
#include "emulator/core/ir.h"

namespace fp4lab::emu {

// optimised: FMA contraction, as every compiler does by default (contract.h); as_written: each instruction by
// itself, as with CU_JIT_OPTIMIZATION_LEVEL 0.
enum class Compilation : uint8_t { optimised, as_written };

// Parses and lowers a PTX module; every instruction is bound. `file_name` is for messages. Throws PtxError
// for anything malformed, unknown or not implemented. The result must not run before load() (ptx/load.h) has
// placed its .global and .const symbols.
std::unique_ptr<Module> parse(std::string text, std::string_view file_name,
                              Compilation = Compilation::optimised);

}  // namespace fp4lab::emu
