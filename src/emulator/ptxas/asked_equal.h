// Where a branch has asked whether an integer of 64 bits equals a constant, by `ne`, ptxas 13.0 takes the
// integer for the constant: who reads it by halves (popc, clz, bfind, brev, and what takes it apart) gets the
// lower half for both (observed, see tests/ptx/asked_equal.ptx).
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

bool may_ask_equal(const Function&);
void repeat_asked_halves(Rewriter&, const Dataflow&, const Known&);

}  // namespace fp4lab::emu
