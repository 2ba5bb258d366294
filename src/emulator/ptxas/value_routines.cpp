// The results of a routine that is called several times. Its machine code leaves them all in one register,
// which is the result's own wherever that is read in the block of its call alone: such results are as old as
// the first one. Where other blocks read the first one, it has a register of its own, and the routine's comes
// behind almost everything.
#include <algorithm>
#include <map>

#include "emulator/ptxas/routine.h"
#include "emulator/ptxas/value_order.h"

namespace fp4lab::emu {

namespace {

using Kind = Ssa::Value::Kind;

// Of 64 bits; those of floats that round to nearest call one for special cases only.
bool is_called(const Source& s) {
  return (is_float_routine(s) && s.type() == Type::f64 && !s.has("rn") && !s.has("approx")) ||
         (is_integer_routine(s) && bits_of(s.type()) == 64);
}

// Of what a root's or reciprocal's code in place leaves to a call; one that rounds in a direction has none.
bool returns_constant(const Source& s, uint64_t of) {
  constexpr uint64_t kSign = uint64_t(1) << 63, kInfinity = 0x7ff0000000000000;
  const uint64_t magnitude = of & ~kSign;
  const bool is_reciprocal = s.tokens[0] == "rcp";
  if (rounds_in_a_direction(s)) return is_reciprocal ? magnitude >= kInfinity || magnitude == 0 : of & kSign;
  if (is_reciprocal) return magnitude >= kInfinity || magnitude >> 32 == 0;
  return magnitude == 0 || magnitude == kInfinity || ((of & kSign) && magnitude < kInfinity);
}

}  // namespace

// The way of most numbers through a quotient is none for a constant numerator near 0: the routine is called
// for whatever divides it.
void ValueOrder::find_called_quotients(const Known& known) {
  constexpr uint64_t kSign = uint64_t(1) << 63, kLeastInPlace = 0x0360000000000000;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const Source& s = f_.source[pc];
    if (s.tokens[0] != "div" || s.type() != Type::f64 || !s.has("rn")) continue;
    const auto numerator = known.bits(pc, 1);
    if (numerator && (*numerator & ~kSign) < kLeastInPlace) called_quotients_.insert(pc);
  }
}

// Roots and reciprocals of constants go one way: their code stands in place without a branch, or what is left
// of it is a call. If that is the routine's only one, ptxas puts the constant into the routine, and the
// result is a constant where it is one without arithmetic.
void ValueOrder::find_constant_roots(const Known& known) {
  std::map<std::vector<std::string_view>, unsigned> callers;
  std::vector<std::pair<uint32_t, uint64_t>> called;  // by constants
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const Source& s = f_.source[pc];
    if (flow_.is_dead(pc) || s.type() != Type::f64 || s.tokens[0] == "div" || !is_float_routine(s)) continue;
    const auto constant = known.bits(pc, 1);
    const bool is_of_constant = constant && f_.code[pc].guard < 0;
    if (is_of_constant && is_routine_inline(s, *constant)) {
      constant_roots_[pc] = Root::inline_code;
      continue;
    }
    ++callers[s.tokens];
    if (is_of_constant) called.emplace_back(pc, constant.value());
  }
  for (const auto& [pc, constant] : called) {
    const Source& s = f_.source[pc];
    constant_roots_[pc] = callers[s.tokens] > 1           ? Root::several_calls
                          : returns_constant(s, constant) ? Root::returned_constant
                                                          : Root::only_call;
  }
}

bool ValueOrder::is_constant_root(uint32_t pc, Root kind) const {
  const auto root = constant_roots_.find(pc);
  return root != constant_roots_.end() && root->second == kind;
}

// By routine, in the order of the text.
std::vector<std::vector<ValueOrder::Call>> ValueOrder::calls_of_routines() {
  std::map<std::vector<std::string_view>, std::vector<Call>> calls;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const auto made = made_.find(pc);
    const bool is_of_constant = called_quotients_.contains(pc) || is_constant_root(pc, Root::several_calls);
    if (flow_.is_dead(pc) || made == made_.end() || !(is_called(f_.source[pc]) || is_of_constant)) continue;
    const Operand& divisor = f_.code[pc].op[2];
    const bool is_integer = is_integer_routine(f_.source[pc]);
    const uint32_t reg = is_integer ? flow_.number_of(divisor) : Dataflow::kNone;
    if (is_integer && (reg == Dataflow::kNone || (shown_by(pc, reg) & kConstant))) continue;
    calls[f_.source[pc].tokens].push_back({made->second});
  }
  std::vector<std::vector<Call>> several;
  for (auto& [routine, list] : calls)
    if (list.size() > 1) several.push_back(std::move(list));
  return several;
}

void ValueOrder::find_shared_results() {
  std::vector<std::vector<Call>> routines = calls_of_routines();
  if (routines.empty()) return;
  std::unordered_map<uint64_t, Call*> calls;  // by result
  for (std::vector<Call>& routine : routines)
    for (Call& call : routine) calls[call.result] = &call;
  const std::vector<Ssa::Value>& values = ssa_.values();
  const auto read = [&](uint32_t v, uint32_t pc) {
    const auto found = v == Ssa::kNone ? calls.end() : calls.find(value_of(copied_from(v)));
    if (found == calls.end()) return;
    const uint32_t at = values[found->second->result].at;
    found->second->is_local &= blocks_.reads[pc] == blocks_.makes[at];
    found->second->is_used |= f_.source[pc].tokens != f_.source[at].tokens;
  };
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    if (flow_.is_dead(pc)) continue;
    const auto made = made_.find(pc);
    const bool is_seen_through = is_copy(pc) && made != made_.end() && !meets_[made->second];
    if (!is_seen_through)
      for (const uint32_t reg : flow_.access(pc).reads)
        if (ssa_.knows(reg)) read(ssa_.read(pc, reg), pc);
  }
  for (const auto& [result, call] : calls)
    if (meets_[result]) call->is_used = call->is_local = true;  // a copy becomes the variable
  for (const std::vector<Call>& routine : routines) {
    // What is only an operand of the next call goes there at once.
    const auto first = std::ranges::find_if(routine, &Call::is_used);
    for (const Call& call : routine)
      if (call.is_local && call.is_used && &call > &*first)
        shared_[values[call.result].at] = first->is_local ? values[first->result].at : Ssa::kNone;
  }
}

// As an operand; nothing if it is like any other value.
std::optional<ValueOrder::Rank> ValueOrder::shared_result(const Ssa::Value& value) const {
  const auto shared = value.kind == Kind::made ? shared_.find(value.at) : shared_.end();
  if (shared == shared_.end()) return std::nullopt;
  if (shared->second == Ssa::kNone) return Rank{Rank::Class::routine, 0, value.at};
  return Rank{Rank::Class::known, text_makes_[shared->second], kStep * shared->second};
}

}  // namespace fp4lab::emu
