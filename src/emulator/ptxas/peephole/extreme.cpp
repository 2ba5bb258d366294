// Extremes of floats with constants: selections of f32 that become one, and two that become a saturation.
// Either shows in NaNs, the first also in subnormals. Extremes of integers with 0.
#include <algorithm>
#include <array>
#include <utility>

#include "emulator/ptxas/part.h"
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

struct Extreme {
  bool is_greater;
  unsigned slot;  // of what is not constant
  uint64_t bound;
};

// An extreme of a value and a constant, of which a NaN gives the constant.
std::optional<Extreme> extreme(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.tokens.size() != (s.has("ftz") ? 3 : 2)) return std::nullopt;
  for (const unsigned slot : {1u, 2u})
    if (const auto bound = p.bits(pc, 3 - slot); bound && !p.bits(pc, slot))
      return Extreme{s.tokens[0] == "max", slot, *bound};
  return std::nullopt;
}

uint64_t one(Type type) {
  return type == Type::f64 ? 0x3ff0000000000000 : type == Type::f32 ? 0x3f800000 : 0x3c00;
}

// Whether it leaves what lies between 0 and 1 as it is: a maximum with no more than 0, a minimum with no less
// than 1.
bool spares_unit_range(const Extreme& of, Type type) {
  const bool is_negative = of.bound >> (bits_of(type) - 1) & 1;
  return of.is_greater ? of.bound == 0 || is_negative : of.bound >= one(type) && !is_negative;
}

// With .ftz if the extreme has it.
void become_saturation(Pass& p, uint32_t pc, const Operand& x) {
  const Type type = p.source(pc).type();
  const bool flushes = p.source(pc).has("ftz");
  if (type == Type::f16 && flushes)  // HADD2.FTZ.SAT; no cvt of f16 flushes
    return p.replace(pc, {"add", "ftz", "sat", "f16"}, {x, p.w.constant(0x8000, type)});
  Rewriter::Tokens tokens{"cvt", "sat", name_of(type), name_of(type)};
  if (flushes) tokens.insert(tokens.begin() + 1, "ftz");
  p.replace(pc, std::move(tokens), {x});
}

// Extremes of 32-bit integers count as those of f32: of the same bits.
bool is_extreme_as(const Source& s, Type type) {
  if (s.tokens[0] != "min" && s.tokens[0] != "max") return false;
  const bool is_integer = s.type() == Type::s32 || s.type() == Type::u32;
  return s.type() == type || (type == Type::f32 && is_integer && s.tokens.size() == 2);
}

// The value that is left of a clamp behind further extremes of it with constants, which do nothing to what
// lies between 0 and 1. Nothing if one of them does.
std::optional<Operand> clamped(Pass& p, uint32_t at, unsigned slot, Type type) {
  constexpr unsigned kMostExtremes = 16;
  if (type == Type::f16) return p.kept(at, slot);
  for (unsigned n = 0; n < kMostExtremes; ++n) {
    auto from = p.open_maker(at, slot, "min");
    if (!from) from = p.open_maker(at, slot, "max");
    const auto of = from && is_extreme_as(p.source(*from), type) ? extreme(p, *from) : std::nullopt;
    if (!of) break;
    if (!spares_unit_range(*of, type) && !is_nan(of->bound, type)) return std::nullopt;
    at = *from, slot = of->slot;
  }
  return p.kept(at, slot);
}

// min(max(x, 0), 1) and max(min(x, 1), 0) are x saturated: 0 for a NaN in either order. The outer one says
// whether subnormals are flushed.
void fold_clamp(Pass& p, uint32_t pc) {
  const Type type = p.source(pc).type();
  if (type != Type::f32 && type != Type::f64 && type != Type::f16) return;
  const uint64_t sign = uint64_t(1) << (bits_of(type) - 1);
  const auto fits = [&](const Extreme& e) {
    return e.is_greater ? (e.bound & ~sign) == 0 : e.bound == one(type);
  };
  const auto outer = extreme(p, pc);
  if (!outer || !fits(*outer)) return;
  const auto from = p.open_maker(pc, outer->slot, outer->is_greater ? "min" : "max");
  if (!from || !is_extreme_as(p.source(*from), type)) return;
  const auto inner = extreme(p, *from);
  if (!inner || !fits(*inner)) return;
  if (const auto x = clamped(p, *from, inner->slot, type)) become_saturation(p, pc, *x);
}

// So is the extreme of what counts as saturated (is_saturated) and a constant that is none between 0 and 1,
// though what an integer instruction saturated may be any number. Without .ftz it is a copy.
void fold_extreme_of_saturated(Pass& p, uint32_t pc) {
  const Type type = p.source(pc).type();
  if (type != Type::f32 && type != Type::f64 && type != Type::f16) return;
  const auto of = extreme(p, pc);
  if (!of || !is_saturated(p, pc, of->slot, type)) return;
  if (is_nan(of->bound, type) || !spares_unit_range(*of, type)) return;
  const Operand x = p.operand(pc, of->slot);
  p.source(pc).has("ftz") ? become_saturation(p, pc, x) : p.become_copy_of(pc, of->slot, type);
}

// max(min(x, 0), 0) and min(max(x, 0), 0) of integers are 0, also where one of them counts a sign and the
// other one does not: max.u32 of what is no more than 0 as s32. Equal bounds other than 0 are what they say.
void fold_zero_bounds(Pass& p, uint32_t pc) {
  const auto is_plain = [&](uint32_t at) {
    const Type type = p.source(at).type();
    return p.source(at).tokens.size() == 2 &&
           (type == Type::s32 || type == Type::u32 || type == Type::s64 || type == Type::u64);
  };
  if (!is_plain(pc)) return;
  const Type type = p.source(pc).type();
  for (const unsigned slot : {1u, 2u}) {
    if (p.bits(pc, 3 - slot) != 0u) continue;
    const auto from = p.made_by(pc, slot, p.source(pc).tokens[0] == "max" ? "min" : "max");
    if (!from || !is_plain(*from) || bits_of(p.source(*from).type()) != bits_of(type)) continue;
    if (p.bits(*from, 1) == 0u || p.bits(*from, 2) == 0u) return p.become(pc, 0, type);
  }
}

std::string_view mirrored(std::string_view how) {
  static constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"lt", "gt"}, {"le", "ge"}, {"ltu", "gtu"}, {"leu", "geu"}};
  for (const auto& [a, b] : kPairs)
    if (how == a || how == b) return how == a ? b : a;
  return {};
}

// The operands of a selection, by their slots, and when it takes the first one.
struct Selection {
  uint32_t by;  // the comparison
  std::array<unsigned, 2> slots;
  bool negated;
};

// What it becomes: x > c ? x : c and its like are extremes without .ftz, with .NaN if a NaN selects x. Of 0
// those in which either zero counts as no greater. Where something else asks the comparison too, those alone
// that ask whether x is less: ptxas makes these the opposite comparison, and another one for each reader.
struct Clamp {
  Rewriter::Tokens tokens;
  unsigned x;  // its slot
  uint64_t bound;
};
std::optional<Clamp> clamp_of(const Pass& p, uint32_t pc, const Selection& selection) {
  const uint32_t by = selection.by;
  const bool is_shared = p.known.uses(by) != 1;
  const Source& s = p.source(by);
  const bool plain = s.tokens.size() == (s.has("ftz") ? 4 : 3) && !p.operand(by, 1);
  if (!plain || s.type() != Type::f32) return std::nullopt;
  for (const unsigned slot : {2u, 3u}) {
    const std::string_view other_way = mirrored(s.tokens[1]), how = slot == 2 ? s.tokens[1] : other_way;
    const auto bound = p.bits(by, 5 - slot);
    if (other_way.empty() || !bound || p.bits(by, slot) || is_nan32(*bound)) continue;
    if (is_shared && how[0] != 'l') continue;
    if (*bound == 0x80000000 || (*bound == 0 && how != "gt" && how != "gtu" && how != "le" && how != "leu"))
      continue;
    for (const bool is_first : {true, false}) {
      const unsigned x = selection.slots[is_first ? 0 : 1], other = selection.slots[is_first ? 1 : 0];
      if (p.bits(pc, other) != bound || !(p.holds_same(by, slot, pc, x) || p.same_copies(by, slot, pc, x)))
        continue;
      const bool if_true = is_first != selection.negated, unordered = how.size() == 3;
      Rewriter::Tokens tokens{(how[0] == 'g') == if_true ? "max" : "min", "f32"};
      if (unordered == if_true) tokens.insert(tokens.begin() + 1, "NaN");
      return Clamp{std::move(tokens), x, *bound};
    }
  }
  return std::nullopt;
}

void fold_selection(Pass& p, uint32_t pc) {
  if (bits_of(p.source(pc).type(0)) != 32) return;
  const auto by = p.made_by(pc, 3, "setp");
  if (!by) return;
  const auto clamp = clamp_of(p, pc, {*by, {1, 2}, p.operand(pc, 3).negated});
  if (clamp) p.replace(pc, clamp->tokens, {p.operand(pc, clamp->x), p.w.constant(clamp->bound)});
}

// A guarded move selects what it moves, or what its register holds.
void fold_guarded_move(Pass& p, uint32_t pc) {
  Instr& i = p.f.code[pc];
  const uint32_t by = i.guard > 0 ? p.known.guard_maker(pc) : Dataflow::kNone;
  if (bits_of(p.source(pc).type()) != 32 || !is_value(i.op[0]) || !is_value(i.op[1])) return;
  if (by == Dataflow::kNone || by >= pc || p.source(by).tokens[0] != "setp") return;
  const auto clamp = clamp_of(p, pc, {by, {1, 0}, i.guard_negated});
  if (!clamp) return;
  i.guard = -1, i.guard_negated = false;
  p.replace(pc, clamp->tokens, {p.operand(pc, clamp->x), p.w.constant(clamp->bound)});
}

// Constants and what lies in banks are the machine instruction's second operand.
unsigned first_operand(const Pass& p, uint32_t extreme) {
  const auto is_last = [&](unsigned slot) {
    const auto load = p.made_by(extreme, slot, "ld");
    return p.bits(extreme, slot) || (load && p.flow.is_in_bank(*load));
  };
  return is_last(1) && !is_last(2) ? 2 : 1;
}

// Such an instruction has a predicate of its own, which ptxas takes for whether its result is either operand:
// it says whether that is the first one. The first comparison gets it, others compare.
void ask_first_operand(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.tokens.size() != 3 || s.tokens[1] != "eq" || s.type() != Type::s32) return;
  const unsigned asked = p.bits(pc, 2) ? 3 : 2, other = 5 - asked;  // constants come second
  auto from = p.made_by(pc, asked, "max");
  if (!from) from = p.made_by(pc, asked, "min");
  if (!from || !p.source(*from).has("relu") || p.source(*from).type() != Type::s32) return;
  const auto bound = p.bits(pc, other);
  const auto is_it = [&](unsigned slot) {
    return bound ? p.bits(*from, slot) == bound : p.holds_same(*from, slot, pc, other);
  };
  if ((!is_it(1) && !is_it(2)) || !p.asked_extremes.insert(*from).second) return;
  const Operand first = p.kept(*from, first_operand(p, *from));
  p.replace(pc, s.tokens, {p.operand(pc, 1), p.operand(pc, asked), first});
}

// A half of an extreme of two halves, or one of 16 bits alone.
struct HalfExtreme {
  uint32_t at, nth;
};

std::optional<HalfExtreme> half_extreme(const Pass& p, uint32_t pc, unsigned slot) {
  for (const char* name : {"max", "min"}) {
    if (const auto at = p.made_by(pc, slot, name))
      return bits_of(p.source(*at).type()) == 16 && !is_float(p.source(*at).type())
                 ? std::optional(HalfExtreme{*at, 0})
                 : std::nullopt;
    const auto parts = p.made_by(pc, slot, "mov");
    if (!parts || !takes_apart(p.f.code[*parts], p.source(*parts)) || p.operand(*parts, 0).count != 2)
      continue;
    const auto nth = nth_part(p.f, *parts, p.operand(pc, slot));
    const auto at = p.made_by(*parts, 1, name);
    const bool is_pair = at && (p.source(*at).type() == Type::s16x2 || p.source(*at).type() == Type::u16x2);
    if (nth && is_pair) return HalfExtreme{*at, *nth};
  }
  return std::nullopt;
}

// Of 16 bits those have such predicates, one for each half, that are compared with the constant that is one
// of their operands: never the first one of the machine instruction.
void ask_first_half(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.tokens.size() != 3 || s.tokens[1] != "eq" || bits_of(s.type()) != 16 || is_float(s.type())) return;
  const unsigned asked = p.bits(pc, 2) ? 3 : 2;  // constants come second
  const auto bound = p.bits(pc, 5 - asked);
  const auto from = bound ? half_extreme(p, pc, asked) : std::nullopt;
  if (!from) return;
  const bool is_signed = name_of(p.source(from->at).type())[0] == 's';
  if (is_signed != (s.type() == Type::s16) && *bound & 0x8000) return;
  for (const unsigned slot : {1u, 2u}) {
    const auto constant = p.bits(from->at, slot);
    if (!constant || p.bits(from->at, 3 - slot) || ((*constant >> 16 * from->nth ^ *bound) & 0xffff))
      continue;
    if (!p.asked_extremes.insert(from->at | uint64_t(from->nth + 1) << 32).second) return;
    Operand first = p.kept(from->at, 3 - slot);
    if (bits_of(first.type) == 32) {
      const Operand half = p.w.fresh(Type::b16);
      if (from->nth == 1) p.insert(pc, {"shr", "u32"}, {first, first, p.w.constant(16)});
      p.insert(pc, {"cvt", "u16", "u32"}, {half, first});
      first = half;
    }
    return p.replace(pc, s.tokens, {p.operand(pc, 1), p.operand(pc, asked), first});
  }
}

struct Place {
  uint32_t pc;
  unsigned slot;
};

// The `and` of a half and itself, or all bits, which identity.cpp leaves: the slot of the half.
std::optional<Place> masked_by_nothing(const Pass& p, uint32_t pc, unsigned slot) {
  const auto from = p.made_by(pc, slot, "and");
  if (!from || p.source(*from).type() != Type::b16) return std::nullopt;
  if (p.same_register(*from, 1, 2)) return Place{*from, 1};
  for (const unsigned of : {1u, 2u})
    if (const auto mask = p.bits(*from, 3 - of); mask && uint16_t(*mask) == 0xffff) return Place{*from, of};
  return std::nullopt;
}

// Where what an operand holds was before it was negated an even number of times, or masked by nothing.
Place behind_negations(const Pass& p, uint32_t pc, unsigned slot) {
  const Type type = p.source(pc).type();
  const auto negation = [&](uint32_t at, unsigned of) {
    const auto from = p.open_maker(at, of, "neg");
    return from && p.source(*from).type() == type && !p.source(*from).has("ftz") ? from : std::nullopt;
  };
  for (Place at{pc, slot};;) {
    if (const auto half = type == Type::f16 ? masked_by_nothing(p, at.pc, at.slot) : std::nullopt) {
      at = *half;
      continue;
    }
    const auto outer = negation(at.pc, at.slot);
    const auto inner = outer ? negation(*outer, 1) : std::nullopt;
    if (!inner) return at;
    at = {*inner, 1};
  }
}

// Two negations are none before an extreme of a value and itself is a copy.
void fold_extreme_of_negations(Pass& p, uint32_t pc) {
  if (!is_plain_extreme(p.f.code[pc], p.source(pc))) return;
  const Place a = behind_negations(p, pc, 1), b = behind_negations(p, pc, 2);
  const bool any = a.pc != pc || b.pc != pc;
  const auto [first, second] = a.pc < b.pc ? std::pair(a, b) : std::pair(b, a);
  const bool are_same = any && (p.same_copies(a.pc, a.slot, b.pc, b.slot) ||
                                p.holds_same(first.pc, first.slot, second.pc, second.slot));
  if (!are_same) return;
  const Operand x = a.pc == pc ? p.operand(pc, 1) : b.pc == pc ? p.operand(pc, 2) : p.kept(a.pc, a.slot);
  p.become_copy(pc, x, p.source(pc).type());
}

}  // namespace

std::span<const Rule> extreme_rules() {
  static constexpr Rule kRules[] = {{"selp", fold_selection},
                                    {"mov", fold_guarded_move},
                                    {"min", fold_extreme_of_negations},
                                    {"max", fold_extreme_of_negations},
                                    {"min", fold_clamp},
                                    {"max", fold_clamp},
                                    {"min", fold_extreme_of_saturated},
                                    {"max", fold_extreme_of_saturated},
                                    {"min", fold_zero_bounds},
                                    {"max", fold_zero_bounds},
                                    {"setp", ask_first_operand},
                                    {"setp", ask_first_half}};
  return kRules;
}

}  // namespace fp4lab::emu::peephole
