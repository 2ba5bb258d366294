// A load of 8 or 16 bits, extended to a register of which the code takes no more than bits 16 to 31 by taking
// the register apart or by the second predicate of a comparison of pairs: ptxas 13.0 then reads bits 0 to 15
// instead, as if the upper half of a wider word had been loaded. Read off its machine code: see
// tests/ptx/narrow_load.ptx.
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Whether the function has such a load at all.
bool has_narrow_loads(const Function&);
void mistake_narrow_loads(Rewriter&, const Dataflow&);

}  // namespace fp4lab::emu
