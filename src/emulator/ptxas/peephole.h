// Single instructions that the compiler folds, as far as their bits then differ from what executes: of
// constants (see also fold.h), of 1 as a factor, of comparisons whose outcome it believes to know, and pairs
// of which it makes one. Read off ptxas 13.0's machine code and seen on an H200, see notes/design/ptxas.md.
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Removes what no branch leads to.
void remove_unreachable(Rewriter&);

// Guards that always hold, or never; those of branches too, and the code that nothing leads to then. Whether
// there was one. `late`: also branches that are decided late.
bool fold_guards(Rewriter&, const Known&, bool late);
// Whether there are such branches.
bool has_late_branches(const Function&, const Known&);
// What gives a constant whatever one operand is (peephole/absorbing.cpp). Whether there was any.
bool fold_absorbed(Rewriter&, const Dataflow&, Known&);
// Whether anything has changed.
bool fold_single(Rewriter&, const Dataflow&, Known&);

}  // namespace fp4lab::emu
