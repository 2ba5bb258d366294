// A product and a sum that do not say how they round become one fma: "an add without a rounding modifier may
// be contracted" (PTX ISA 9.7.3.3, 9.7.3.5, 9.7.4.1), and every compiler does so where it optimises.
#pragma once

#include <vector>

#include "emulator/ptx/image.h"

namespace fp4lab::emu {

// The product is unguarded and only the sum reads it, in the same basic block, where its factors still are
// what they were. Of two such products of a sum the first operand is taken. rows[pc] is the table's row of
// code[pc]; they change together. The product stays where it is, for whoever looks at its register.
void contract(Image&, Function&, std::vector<const Entry*>& rows);

}  // namespace fp4lab::emu
