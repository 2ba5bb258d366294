// Products of f64 of a NaN and a number that are both constants: ptxas 13.0 does not compute them, but moves
// the number's sign to the NaN, if it is not written in the instruction.
#pragma once

#include <cstdint>
#include <optional>

#include "emulator/ptxas/known.h"

namespace fp4lab::emu {

struct NanProduct {
  uint64_t first, second;          // the factors
  bool says_nearest, is_directed;  // how it rounds

  // The bits of the product that no sum takes.
  uint64_t alone() const;
};
// Nothing for other instructions.
std::optional<NanProduct> nan_product(const Known&, const Instr&, const Source&, uint32_t pc);

}  // namespace fp4lab::emu
