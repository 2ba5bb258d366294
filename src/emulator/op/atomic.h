// Sums of atomics and bulk reductions.
#pragma once

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// f64 sums in global memory, by atomics and bulk reductions: of two NaNs the operand is the result, and none
// is made quiet (seen on an H200).
uint64_t sum_in_global(uint64_t old, uint64_t operand);

}  // namespace fp4lab::emu
