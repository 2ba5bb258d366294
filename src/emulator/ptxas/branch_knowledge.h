// What ptxas 13.0 takes a predicate for where a branch on it has led. Behind the head of a loop that is wrong
// where the loop writes the predicate: the compiler keeps to the value of the first round, and that shows in
// the bits of what every round chooses by it (observed, see tests/ptx/known_branch.ptx).
#pragma once

#include "emulator/ptx/token.h"
#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Whether a predicate that a branch depends on stands more than once among the first two operands of
// instructions: where targets stand, and sources of some (and.pred). So it holds wherever one is written more
// than once; compilers write none so.
bool may_mistake_branches(const Function&);
// Makes such predicates constants, and instructions under them unguarded or none. The rewriter has rebuilt
// then.
void fold_known_branches(Rewriter&, const Dataflow&, const std::vector<const Token*>& nounroll);

}  // namespace fp4lab::emu
