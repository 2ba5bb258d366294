// Loops that only compute what nobody wants. ptxas 13.0 leaves them out, whether or not they would end
// (observed), so that the code before and behind them is one block. CUDA C++ leaves many of them. Here they
// are carried out all the same: a program may wait a while with one.
#pragma once

#include <vector>

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Whether a branch leads back at all.
bool has_loops(const Rewriter&);
// The branches that lead back in idle loops. Loops in which such loops stand are idle in the eyes of a
// Dataflow that takes these for none.
std::vector<uint32_t> idle_branches(const Rewriter&, const Dataflow&);

}  // namespace fp4lab::emu
