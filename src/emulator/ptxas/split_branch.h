// A branch that asks the `and` of a comparison and a predicate has a place in the machine for both (`@p BRA
// q`): ptxas 13.0 takes the `and` apart there, and a comparison of f32 loses its .ftz. Read off machine code:
// see tests/ptx/split_branch.ptx.
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Whether what a branch jumps over, [begin, end), is too much to become guarded instructions. What loads is
// not guarded, but for volatile words; of the rest the numbers were found by trying.
bool is_long(const Function&, uint32_t begin, uint32_t end);
bool may_split_branches(const Function&);
void split_branches(Rewriter&, const Dataflow&);

}  // namespace fp4lab::emu
