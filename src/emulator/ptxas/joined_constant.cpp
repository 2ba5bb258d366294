#include "emulator/ptxas/joined_constant.h"

#include <unordered_set>

#include "emulator/ptxas/ssa.h"

namespace fp4lab::emu {

namespace {

bool moves_constant(const Function& f, uint32_t pc) {
  return f.source[pc].tokens[0] == "mov" && is_value(f.code[pc].op[0]) && f.code[pc].op[1].immediate;
}

// Registers that several moves of constants write.
std::vector<uint32_t> moved_often(const Function& f, const Dataflow& flow) {
  std::unordered_set<uint32_t> once, often;
  for (uint32_t pc = 0; pc < f.code.size(); ++pc)
    if (moves_constant(f, pc))
      if (const uint32_t reg = flow.number_of(f.code[pc].op[0]); !once.insert(reg).second) often.insert(reg);
  return {often.begin(), often.end()};
}

// What values of registers are, if they are constants: at first any value may be, and those that meet others
// lose it until nothing changes.
class Lattice {
 public:
  Lattice(const Known& known, const Ssa& ssa) : ssa_(ssa), of_(ssa.values().size()) {
    for (size_t v = 0; v < of_.size(); ++v) {
      const Ssa::Value& value = ssa.values()[v];
      if (value.kind == Ssa::Value::Kind::unknown) of_[v].is_variable = true;
      if (value.kind == Ssa::Value::Kind::made) {
        of_[v].bits = known.result(value.at);
        of_[v].is_variable = !of_[v].bits;
      }
    }
    while (meet()) {
    }
  }

  std::optional<uint64_t> bits(uint32_t value) const {
    return of_[value].is_variable ? std::nullopt : of_[value].bits;
  }
  bool is_joined(uint32_t value) const { return ssa_.values()[value].operands.size() > 1; }

 private:
  struct Bits {
    std::optional<uint64_t> bits;
    bool is_variable = false;
  };

  bool meet() {
    bool changes = false;
    for (size_t v = 0; v < of_.size(); ++v)
      for (const uint32_t operand : ssa_.values()[v].operands) {
        Bits& of = of_[v];
        if (of.is_variable || (!of_[operand].bits && !of_[operand].is_variable)) continue;
        if (of_[operand].is_variable || (of.bits && of.bits != of_[operand].bits))
          of.is_variable = changes = true;
        else if (!of.bits)
          of.bits = of_[operand].bits, changes = true;
      }
    return changes;
  }

  const Ssa& ssa_;
  std::vector<Bits> of_;
};

}  // namespace

bool may_join_constants(const Function& f) {
  std::unordered_set<uint64_t> moved;
  for (uint32_t pc = 0; pc < f.code.size(); ++pc)
    if (moves_constant(f, pc) && !moved.insert(f.code[pc].op[0].offset).second) return true;
  return false;
}

bool join_constants(Rewriter& w, const Dataflow& flow, const Known& known) {
  const std::vector<uint32_t> registers = moved_often(w.f, flow);
  const Ssa ssa(w.f, flow, registers);
  const Lattice constants(known, ssa);
  bool any = false;
  const auto join = [&](uint32_t pc, Operand& op) {
    const uint32_t reg = is_no_constant(op) ? flow.number_of(op) : Dataflow::kNone;
    const uint32_t value = reg == Dataflow::kNone ? Ssa::kNone : ssa.read(pc, reg);
    if (value == Ssa::kNone || !constants.is_joined(value)) return;
    const auto bits = constants.bits(value);
    if (!bits) return;
    op = w.constant(*bits, op.type);
    any = true;
  };
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc) {
    if (flow.is_dead(pc)) continue;
    Instr& i = w.f.code[pc];
    for (unsigned slot = 1; slot < Known::kSlots; ++slot) join(pc, i.op[slot]);
  }
  return any;
}

}  // namespace fp4lab::emu
