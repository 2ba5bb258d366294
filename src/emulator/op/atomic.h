// What the compiler's optimisation changes of atomic operations.
#pragma once

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// f64 sums of global memory, of atomics and bulk reductions: of two NaNs the operand counts, and none is made
// quiet (seen on an H200).
uint64_t sum_in_global(uint64_t old, uint64_t operand);
// The body of atom.add.f64 and red.add.f64 of a register, as ptxas compiles them by default.
Body optimised_add_f64();

}  // namespace fp4lab::emu
