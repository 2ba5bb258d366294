// What instructions of constants give: the emulator executes them, once, in one lane.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

struct HashOfTarget {
  size_t operator()(const std::pair<uint32_t, uint64_t>& target) const {
    return std::hash<uint64_t>()(target.second ^ uint64_t(target.first) << 32 ^ target.first);
  }
};
// Bits by instruction and target; of a predicate 0 or 1.
using Values = std::unordered_map<std::pair<uint32_t, uint64_t>, uint64_t, HashOfTarget>;
// What tells a function's registers and predicates from each other.
uint64_t key_of(const Operand&);
// The second predicate that an instruction writes, the opposite of the first: an operand of no kind if none.
inline const Operand& second_predicate(const Instr& i, const Source& s) {
  static constexpr Operand kNone;
  return s.tokens[0] == "setp" ? i.op[1] : kNone;
}
// An instruction's first operand and second predicate, or the elements of that vector but for those that
// nobody keeps.
template <class F>
void for_each_target(const Function& f, const Instr& i, const Source& s, F&& each) {
  if (const Operand& second = second_predicate(i, s)) each(second);
  if (i.op[0].kind != Operand::Kind::vector) return each(i.op[0]);
  for (uint32_t k = 0; k < i.op[0].count; ++k)
    if (const Operand& part = f.vectors[i.op[0].index + k]; part.kind != Operand::Kind::sink) each(part);
}

// An unguarded instruction that reads only constants and what earlier steps made.
struct Step {
  uint32_t pc;
  // Operands whose registers other steps have written since, and the steps that made them.
  std::vector<std::pair<Operand, uint32_t>> overwritten;
  std::optional<uint64_t> value;  // what it makes, where that is known without executing it
};

bool is_sign_of_f64(const Source&);  // abs or neg

// Of the steps in their order. Nothing if one of them faults.
Values evaluate(const Rewriter&, const std::vector<Step>&);

}  // namespace fp4lab::emu
