// A predicate that is copied by and.pred or or.pred of another one and itself: where a branch or what
// ptxas 13.0 makes one of asks the copy at the end of the same block, and the other one came into the block,
// it asks that one itself, though it may have been written in between (seen in machine code and on an H200;
// tests/ptx/copied_predicate.ptx).
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

bool may_copy_predicates(const Function&);
void mistake_copied_predicates(Function&, const Dataflow&);

}  // namespace fp4lab::emu
