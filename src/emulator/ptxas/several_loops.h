// Loops of which ptxas 13.0 makes several: one of four rounds at once, then two rounds, then one
// (counted_loop.h). Each copy of a round has its own order of operands (value_order.h), takes products of the
// round before it into its sums, and undoes signs with it.
#pragma once

#include "emulator/ptx/token.h"
#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Whether a loop may count down to the opposite of a register.
bool may_lose_signs(const Function&);
// Of loops that compute with floats, or count down to the opposite of a register. Whether there was one.
bool make_several_loops(Rewriter&, const Dataflow&, const std::vector<const Token*>& nounroll);

}  // namespace fp4lab::emu
