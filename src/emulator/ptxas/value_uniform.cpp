// Which values ptxas 13.0 keeps in uniform registers: what integer instructions make of constants and of what
// lies in banks, if everyone that reads it can read such a register. Sums and products of f64 can, but not
// in their first operand, and only one. So such an operand changes places with the other one.
#include <algorithm>
#include <unordered_set>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/rewrite.h"
#include "emulator/ptxas/routine.h"
#include "emulator/ptxas/value_order.h"

namespace fp4lab::emu {

namespace {

using Kind = Ssa::Value::Kind;
using Mnemonics = std::unordered_set<std::string_view>;

bool is_logic(const Source& s) {
  return s.tokens[0] == "and" || s.tokens[0] == "or" || s.tokens[0] == "xor" || s.tokens[0] == "not";
}

// The uniform datapath has it.
bool is_uniform_step(const Source& s) {
  static const Mnemonics kNames = {"add", "sub", "shl", "shr", "mul",  "mad",  "min",  "max",
                                   "abs", "neg", "bfe", "bfi", "brev", "cnot", "popc", "clz",
                                   "sad", "mov", "cvt", "and", "or",   "xor",  "not",  "copysign"};
  const std::string_view name = s.tokens[0];
  if (!kNames.contains(name) || s.has("cc")) return false;
  if (name == "cvt") return !is_float(s.type(0)) && !is_float(s.type(1));
  return name == "mov" || name == "copysign" || !is_float(s.type());
}

bool is_sum_or_product(const Source& s) {
  static const Mnemonics kNames = {"add", "sub", "mul", "fma", "mad"};
  return s.type() == Type::f64 && kNames.contains(s.tokens[0]);
}

// With another operand in a register.
bool takes_uniform(const Source& s) {
  const std::string_view name = s.tokens[0];
  if (is_sum_or_product(s) || is_logic(s)) return true;
  if (name == "cvt") return s.type(1) == Type::f64;
  return s.type() == Type::f64 && (is_of_upper_half(s) || name == "setp" || name == "min" || name == "max");
}

bool is_in_instruction(const Operand& op) {
  const auto bits = static_cast<uint64_t>(op.displacement);
  return op.immediate && bits << 32 == 0 && bits << 1 != 0;
}

}  // namespace

// What an operand shows behind copies and signs.
uint32_t ValueOrder::shown_to(uint32_t v, uint32_t pc) {
  return v == Ssa::kNone ? v : equal_[source_of(equal_[v], blocks_.reads[pc])];
}

bool ValueOrder::is_uniform(uint32_t pc, const Operand& op) {
  if (!is_value(op)) return false;
  const uint32_t reg = flow_.number_of(op);
  return reg == Dataflow::kNone || is_uniform(pc, reg);
}

bool ValueOrder::is_uniform(uint32_t pc, uint32_t reg) {
  const uint32_t v = ssa_.knows(reg) ? shown_to(ssa_.read(pc, reg), pc) : Ssa::kNone;
  if (v == Ssa::kNone || meets_[v]) return false;
  const Ssa::Value& value = ssa_.values()[v];
  return is_computed_[v] || is_bank(v) ||
         (value.kind == Kind::made &&
          comes_with_source(f_.code[value.at], f_.source[value.at]));  // a constant
}

bool ValueOrder::is_bank(uint32_t v) const {
  const Ssa::Value& value = ssa_.values()[v];
  return value.kind == Kind::made && flow_.is_in_bank(value.at);
}

// From .const memory, by an address that is computed so.
bool ValueOrder::loads_uniform(uint32_t pc) {
  const Operand& address = f_.code[pc].op[1];
  const Source& s = f_.source[pc];
  if (s.tokens[0] != "ld" || !s.has("const") || f_.code[pc].guard >= 0 || flow_.is_dead(pc)) return false;
  const uint32_t base = address.has_base ? flow_.number_of_base(address) : Dataflow::kNone;
  return base != Dataflow::kNone && !flow_.is_in_bank(pc) && is_uniform(pc, base);
}

// Not of constants alone, which is a constant but for copysign, which is not computed.
bool ValueOrder::computes_uniform(uint32_t pc) {
  const Instr& i = f_.code[pc];
  const Source& s = f_.source[pc];
  if (i.guard >= 0 || flow_.is_dead(pc) || !flow_.is_pure(pc) || !is_uniform_step(s)) return false;
  if (comes_with_source(i, s) || i.op[0].kind == Operand::Kind::vector) return false;
  if (signs_in_vector_.contains(pc)) return false;
  bool any_bank = s.tokens[0] == "copysign";
  const auto fits = [&](const Operand& op) {
    if (!is_uniform(pc, op)) return false;
    const uint32_t reg = flow_.number_of(op);
    const uint32_t v = reg == Dataflow::kNone ? Ssa::kNone : shown_to(ssa_.read(pc, reg), pc);
    any_bank |= v != Ssa::kNone && (is_computed_[v] || is_bank(v));
    return true;
  };
  for (unsigned slot = 1; slot < kMaxOperands; ++slot) {
    const Operand& op = i.op[slot];
    if (op.kind == Operand::Kind::none) continue;
    if (op.kind == Operand::Kind::vector) {
      for (uint32_t e = op.index; e < op.index + op.count; ++e)
        if (!fits(f_.vectors[e])) return false;
    } else if (!fits(op)) {
      return false;
    }
  }
  return any_bank;
}

// The word of a constant that has a sign is in a register of each thread if copysign reads one like it beside
// what is no constant.
void ValueOrder::find_signs_in_vector(const Known& known) {
  std::unordered_set<uint64_t> words;
  std::vector<std::pair<uint32_t, uint64_t>> of_constants;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const Source& s = f_.source[pc];
    if (s.tokens[0] != "copysign" || flow_.is_dead(pc)) continue;
    const bool is_constant = known.bits(pc, 1) && known.bits(pc, 2);
    for (const unsigned slot : {1u, 2u}) {
      const auto bits = known.bits(pc, slot);
      if (!bits) continue;
      const uint64_t word = s.type() == Type::f64 ? *bits >> 32 : *bits;
      if (is_constant)
        of_constants.emplace_back(pc, word);
      else
        words.insert(word);
    }
  }
  for (const auto& [pc, word] : of_constants)
    if (words.contains(word)) signs_in_vector_.insert(pc);
}

void ValueOrder::find_uniform(const Known& known) {
  find_signs_in_vector(known);
  const std::vector<Ssa::Value>& values = ssa_.values();
  is_computed_.assign(values.size(), 0);
  uniform_uses_.assign(values.size(), 0);
  std::vector<std::vector<uint32_t>> results(f_.code.size());
  for (uint32_t v = 0; v < values.size(); ++v)
    if (values[v].kind == Kind::made) results[values[v].at].push_back(v);
  bool any = false;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const bool is_uniform =
        computes_uniform(pc) || loads_uniform(pc) || is_constant_root(pc, Root::returned_constant);
    if (results[pc].empty() || !is_uniform) continue;
    any = true;
    for (const uint32_t v : results[pc]) is_computed_[v] = 1;
  }
  if (any) count_uniform_uses();
}

void ValueOrder::count_uniform_uses() {
  std::vector<char> is_in_vector(ssa_.values().size(), 0);  // in a register of each thread
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    if (flow_.is_dead(pc) || is_counted_copy(pc)) continue;
    const Source& s = f_.source[pc];
    const bool sums = is_sum_or_product(s);
    const bool takes = takes_uniform(s) || computes_uniform(pc) || loads_uniform(pc);
    const auto& op = f_.code[pc].op;
    const bool has_part = sums && std::any_of(op + 1, op + 4, is_in_instruction);  // the place is taken
    for (const uint32_t reg : flow_.access(pc).reads) {
      const uint32_t v = ssa_.knows(reg) ? shown_to(ssa_.read(pc, reg), pc) : Ssa::kNone;
      if (v == Ssa::kNone) continue;
      if (!takes || has_part) is_in_vector[v] = 1;
    }
    if (!sums) continue;
    for (unsigned slot = 1; slot <= 3; ++slot) {
      const Operand& op = f_.code[pc].op[slot];
      const uint32_t reg = is_value(op) ? flow_.number_of(op) : Dataflow::kNone;
      const uint32_t v = reg != Dataflow::kNone ? shown_to(ssa_.read(pc, reg), pc) : Ssa::kNone;
      if (v == Ssa::kNone) continue;
      ++uniform_uses_[v];
      for (unsigned before = 1; before < slot; ++before) {  // in two operands, or beside a load
        const uint32_t other_reg = flow_.number_of(f_.code[pc].op[before]);
        const uint32_t other =
            other_reg != Dataflow::kNone ? shown_to(ssa_.read(pc, other_reg), pc) : Ssa::kNone;
        if (other == Ssa::kNone || (other != v && !(is_computed_[v] && is_computed_[other]))) continue;
        for (const uint32_t one : {v, other})
          if (other == v || f_.source[ssa_.values()[one].at].tokens[0] == "ld") is_in_vector[one] = 1;
      }
    }
  }
  for (uint32_t v = 0; v < ssa_.values().size(); ++v)
    if (is_selection(v))
      for (const uint32_t from : ssa_.values()[v].operands) is_in_vector[equal_[from]] = 1;
  // One load that is in a register of each thread has its address there, and so have others by that address.
  std::unordered_set<uint32_t> addresses;
  const auto base = [&](uint32_t pc) {
    return shown_to(ssa_.read(pc, flow_.number_of_base(f_.code[pc].op[1])), pc);
  };
  for (const bool finds : {true, false})
    for (uint32_t v = 0; v < ssa_.values().size(); ++v) {
      const uint32_t at = ssa_.values()[v].at;
      if (ssa_.values()[v].kind != Kind::made || !is_computed_[v] || !loads_uniform(at)) continue;
      if (finds && is_in_vector[v]) addresses.insert(base(at));
      if (!finds && addresses.contains(base(at))) is_in_vector[v] = 1;
    }
  for (uint32_t v = 0; v < uniform_uses_.size(); ++v)
    if (!is_computed_[v] || is_in_vector[v] || meets_[v]) uniform_uses_[v] = 0;
}

// Whether of two operands of a sum or product, in the order that they would have, the first one stands in a
// uniform register that has to be the second operand's. Of two such, the one that others read so, too.
bool ValueOrder::changes_places(uint32_t pc, const Held& first, const Held& second) const {
  if (first.uniform_uses == 0 || second.uniform_uses > first.uniform_uses) return false;
  const bool is_zero = second.rank.of == Rank::Class::known && second.rank.block < 0;
  const bool is_part = second.rank.of == Rank::Class::constant && second.rank.block == kInInstruction;
  return is_sum_or_product(f_.source[pc]) && !is_zero && !is_part;
}

}  // namespace fp4lab::emu
