// Loops whose number of rounds is a constant become straight-line code, as ptxas 13.0 makes it: which of two
// NaNs f64 sums keep depends on that (value_order.h).
#pragma once

#include "emulator/ptx/dataflow.h"
#include "emulator/ptx/rewrite.h"
#include "emulator/ptx/token.h"

namespace fp4lab::emu {

// It has f64 sums or products. Other functions keep their loops, although ptxas unrolls those too: there a
// product of one round does not become part of a sum of the next. (Signs that rounds undo:
// alternating_sign.h.)
bool may_unroll(const Function&);
// Whether there was such a loop.
bool unroll(Rewriter&, const Dataflow&, const std::vector<const Token*>& nounroll);

}  // namespace fp4lab::emu
