// A mask over the 16 bits that a conversion from f32 has made in one instruction (F2FP), if the lower half of
// a pack alone reads what is left: ptxas 13.0 puts a 0 above the 16 bits instead, and the mask is lost. Read
// off its machine code: see tests/ptx/masked_half.ptx.
#pragma once

#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Whether the function has such conversions at all.
bool may_lose_masks(const Function&);
void lose_masks(Rewriter&, const Dataflow&, const Known&);

}  // namespace fp4lab::emu
