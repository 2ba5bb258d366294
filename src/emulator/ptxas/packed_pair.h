// A conversion to a pair of e4m3 or e5m2 whose 16 bits are packed below 16 others: machine code does both in
// one instruction (F2FP ..._MERGE_C), after which ptxas 13.0 takes the upper half for what lies in the lower
// one, if an integer instruction made it in a whole register. Read off its machine code: see
// tests/ptx/packed_pair.ptx.
#pragma once

#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Whether the function converts to such pairs at all.
bool has_pairs_of_bytes(const Function&);
void mistake_packed_halves(Rewriter&, const Dataflow&, const Known&);

}  // namespace fp4lab::emu
