#include "emulator/ptxas/copied_predicate.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/any_instruction.h"

namespace fp4lab::emu {

namespace {

bool is_plain(const Operand& op) { return op.kind == Operand::Kind::predicate && !op.negated; }

// As moves are not: what they copy is found rightly.
bool copies_predicate(const Instr& i, const Source& s) {
  return (s.tokens[0] == "and" || s.tokens[0] == "or") && s.type() == Type::pred && i.guard < 0 &&
         is_plain(i.op[1]) && is_plain(i.op[2]) && i.op[1].index == i.op[2].index;
}

}  // namespace

bool may_copy_predicates(const Function& f) { return any_instruction(f, copies_predicate); }

void mistake_copied_predicates(Function& f, const Dataflow& flow) {
  std::unordered_map<uint32_t, uint32_t> copied;  // what a predicate is a copy of, by its number
  std::unordered_map<uint32_t, uint32_t> index;   // of predicates by their numbers
  std::unordered_set<uint32_t> written;           // in this block
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    Instr& i = f.code[pc];
    if (f.source[pc].begins_block) copied.clear(), written.clear();
    const bool ends = i.opcode->name == "bra" || i.opcode->name == "exit" || flow.becomes_branch(pc);
    if (ends && i.guard > 0 && !i.guard_negated)
      if (const auto of = copied.find(flow.number_of(guard_of(i))); of != copied.end())
        i.guard = static_cast<int32_t>(index.at(of->second));
    for (const uint32_t reg : flow.access(pc).writes) copied.erase(reg), written.insert(reg);
    if (copies_predicate(i, f.source[pc])) {
      const uint32_t to = flow.number_of(i.op[0]), from = flow.number_of(i.op[1]);
      const auto of = copied.find(from);
      index[from] = i.op[1].index;
      if (of != copied.end())
        copied[to] = of->second;
      else if (from != to && !written.contains(from))
        copied[to] = from;
    }
    if (ends) copied.clear(), written.clear();
  }
}

}  // namespace fp4lab::emu
