// The sign of a pair of f16 that holds a half of a word beside something else, in an instruction of which a
// later operand is that word with its halves exchanged: ptxas 13.0 loses it (observed, see
// tests/ptx/swapped_half.ptx).
#pragma once

#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

bool may_swap_halves(const Function&);
void mistake_swapped_halves(Rewriter&, const Known&);

}  // namespace fp4lab::emu
