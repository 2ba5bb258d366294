// Instructions that work on the two halves of a word.
#pragma once

#include <unordered_set>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

inline bool is_packed(Type t) {
  return t == Type::u16x2 || t == Type::s16x2 || t == Type::f16x2 || t == Type::bf16x2;
}

// It reads its operands as pairs of halves.
inline bool reads_pairs(const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {"add", "sub", "mul", "fma",  "min", "max",
                                                              "neg", "abs", "ex2", "tanh", "setp"};
  return s.tokens[0] == "set" ? is_packed(s.type(1)) : kNames.contains(s.tokens[0]) && is_packed(s.type());
}

}  // namespace fp4lab::emu
