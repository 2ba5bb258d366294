// Registers of a wgmma that are written behind the last wgmma.fence.
//
// The manual wants a wgmma.fence between any access of a register and the wgmma.mma_async that has it as
// accumulator or as fragment of A; accumulators may go from product to product without one (PTX
// ISA 9.7.15.7.1). The first product without any fence is a fault of the emulator. Here, from the program
// text: is there a way from an instruction that computes or loads a register to a product of that register
// that meets no fence? Moves between registers and of constants do not count: compilers put them anywhere,
// and ptxas removes them again.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

struct UnfencedRegister {
  uint32_t writer, product;  // pcs; one writer for each product
};
std::vector<UnfencedRegister> unfenced_registers(const Function&);

}  // namespace fp4lab::emu
