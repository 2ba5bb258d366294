// Which instructions ptxas 13.0 computes itself where all their operands are constants.
#pragma once

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// Observed: each form of the instruction sweep with constants for operands, its result an argument of
// ex2.approx, which is a constant or a MUFU.EX2 in the machine code. What ptxas leaves to the hardware (fma,
// lop3, prmt, most f16, directed roundings, ...) is not known to it, though it could be. The approximate f32
// functions are fold.h's.
bool is_foldable(const Source&);
// Of these only where the result is 0: the integer 0 as f16, and a false comparison. Any other number, and a
// truth, is left to the conversion from integers.
bool is_foldable_to_zero(const Source&);
// And of these, from a float to an integer downwards or upwards, only where the number that is converted lies
// at one of the integers' ends or beyond it.
bool is_foldable_at_ends(const Source&);
bool is_at_ends(const Source&, uint64_t bits);

}  // namespace fp4lab::emu
