// max.NaN with 0 of a sum, product or fma of f16 or bf16, or of pairs: machine code has one instruction for
// both (HFMA2.RELU), where the second one's .ftz counts and the first one's .sat and the second one's
// .xorsign.abs are lost. Which become one was read off the machine code of ptxas 13.0: see
// tests/ptx/relu.ptx.
#pragma once

#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Whether there is such an extreme at all.
bool may_rectify(const Function&);
// Behind contraction, whose products the extreme reads as others do. The rewriter has rebuilt then.
void rectify(Rewriter&, const Dataflow&, const Known&);

}  // namespace fp4lab::emu
