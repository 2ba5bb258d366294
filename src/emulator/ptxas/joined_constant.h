// A register to which all ways bring the same constant, through branches, loops and guards: ptxas 13.0 takes
// it for that constant, so that a product by 1.0 from both arms of an `if` is a copy.
#pragma once

#include "emulator/ptxas/known.h"

namespace fp4lab::emu {

// Whether several instructions write constants to one register.
bool may_join_constants(const Function&);

// Operands become constants in place. True if there are any.
bool join_constants(Rewriter&, const Dataflow&, const Known&);

}  // namespace fp4lab::emu
