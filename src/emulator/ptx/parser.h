// PTX text to Module.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "emulator/core/error.h"
#include "emulator/core/ir.h"

namespace fp4lab::emu {

// As the driver's compiler would make it: by default with optimisation, which shows in some results
// (ptxas/optimise.h), or each instruction as it is written.
enum class Compilation : uint8_t { optimised, as_written };

// Parses and lowers a PTX module; every instruction is bound. `file_name` is what messages call it. Throws
// PtxError for whatever is malformed, unknown or not implemented. The result does not run before load()
// (ptx/load.h) has given its .global and .const symbols their addresses.
std::unique_ptr<Module> parse(std::string text, std::string_view file_name,
                              Compilation = Compilation::optimised);

}  // namespace fp4lab::emu
