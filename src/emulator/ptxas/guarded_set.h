// What a guarded `set` does to lanes whose guard is false: ptxas 13.0 makes an integer, 0 or -1, under the
// guard, and converts it to the destination's type without the guard, at every optimisation level. So the
// old value is converted there: sign-extended from 16 bits when 16-bit values are compared for .u32 or .s32,
// its magnitude made a float for .f32, .f16 and .bf16. For the last two of wider values it converts the
// whole register: whole_register.h.
#pragma once

#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Converts before such instructions what their destinations hold, if something may read that behind them. Not
// where it may read a destination that nothing has written, since the conversion would count as written: but
// for what the opposite guard has just put there, which is converted under that guard.
void convert_before_guards(Rewriter&);

}  // namespace fp4lab::emu
