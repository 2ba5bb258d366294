// Places a module's .global and .const variables in device memory.
#pragma once

#include "emulator/core/ir.h"
#include "emulator/core/memory.h"

namespace fp4lab::emu {

// Allocates and initialises every symbol (with zeros if there is no initialiser, as the manual demands) and
// writes the addresses into the code. Call it once, before the first launch. Throws fp4lab::Error if the
// device memory is used up.
void load(Module&, GlobalMemory&);
// Frees what load() allocated.
void unload(Module&, GlobalMemory&);

}  // namespace fp4lab::emu
