// PTX text to Module.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "emulator/core/error.h"
#include "emulator/core/ir.h"

namespace fp4lab::emu {

// optimised: a product and a sum without rounding modifiers become one fma (contract.h), as every compiler
// does it by default; as_written: each instruction alone, as with CU_JIT_OPTIMIZATION_LEVEL 0.
enum class Compilation : uint8_t { optimised, as_written };

// Parses and lowers a PTX module; every instruction is bound. `file_name` is what messages call it. Throws
// PtxError for whatever is malformed, unknown or not implemented. The result does not run before load()
// (ptx/load.h) has given its .global and .const symbols their addresses.
std::unique_ptr<Module> parse(std::string text, std::string_view file_name,
                              Compilation = Compilation::optimised);

}  // namespace fp4lab::emu
