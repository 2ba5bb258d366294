// A loop that ptxas 13.0 unrolls has an even number of rounds behind each other, and a last one at most. A
// register that is negated in every round is then what it was before in every second one, a NaN too: two
// negations are none.
#pragma once

#include "emulator/ptx/token.h"
#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Whether there may be such a register.
bool may_alternate_signs(const Function&);
void alternate_signs(Rewriter&, const Dataflow&, const std::vector<const Token*>& nounroll);

}  // namespace fp4lab::emu
