// 16 bits in a constant bank that are no lower half of a word there, and what reads them as a pair of halves:
// ptxas 13.0 for sm_90a takes the 16 bits behind them for the upper half, which is 0. Read off its machine
// code: see tests/ptx/bank_half.ptx.
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Whether the function reads 16 bits or pairs of them from a bank at all.
bool may_mistake_bank_halves(const Function&);
void mistake_bank_halves(Rewriter&, const Dataflow&);

}  // namespace fp4lab::emu
