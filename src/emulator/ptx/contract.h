// FMA contraction: a product and a sum without rounding modifiers become one fma. "An add without a rounding
// modifier may be contracted" (PTX ISA 9.7.3.3, 9.7.3.5, 9.7.4.1), and every optimising compiler does it.
#pragma once

#include <vector>

#include "emulator/ptx/image.h"

namespace fp4lab::emu {

// Conditions: the product is unguarded, only the sum reads it, both are in the same basic block, and the
// factors are unchanged in between. If both operands of a sum qualify, the first is taken. rows[pc] is the
// table's row of code[pc]; they change together. The product stays in place for debuggers and watchers of its
// register.
void contract(Image&, Function&, std::vector<const Entry*>& rows);

}  // namespace fp4lab::emu
