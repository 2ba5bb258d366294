// Loads of .const memory by a register that a copy has given a variable's address: ptxas 13.0 loads from the
// variable itself, so that the instruction that reads what is loaded may read it from the bank (observed).
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

bool may_move_addresses(const Function&);
// The addresses of such loads name the variable; no instruction moves.
void name_moved_addresses(Rewriter&, const Dataflow&);

}  // namespace fp4lab::emu
