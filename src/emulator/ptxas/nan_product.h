// Products of f64 of a NaN and a number that are both constants: ptxas 13.0 does not compute them, but moves
// the number's sign to the NaN. Where the number comes first in the text (in the other order if it rounds in
// a direction) and nothing else reads it, the sign is one of machine code, which changes no NaN.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "emulator/ptxas/known.h"

namespace fp4lab::emu {

struct NanProduct {
  uint64_t first, second;          // the factors
  bool says_nearest, is_directed;  // how it rounds
  bool shares_nan;                 // with what keeps it in a register
  bool shares_number;              // with a store or another instruction

  // The bits of the product that no sum takes.
  uint64_t alone() const;
};
// Nothing for other instructions.
std::optional<NanProduct> nan_product(const Known&, const Instr&, const Source&, uint32_t pc);

// Of a product of f64 of a constant NaN and a negated value, in any block and under any guard: the NaN's slot
// and its bits, which take the sign. (Of a number the result is the same.)
std::optional<std::pair<unsigned, uint64_t>> negated_nan_factor(const Known&, const Source&, uint32_t pc,
                                                                const Function&);

}  // namespace fp4lab::emu
