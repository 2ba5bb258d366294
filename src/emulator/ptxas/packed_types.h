// Instructions that work on the two halves of a word.
#pragma once

#include <algorithm>
#include <unordered_set>
#include <vector>

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

// An unguarded mov, or store of a vector, that puts halves together.
inline bool packs_halves(const Function& f, uint32_t pc) {
  const Instr& i = f.code[pc];
  const Source& s = f.source[pc];
  const Operand& parts = i.op[1];
  if (i.guard >= 0 || parts.kind != Operand::Kind::vector) return false;
  if (s.tokens[0] == "mov") return bits_of(s.type()) == parts.count * 16u;
  const auto first = f.vectors.begin() + parts.index;
  return s.tokens[0] == "st" && bits_of(s.type()) == 16 &&
         std::all_of(first, first + parts.count,
                     [](const Operand& part) { return bits_of(part.type) == 16; });
}

// Where the elements of a pack begin that may be changed: copies of the instruction keep theirs.
inline uint32_t own_elements(Function& f, uint32_t pc) {
  Operand& parts = f.code[pc].op[1];
  const auto first = f.vectors.begin() + parts.index;
  const std::vector<Operand> elements(first, first + parts.count);
  parts.index = static_cast<uint32_t>(f.vectors.size());
  f.vectors.insert(f.vectors.end(), elements.begin(), elements.end());
  return parts.index;
}

}  // namespace fp4lab::emu
