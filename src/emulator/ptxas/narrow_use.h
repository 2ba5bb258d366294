// Floats that something narrower takes as integers: ptxas converts them, where the manual says that the lower
// bits are taken, with optimisation (-O3) and without (-O0). A store of integers or bits that are narrower
// than the register does so with what a float instruction of its block wrote there, or none of its block into
// a register that is declared as a float, and a shift of 64 bits with its amount. Read off ptxas 13.0's
// machine code and compared with an H200, see notes/design/ptxas.md.
#pragma once

#include <vector>

#include "emulator/ptx/image.h"

namespace fp4lab::emu {

// rows[pc] is the table's row of code[pc]; they change together.
void convert_narrow_uses(Image&, Function&, std::vector<const Entry*>& rows);

}  // namespace fp4lab::emu
