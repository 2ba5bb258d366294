// Comparisons whose outcome the compiler believes to know, and what is chosen by them.
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/range.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

// Numbers that the compiler takes for no less than 0, a NaN or the least integer among them.
bool is_not_negative(const Pass& p, uint32_t pc, unsigned slot, Type type) {
  if (type == Type::f32) {
    const auto range = range_of(p, pc, slot);
    return range && range->least >= 0;
  }
  const uint32_t from = p.known.maker(pc, slot);
  if (from == Dataflow::kNone || from >= pc || p.source(from).type() != type) return false;
  return (type == Type::s32 || type == Type::s64) && p.source(from).tokens[0] == "abs";
}

// What the compiler makes of a comparison of a number in a range with another. It never decides le.
std::optional<bool> decided(std::string_view how, const Range& a, double b) {
  if ((how == "lt" && a.most < b) || (how == "gt" && a.least > b) || (how == "ge" && a.least >= b))
    return true;
  if ((how == "lt" && a.least >= b) || (how == "gt" && a.most <= b) || (how == "ge" && a.most < b))
    return false;
  return std::nullopt;
}

// The same for any type of which ranges are known.
std::optional<bool> decided(const Pass& p, uint32_t pc, unsigned slot, std::string_view how, uint64_t with) {
  const Type type = p.source(pc).type();
  if (type != Type::f32) {
    const int64_t c = type == Type::s32 ? static_cast<int32_t>(with) : static_cast<int64_t>(with);
    if (c != 0 || !is_not_negative(p, pc, slot, type)) return std::nullopt;
    return how == "ge" ? std::optional(true) : how == "lt" ? std::optional(false) : std::nullopt;
  }
  const auto range = range_of(p, pc, slot);
  return range && !is_nan32(with) ? decided(how, *range, float_of(with)) : std::nullopt;
}

}  // namespace

// The constant by which slct.s32.s32 chooses is compared as if it were f32, if the stretch itself makes it.
std::optional<unsigned> chosen_slot(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const auto by = p.bits(pc, 3);
  if (!by) return std::nullopt;
  if (s.tokens[0] == "selp") return (*by != 0) != p.operand(pc, 3).negated ? 1 : 2;
  const bool as_float = s.type(1) == Type::f32 || (s.type(0) == Type::s32 && p.known.comes_from_here(pc, 3));
  const bool first =
      as_float ? float_of(s.has("ftz") ? flushed32(*by) : *by) >= 0 : static_cast<int32_t>(*by) >= 0;
  return first ? 1 : 2;
}

namespace {

// Its first operand alone is a constant, or is 0 beside another one: the choice is one of a comparison then,
// before anybody knows the sign. But what a register holds from another block is not known yet, nor what one
// holds from before a power of 2 without .ftz, which is several instructions.
bool loses_to_constant(const Pass& p, uint32_t pc) {
  const auto first = p.bits(pc, 1), second = p.bits(pc, 2);
  if (!first || !(p.operand(pc, 1).immediate || p.known.is_constant_here(pc, 1))) return false;
  if (second && (*first != 0 || *second == 0)) return false;
  const auto power = p.made_by(pc, 3, "ex2");
  const bool is_scaled = power && p.source(*power).type() == Type::f32 && !p.source(*power).has("ftz");
  return !is_scaled || p.operand(pc, 1).immediate || p.known.maker(pc, 1) > *power;
}

void fold_choice(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type type = s.type(0);
  if (p.same_operands(pc, 1, 2)) return p.become_copy_of(pc, 1, type);
  if (const auto slot = chosen_slot(p, pc)) return p.become_copy_of(pc, *slot, type);
  if (s.tokens[0] == "selp") {
    const Operand& by = p.operand(pc, 3);
    const bool is_decided = by.kind == Operand::Kind::predicate && by.index == 0;
    if (is_decided) return p.become_copy_of(pc, by.negated ? 2 : 1, type);
    // A selection that is known takes no signs (see optimise.h).
    if (type == Type::f32 && p.known.is_constant(pc, 3))
      p.replace(pc, {"selp", "b32"}, {p.operand(pc, 1), p.operand(pc, 2), p.operand(pc, 3)});
    return;
  }
  const bool of_f32 = s.type(1) == Type::f32;
  if (const auto sign = p.open_maker(pc, 3, "neg");
      sign && p.source(*sign).type() == Type::s32 && type == Type::s32) {
    // slct.s32.s32 by -x: as x is no more than 0, which the least integer is too.
    const Operand above = p.w.fresh(Type::b32);
    p.insert(*sign, {"set", "gt", "s32", "s32"}, {above, p.operand(*sign, 1), p.w.constant(0)});
    p.operand(pc, 3) = above;
  } else if (!(of_f32 && loses_to_constant(p, pc)) && type != (of_f32 ? Type::f32 : Type::s32) &&
             !s.has("ftz") && is_not_negative(p, pc, 3, s.type(1))) {
    p.become_copy(pc, p.operand(pc, 1), type);
  }
}

}  // namespace

// A comparison of what lies in a range with a constant is decided, for NaNs as well.
void decide_by_range(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  std::string_view how = s.tokens[1];
  if (s.tokens.size() > (s.has("ftz") ? 4 : 3)) return;  // combined with another
  for (const unsigned slot : {3u, 2u}) {
    if (slot == 2)
      how = how == "lt" ? "gt" : how == "le" ? "ge" : how == "gt" ? "lt" : how == "ge" ? "le" : how;
    const auto with = p.bits(pc, slot);
    const auto holds = with && !p.bits(pc, 5 - slot) ? decided(p, pc, 5 - slot, how, *with) : std::nullopt;
    if (!holds) continue;
    p.known.mark_constant(pc);
    p.f.source[pc].tokens = {"setp", *holds ? "eq" : "ne", "u32"};
    return p.replace(pc, p.f.source[pc].tokens, {p.operand(pc, 1), p.w.constant(0), p.w.constant(0)});
  }
}

namespace {

// A saturated sum of what is no less than 0 and of at least 1.
void fold_sum(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type type = s.type();
  if (type != Type::f32 || !s.has("sat") || s.has("ftz") || says_rounding(s)) return;
  const bool minus = s.tokens[0] == "sub";
  for (const unsigned slot : {2u, 1u}) {
    const auto c = p.bits(pc, slot);
    if (!c || (minus && slot == 1) || !is_not_negative(p, pc, 3 - slot, type)) continue;
    if ((minus ? -float_of(*c) : float_of(*c)) >= 1) return become_number(p, pc, 0x3f800000);
  }
}

}  // namespace

std::span<const Rule> choice_rules() {
  static constexpr Rule kRules[] = {
      {"selp", fold_choice}, {"slct", fold_choice}, {"setp", decide_by_range},
      {"add", fold_sum},     {"sub", fold_sum},
  };
  return kRules;
}

}  // namespace fp4lab::emu::peephole
