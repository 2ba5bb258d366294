// A predicate that is a constant unless a short `if` compares two f32 with .ftz for it: ptxas 13.0 makes
// logic of that `if`, and loses the .ftz (observed).
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

bool may_join_predicates(const Function&);
void join_predicates(Rewriter&, const Dataflow&, const Known&);

}  // namespace fp4lab::emu
