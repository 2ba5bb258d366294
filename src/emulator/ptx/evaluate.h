// What instructions of constants give: the emulator executes them, once, in one lane.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "emulator/ptx/rewrite.h"

namespace fp4lab::emu {

// Bits by instruction and target; of a predicate 0 or 1.
using Values = std::map<std::pair<uint32_t, uint64_t>, uint64_t>;
// What tells a function's registers and predicates from each other.
uint64_t key_of(const Operand&);

// Of unguarded instructions that read only constants and what others of the list make, in the order of the
// function. Nothing if one of them faults.
Values evaluate(const Rewriter&, const std::vector<uint32_t>& pcs);

}  // namespace fp4lab::emu
