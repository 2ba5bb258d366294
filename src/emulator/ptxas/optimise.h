// What the driver's compiler makes of floating-point arithmetic, as far as the bits show it. PTX leaves some
// results open, and programs run as ptxas compiled them, by default with optimisation (-O3):
//
// * mul and add (or sub) that do not say how they round become one fma (contraction.h).
// * Of two NaNs among f64 operands the hardware keeps the one that stands in a certain place, and ptxas
//   orders the operands of a sum or product (value_order.h).
// * min(x, x), max(x, x), and x * 1 without a rounding, are x, also for a NaN.
// * Single instructions are folded, of constants above all (peephole.h).
// * abs.f32 and neg.f32 that become part of a selection (a guard's, or a selp.f32's) change the sign and do
//   not make a NaN canonical; two negations are none.
// * Approximate functions of constants are computed by the compiler; quotients and reciprocals end in a
//   product, which may become part of an fma as others do (approximate.h).
//
// The rules were read off ptxas 13.0's machine code and compared with an H200, see notes/design/ptxas.md.
#pragma once

#include <span>
#include <vector>

#include "emulator/ptx/image.h"

namespace fp4lab::emu {

// rows[pc] is the table's row of code[pc]. To be called before branches learn where they reconverge.
// `nounroll`: where these pragmas stand.
void optimise(Image&, Function&, std::vector<const Entry*> rows, const std::vector<const Token*>& nounroll);

}  // namespace fp4lab::emu
