// Loops that test at their begin: ptxas 13.0 tests once before the loop, and in it behind each round. What it
// orders and contracts sees the two tests, and what a round brings does not meet what comes from before the
// loop where that is left in its midst.
#pragma once

#include <vector>

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// All of them but those that several_loops.h and value_order.h know by their number of rounds. Whether there
// was any.
bool rotate_loops(Rewriter&, const Dataflow&, const std::vector<const Token*>& nounroll);

// Of those that count down to the opposite of a register, so that they test at their end as ptxas sees them
// (several_loops.h).
void rotate_counted_loops(Rewriter&, const Dataflow&, const std::vector<const Token*>& nounroll);

}  // namespace fp4lab::emu
