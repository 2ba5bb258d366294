// Loops of which ptxas 13.0 makes several: one of four rounds at once, then two rounds, then one
// (counted_loop.h). Each copy of a round has its own order of operands (value_order.h), takes products of the
// round before it into its sums, and undoes signs with it.
#pragma once

#include "emulator/ptx/token.h"
#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Of loops that compute with floats. Whether there was one.
bool make_several_loops(Rewriter&, const Dataflow&, const std::vector<const Token*>& nounroll);

}  // namespace fp4lab::emu
