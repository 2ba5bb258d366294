// Constant operands of matrix products whose sign ptxas gets wrong. One of mma.sync that is one register of
// two halves: where the register is a negative number as an f32, ptxas 13.0 takes the opposite f32 and leaves
// the sign to the machine's product, which takes it for both halves. So the lower half's sign is the wrong
// one (seen in machine code and on an H200; tests/ptx/negative_constant.ptx). And where one of A's registers
// is a constant, wgmma's imm-scale-a of -1 negates integers (tests/ptx/wgmma_negated_words.ptx).
#pragma once

#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

bool may_mistake_constants(const Function&);
// Once: what it leaves would be mistaken again.
void mistake_negative_constants(Rewriter&, const Known&);

}  // namespace fp4lab::emu
