// What reads constants of f64, for the order of those that are an instruction's operands (constant_places.h).
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "emulator/ptxas/loop_weight.h"
#include "emulator/ptxas/rewrite.h"
#include "emulator/ptxas/value_order.h"

namespace fp4lab::emu {

namespace {

using Use = ConstantPlaces::Use;

std::optional<Use::By> reads_constants(const Source& s) {
  const std::string_view name = s.tokens[0];
  if (name == "st")
    return bits_of(s.type()) == 64 && !s.has("param") && !s.has("param::func") ? std::optional(Use::By::store)
                                                                               : std::nullopt;
  if (name == "set" || name == "setp")
    return s.type(name == "set" ? 1 : 0) == Type::f64 ? std::optional(Use::By::other) : std::nullopt;
  if (s.type() != Type::f64) return std::nullopt;
  if (name == "min" || name == "max") return Use::By::extreme;
  const bool is_arithmetic =
      name == "add" || name == "sub" || name == "mul" || name == "fma" || name == "mad";
  return is_arithmetic ? std::optional(Use::By::arithmetic) : std::nullopt;
}

// A zero is no constant: it has a register of its own.
std::optional<uint64_t> unless_zero(const std::optional<uint64_t>& bits) {
  return bits && *bits << 1 != 0 ? bits : std::nullopt;
}

// What accesses memory has an address as well.
uint32_t weight_of(const Instr& i, const Source& s) {
  static const std::unordered_set<std::string_view> kAccesses = {"ld", "ldu", "st", "atom", "red"};
  return kAccesses.contains(s.tokens[0]) ? 2 : machine_weight(i, s);
}

bool is_factor_in_sum(const Source& s, unsigned slot) {
  return (s.tokens[0] == "fma" || s.tokens[0] == "mad") && slot < 3;
}

// ptxas has tried to compute it of constants, which has changed the two.
bool are_changed(const Source& s) { return !rounds_in_a_direction(s); }

}  // namespace

// Of a factor beside an addend: a number's sign is the instruction's, and so a store of the negative number
// keeps it in no register.
uint64_t ValueOrder::without_sign(uint64_t factor) const {
  const uint64_t number = factor & ~(uint64_t(1) << 63);
  return is_nan(factor, Type::f64) || stored_constants_.contains(number) ? factor : number;
}

std::optional<Use> ValueOrder::constant_use(uint32_t pc, const Known& known) const {
  const Instr& i = f_.code[pc];
  const Source& s = f_.source[pc];
  const auto by = reads_constants(s);
  if (!by) return std::nullopt;
  Use use{.pc = pc, .block = blocks_.flow[pc], .by = *by, .operands = {}};
  if (const Operand& stored = i.op[1]; use.by == Use::By::store && stored.kind == Operand::Kind::vector) {
    if (stored.count != 2) return std::nullopt;
    use.by = Use::By::other;
    for (uint32_t e = stored.index; e < stored.index + stored.count; ++e)
      use.operands.push_back(unless_zero(known.bits_of_element(pc, e)));
    return use;
  }
  const unsigned last = use.by == Use::By::store ? 1 : 3;
  for (unsigned slot = 1; slot <= last; ++slot) {
    const Operand& op = i.op[slot];
    if (!is_value(op)) continue;
    auto& of =
        use.operands.emplace_back(bits_of(op.type) == 64 ? unless_zero(known.bits(pc, slot)) : std::nullopt);
    if (of && slot == 2 && s.tokens[0] == "sub") of = *of ^ uint64_t(1) << 63;
    if (of && is_factor_in_sum(s, slot)) of = without_sign(*of);
  }
  if (use.computes() && are_changed(s)) std::swap(use.operands[0], use.operands[1]);
  return use;
}

// The slot of the second one of two constants.
std::optional<unsigned> ValueOrder::second_constant(uint32_t pc) const {
  const auto places = constant_places_.find(calls_before_[pc]);
  const auto exchanges = places == constant_places_.end() ? std::nullopt : places->second.exchanges(pc);
  if (!exchanges) return std::nullopt;
  return *exchanges == are_changed(f_.source[pc]) ? 2 : 1;
}

std::map<uint32_t, std::vector<Use>> ValueOrder::constant_uses(const Known& known) const {
  std::map<uint32_t, std::vector<Use>> uses;
  uint32_t weight = 0;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    if (flow_.is_dead(pc) || known.is_result_constant(pc) || flow_.is_in_bank(pc) ||
        first_of_equals(pc) != pc)
      continue;
    const uint32_t begin = std::exchange(weight, weight + weight_of(f_.code[pc], f_.source[pc]));
    auto use = constant_use(pc, known);
    if (!use || std::ranges::none_of(use->operands, &std::optional<uint64_t>::has_value)) continue;
    use->begin = begin + (f_.code[pc].op[1].kind == Operand::Kind::vector);
    use->end = weight;
    uses[calls_before_[pc]].push_back(std::move(*use));
  }
  return uses;
}

void ValueOrder::find_constant_places(const Known& known) {
  std::map<uint32_t, std::vector<Use>> uses = constant_uses(known);
  std::unordered_map<uint64_t, ConstantPlaces::Constant> constants;
  for (const auto& [calls, of] : uses)
    for (const Use& use : of)
      for (const auto& operand : use.operands)
        if (operand)
          ++constants.try_emplace(*operand, ConstantPlaces::Constant{0, calls}).first->second.reads;
  for (auto& [calls, of] : uses) constant_places_.try_emplace(calls, std::move(of), calls, constants);
}

}  // namespace fp4lab::emu
