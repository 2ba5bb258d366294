// Instructions of which a function has several copies, for the rounds of a loop (unroll.h, several_loops.h):
// all stand at the place of the text that they were made of.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

using Position = std::pair<uint32_t, uint32_t>;
// One instruction of the text: rules may have put others beside it.
using Named = std::tuple<Position, std::string_view, uint32_t>;

inline Position position(const Source& s) { return {s.line, s.column}; }
inline Named named(const Function& f, uint32_t pc) {
  return {position(f.source[pc]), f.source[pc].tokens[0], f.code[pc].op[0].offset};
}

// Whether there may be any.
inline bool goes_back(const Function& f) {
  for (uint32_t pc = 1; pc < f.code.size(); ++pc)
    if (position(f.source[pc]) < position(f.source[pc - 1])) return true;
  return false;
}

}  // namespace fp4lab::emu
