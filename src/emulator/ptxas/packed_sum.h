// A packed sum with a constant, add.u16x2 or add.s16x2, of which one half alone is wanted: ptxas 13.0 adds 0.
// Read off its machine code: see tests/ptx/packed_sum.ptx.
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Whether the function has packed sums at all.
bool has_packed_sums(const Function&);
void mistake_packed_sums(Rewriter&, const Dataflow&);

}  // namespace fp4lab::emu
