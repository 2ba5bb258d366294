// A branch that asks the `and` of a comparison and a predicate has a place in the machine for both (`@p BRA
// q`): ptxas 13.0 takes the `and` apart there, and a comparison of f32 loses its .ftz. Read off machine code:
// see tests/ptx/split_branch.ptx.
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

bool may_split_branches(const Function&);
void split_branches(Rewriter&, const Dataflow&);

}  // namespace fp4lab::emu
