// Whether a function has what a step is about: most functions have it not, and the step is passed over.
#pragma once

#include <algorithm>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// `is_it` is asked of an instruction and its source.
template <class Predicate>
bool any_instruction(const Function& f, Predicate&& is_it) {
  for (uint32_t pc = 0; pc < f.code.size(); ++pc)
    if (is_it(f.code[pc], f.source[pc])) return true;
  return false;
}

inline bool has_mnemonic(const Function& f, std::string_view name) {
  return std::ranges::any_of(f.source, [name](const Source& s) { return s.tokens[0] == name; });
}

}  // namespace fp4lab::emu
