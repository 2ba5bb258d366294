// Comparisons whose outcome the compiler believes to know, and what is chosen by them.
#include "emulator/ptx/peephole/pass.h"
#include "emulator/ptx/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

// Numbers that the compiler takes for no less than 0, a NaN or the least integer among them.
bool is_not_negative(Pass& p, uint32_t pc, unsigned slot, Type type) {
  const uint32_t from = p.known.maker(pc, slot);
  if (from == Dataflow::kNone || from >= pc) return false;
  const Source& s = p.source(from);
  if (s.type() != type) return false;
  const std::string_view name = s.tokens[0];
  if (type == Type::s32 || type == Type::s64) return name == "abs";
  if (type != Type::f32) return false;
  if (name == "abs") return !s.has("ftz");
  if (name == "ex2") return true;
  const bool sum = name == "add" || name == "sub" || name == "mul";
  if (sum && says_rounding(s)) return false;
  if ((sum || name == "fma") && s.has("sat")) return true;
  if (name == "mul") return p.same_register(from, 1, 2);
  return name == "add" && is_not_negative(p, from, 1, type) && is_not_negative(p, from, 2, type);
}

// The constant by which slct.s32.s32 chooses is compared as if it were f32.
void fold_choice(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type type = s.type(0);
  if (p.same_register(pc, 1, 2)) return p.become_copy(pc, p.operand(pc, 1), type);
  if (s.tokens[0] == "selp") {
    // A selection that is known takes no signs (see optimise.h).
    if (type == Type::f32 && p.known.is_constant(pc, 3))
      p.replace(pc, {"selp", "b32"}, {p.operand(pc, 1), p.operand(pc, 2), p.operand(pc, 3)});
    return;
  }
  const bool of_f32 = s.type(1) == Type::f32;
  if (const auto by = p.bits(pc, 3)) {
    const bool first = of_f32 || type == Type::s32 ? float_of(s.has("ftz") ? flushed32(*by) : *by) >= 0
                                                   : static_cast<int32_t>(*by) >= 0;
    p.become_copy(pc, p.operand(pc, first ? 1 : 2), type);
  } else if (const auto sign = p.made_by(pc, 3, "neg");
             sign && p.source(*sign).type() == Type::s32 && bits_of(type) == 32 && type != Type::f32) {
    // By -x: as x is no more than 0, which the least integer is too.
    const Operand above = p.w.fresh(Type::b32);
    p.insert(*sign, {"set", "gt", "s32", "s32"}, {above, p.operand(*sign, 1), p.w.constant(0)});
    p.operand(pc, 3) = above;
  } else if (!p.bits(pc, 1) && type != (of_f32 ? Type::f32 : Type::s32) && !s.has("ftz") &&
             is_not_negative(p, pc, 3, s.type(1))) {
    p.become_copy(pc, p.operand(pc, 1), type);
  }
}

// A comparison with a number below 0, or of no less than 0 with 0, is decided, for NaNs as well.
void fold_comparison(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type type = s.type();
  std::string_view how = s.tokens[1];
  if (s.tokens.size() > (s.has("ftz") ? 4 : 3) || p.operand(pc, 1))
    return;  // combined with another, or two results
  for (const unsigned slot : {3u, 2u}) {
    if (slot == 2)
      how = how == "lt" ? "gt" : how == "le" ? "ge" : how == "gt" ? "lt" : how == "ge" ? "le" : how;
    const auto with = p.bits(pc, slot);
    if (!with || !is_not_negative(p, pc, 5 - slot, type)) continue;
    if (type == Type::f32 && is_nan32(*with)) continue;
    const double c = type == Type::f32   ? float_of(*with)
                     : type == Type::s32 ? static_cast<int32_t>(*with)
                                         : static_cast<int64_t>(*with);
    const bool below = type == Type::f32 && c < 0;
    const bool yes = (c == 0 && how == "ge") || (below && (how == "gt" || how == "ge"));
    const bool no = how == "lt" && (c == 0 || (below && slot == 2));
    if (!yes && !no) continue;
    p.known.mark_constant(pc);
    p.f.source[pc].tokens = {"setp", yes ? "eq" : "ne", "u32"};
    return p.replace(pc, p.f.source[pc].tokens, {Operand{}, p.w.constant(0), p.w.constant(0)});
  }
}

// A saturated sum of what is no less than 0 and of at least 1.
void fold_sum(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type type = s.type();
  if (type != Type::f32 || !s.has("sat") || s.has("ftz") || says_rounding(s)) return;
  const bool minus = s.tokens[0] == "sub";
  for (const unsigned slot : {2u, 1u}) {
    const auto c = p.bits(pc, slot);
    if (!c || (minus && slot == 1) || !is_not_negative(p, pc, 3 - slot, type)) continue;
    if ((minus ? -float_of(*c) : float_of(*c)) >= 1) return p.become(pc, 0x3f800000, type);
  }
}

}  // namespace

std::span<const Rule> choice_rules() {
  static constexpr Rule kRules[] = {
      {"selp", fold_choice}, {"slct", fold_choice}, {"setp", fold_comparison},
      {"add", fold_sum},     {"sub", fold_sum},
  };
  return kRules;
}

}  // namespace fp4lab::emu::peephole
