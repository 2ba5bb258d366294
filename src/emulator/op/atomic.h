// What the compiler's optimisation changes of atomic operations.
#pragma once

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// The body of atom.add.f64 and red.add.f64 of a register, as ptxas compiles them by default.
Body optimised_add_f64();

}  // namespace fp4lab::emu
