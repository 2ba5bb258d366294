// Sums of halves in shared memory by a word of 64 bits: of the lower word of what mov.b64 or a conversion
// takes apart, ptxas 13.0 adds the lower half and, for the upper one, the lower half of the upper word; of
// the upper word it adds the lower half to both (seen in machine code for sm_90a and on an H200). Not what
// was packed of registers, or is a constant, and not in global memory (tests/ptx/atomic_word.ptx); but of the
// words of a product that two instructions make (tests/ptx/atomic_product.ptx). Of a truth
// by cnot.b32 it adds the mask with both halves' signs changed (tests/ptx/atomic_truth.ptx). A constant
// 1 it counts as an integer in shared memory where nobody wants what was there before
// (tests/ptx/atomic_one.ptx).
#pragma once

#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

bool may_mistake_atomic_words(const Function&);
// Once: what it leaves is right.
void mistake_atomic_words(Rewriter&, const Dataflow&, const Known&);

}  // namespace fp4lab::emu
