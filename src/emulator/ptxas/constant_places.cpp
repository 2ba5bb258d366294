#include "emulator/ptxas/constant_places.h"

#include <algorithm>

// The rule, read off the machine code of some two thousand sums of constants:
//
// * What is stored is in a register, and so is what an instruction reads twice.
// * A constant whose lower half is 0 stands in the instruction if nothing else reads it, or if all others
//   there are in registers: variables, and constants that several instructions read. These others are in
//   registers from then on.
//   So does a second operand or an addend that nothing but stores far behind read again.
// * Of two that are left, that which another instruction is the first to read again, if that is near, stands
//   in a uniform register, and what is read beside it is in a register. But of two that could stand in the
//   instruction that one is in a register. A third one, an addend, is in a register.
// * Before that stands there what something before a call has read, too.
// * If neither is read again so soon the first one stands in the uniform register: it changes places with the
//   second.
// * An extreme has none of its operands in a uniform register: what stands there is copied, and so of it and
//   what has a register that comes first which was decided first.
// * Of two in registers that comes first which another instruction has in one first.

namespace fp4lab::emu {

namespace {

using By = ConstantPlaces::Use::By;

constexpr unsigned kAddend = 2;

bool fits_instruction(const std::optional<uint64_t>& op) { return op && *op << 32 == 0; }

}  // namespace

ConstantPlaces::ConstantPlaces(std::vector<Use> uses, uint32_t calls,
                               const std::unordered_map<uint64_t, Constant>& constants)
    : uses_(std::move(uses)), part_(uses_.size()) {
  for (size_t at = 0; at < uses_.size(); ++at)
    for (const Operand& op : uses_[at].operands) {
      if (!op) continue;
      left_[*op] = constants.at(*op).reads;
      if (constants.at(*op).first_calls < calls) before_.insert(*op);
      if (std::vector<size_t>& readers = readers_[*op]; readers.empty() || readers.back() != at)
        readers.push_back(at);
      if (uses_[at].by != By::store) continue;
      stored_.insert(*op);
      decide(*op, Where::in_register);
    }
  for (const Use& use : uses_)
    if (use.computes() && use.operands[0] && use.operands[0] == use.operands[1])
      decide(*use.operands[0], Where::in_register);
  put_into_instructions();
  for (size_t use = 0; use < uses_.size(); ++use) {
    const Use& reader = uses_[use];
    for (const Operand& op : reader.operands)
      if (reader.computes() && !part_[use] && op && std::ranges::count(reader.operands, op) > 1)
        decide(*op, Where::in_register);
  }
  for (size_t use = 0; use < uses_.size(); ++use) choose(use);
  for (size_t use = 0; use < uses_.size(); ++use)
    if (uses_[use].computes() && uses_[use].operands[0] && uses_[use].operands[1])
      exchanged_[uses_[use].pc] = exchanges_operands(use);
}

std::optional<bool> ConstantPlaces::exchanges(uint32_t pc) const {
  const auto found = exchanged_.find(pc);
  return found == exchanged_.end() ? std::nullopt : std::optional(found->second);
}

// By a register, as far as is known.
bool ConstantPlaces::is_held(const Operand& op) const {
  return !op || left_.at(*op) > 1 || stored_.contains(*op);
}

bool ConstantPlaces::is_sole(const Operand& op) const { return op && !is_held(op); }

// The others that read it are stores, so far behind that it gets another register for them.
bool ConstantPlaces::is_only_stored_later(size_t use, uint64_t constant) const {
  const std::vector<size_t>& readers = readers_.at(constant);
  return left_.at(constant) == readers.size() && readers.size() > 1 &&
         std::ranges::all_of(readers, [&](size_t at) {
           return at == use || (uses_[at].by == By::store && at > use && !is_near(use, at));
         });
}

// The operand that may stand in an instruction.
std::optional<unsigned> ConstantPlaces::part_of(size_t use) const {
  const std::vector<Operand>& ops = uses_[use].operands;
  if (ops.size() > kAddend) {
    const Operand& addend = ops[kAddend];
    if (fits_instruction(addend) && !stored_.contains(*addend) &&
        left_.at(*addend) <= std::ranges::count(ops, addend))
      return kAddend;
    if (fits_instruction(addend) && is_only_stored_later(use, *addend)) return kAddend;
    if (!is_held(addend)) return std::nullopt;
  }
  if (ops[0] == ops[1]) return std::nullopt;
  if (fits_instruction(ops[1]) && is_only_stored_later(use, *ops[1])) return 1;
  for (const unsigned slot : {1u, 0u})
    if (fits_instruction(ops[slot]) && is_sole(ops[slot]) && (slot == 1 || is_held(ops[1]))) return slot;
  for (const unsigned slot : {1u, 0u}) {
    const Operand &op = ops[slot], &other = ops[1 - slot];
    if (!fits_instruction(op) || !is_held(other)) continue;
    const bool is_stored = stored_.contains(*op);
    const bool is_other_stored = stored_.contains(*other);
    if (fits_instruction(other) ? is_stored && (slot == 1 || !is_other_stored)
                                : is_stored || !where_.contains(*op))
      return slot;
  }
  return std::nullopt;
}

// Each leaves fewer operands for the others.
void ConstantPlaces::put_into_instructions() {
  for (bool any = true; std::exchange(any, false);)
    for (size_t at = 0; at < uses_.size(); ++at) {
      const Use& use = uses_[at];
      if (!use.computes() || part_[at]) continue;
      part_[at] = part_of(at);
      if (!part_[at]) continue;
      any = true;
      --left_.at(*use.operands[*part_[at]]);
      for (unsigned slot = 0; slot < use.operands.size(); ++slot)
        if (slot != *part_[at] && use.operands[slot]) decide(*use.operands[slot], Where::in_register);
    }
}

void ConstantPlaces::decide(uint64_t constant, Where where) {
  where_.try_emplace(constant, Decision{where, where_.size()});
}

void ConstantPlaces::put_elsewhere(uint64_t constant) {
  decide(constant, Where::elsewhere);
  for (const size_t at : readers_.at(constant)) {
    if (!uses_[at].computes() || part_[at]) continue;
    for (const Operand& op : uses_[at].operands)
      if (op) decide(*op, Where::in_register);
  }
}

std::vector<uint64_t> ConstantPlaces::undecided(const Use& use) const {
  std::vector<uint64_t> list;
  for (const Operand& op : use.operands)
    if (op && !where_.contains(*op) && !std::ranges::count(list, *op)) list.push_back(*op);
  return list;
}

bool ConstantPlaces::has_elsewhere(const Use& use) const {
  return std::ranges::any_of(use.operands, [&](const Operand& op) {
    const auto where = op ? where_.find(*op) : where_.end();
    return where != where_.end() && where->second.where == Where::elsewhere;
  });
}

bool ConstantPlaces::is_near(size_t use, size_t behind) const {
  constexpr uint32_t kNear = 3;  // machine instructions between them
  return uses_[behind].begin <= uses_[use].end + kNear;
}

// The one of several that another instruction is the first to read, if that is near.
std::optional<uint64_t> ConstantPlaces::first_back(size_t use, const std::vector<uint64_t>& of) const {
  for (size_t at = use + 1; at < uses_.size() && is_near(use, at); ++at) {
    if (uses_[at].block != uses_[use].block) break;
    std::optional<uint64_t> back;
    bool is_tie = false;
    for (const uint64_t constant : of)
      if (std::ranges::count(uses_[at].operands, Operand(constant)))
        is_tie = std::exchange(back, constant).has_value();
    if (back && !is_tie) return back;
  }
  return std::nullopt;
}

void ConstantPlaces::choose(size_t use) {
  const std::vector<Operand>& ops = uses_[use].operands;
  if (part_[use] || has_elsewhere(uses_[use])) return;
  std::vector<uint64_t> open = undecided(uses_[use]);
  if (!uses_[use].computes()) {
    for (const uint64_t constant : open) put_elsewhere(constant);
    return;
  }
  if (open.size() > kAddend) {
    decide(*ops[kAddend], Where::in_register);
    open.resize(kAddend);
  }
  if (open.empty()) return;
  if (open.size() == 1) return put_elsewhere(open[0]);
  const auto fits = [&](uint64_t constant) { return fits_instruction(constant) && is_held(constant); };
  if (fits(open[0]) != fits(open[1])) return put_elsewhere(fits(open[0]) ? open[0] : open[1]);
  const auto is_before = [&](uint64_t constant) { return before_.contains(constant); };
  if (is_before(open[0]) != is_before(open[1])) return put_elsewhere(is_before(open[0]) ? open[0] : open[1]);
  const auto back = first_back(use, open);
  const bool is_second = (back == open[1]) != fits(open[0]);
  if (fits(open[0])) decide(open[!is_second], Where::in_register);
  put_elsewhere(open[is_second]);
}

bool ConstantPlaces::is_in_register(size_t use, unsigned slot) const {
  if (uses_[use].by == By::other || part_[use] == slot) return false;
  const auto where = where_.find(*uses_[use].operands[slot]);
  return part_[use] || where == where_.end() || where->second.where == Where::in_register;
}

// Of an instruction's operands the addend is the first to be put into its register.
ConstantPlaces::Place ConstantPlaces::first_in_register(uint64_t constant, size_t but_in) const {
  for (const size_t at : readers_.at(constant))
    for (const unsigned slot : {kAddend, 0u, 1u})
      if (at != but_in && slot < uses_[at].operands.size() && uses_[at].operands[slot] == constant &&
          is_in_register(at, slot))
        return {at, slot == kAddend ? 0 : slot + 1};
  return {uses_.size(), 0};
}

bool ConstantPlaces::exchanges_operands(size_t use) const {
  const uint64_t a = *uses_[use].operands[0], b = *uses_[use].operands[1];
  const bool is_one_elsewhere = is_in_register(use, 0) != is_in_register(use, 1);
  if (uses_[use].by == By::extreme && !part_[use] && is_one_elsewhere)
    return where_.at(a).nth > where_.at(b).nth;
  if (!is_in_register(use, 0)) return true;
  if (!is_in_register(use, 1) || a == b) return false;
  return first_in_register(b, use) < first_in_register(a, use);
}

}  // namespace fp4lab::emu
