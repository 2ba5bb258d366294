// Where constants stand in sums and products of f64 without optimisation. Of several NaNs the hardware keeps
// operand b's, then c's, then a's, and ptxas 13.0 at -O0 puts a constant that the text has as an operand
// second: of a difference, the first one's with the other number negated. A NaN that is subtracted has its
// sign changed in the compiler. Constants in registers stay where they are, and so do extremes and the
// addends of fma (read off machine code for sm_90a; an H200 agreed, tests/ptx/literal_order.ptx).
#pragma once

#include <vector>

#include "emulator/ptx/image.h"

namespace fp4lab::emu {

// rows[pc] is the table's row of code[pc]; they change together.
void order_literals(Image&, Function&, std::vector<const Entry*>& rows);

}  // namespace fp4lab::emu
