// Where a branch has asked by `ne` whether an integer of 32 or 64 bits equals a constant, ptxas 13.0 takes
// the integer for the constant, and mistakes it where the machine's operand is a half or is negated
// (observed, see tests/ptx/asked_equal.ptx).
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

bool may_ask_equal(const Function&);
void mistake_asked_constants(Rewriter&, const Dataflow&, const Known&);

}  // namespace fp4lab::emu
