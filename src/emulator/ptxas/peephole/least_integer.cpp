// What neg and abs make of the least integer is a positive number in what reads it next.
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

// Of a constant the compiler computes it in 16 bits. The 32 bits are read, not what they were made of, so
// that this may meet another value.
std::optional<uint32_t> sign_of_s16(Pass& p, uint32_t pc, unsigned slot) {
  for (const std::string_view name : {"neg", "abs"})
    if (const auto from = p.made_by(pc, slot, name);
        from && p.source(*from).type() == Type::s16 && !p.bits(*from, 1))
      return from;
  return std::nullopt;
}

// An operand of s16 as the s32 that the compiler takes.
Operand extended(Pass& p, uint32_t pc, unsigned slot) {
  const auto sign = sign_of_s16(p, pc, slot);
  const Operand result = p.w.fresh(Type::b32);
  if (sign && sign_of_s16(p, *sign, 1)) {
    const Operand inner = extended(p, *sign, 1);
    p.insert(*sign, {p.source(*sign).tokens[0], "s32"}, {result, inner});
    return result;
  }
  p.insert(sign.value_or(pc), {"cvt", "s32", "s16"},
           {result, sign ? p.operand(*sign, 1) : p.operand(pc, slot)});
  if (sign) p.insert(*sign, {p.source(*sign).tokens[0], "s32"}, {result, result});
  return result;
}

// Of neg and abs of s16 the compiler takes 32 bits, which the least integer needs, where it would otherwise
// extend the sign.
void widen(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const std::string_view name = s.tokens[0];
  const bool reads_second = name == "cvt" || name == "set";  // of its two types
  if (s.has("pack") || s.type(reads_second ? 1 : 0) != Type::s16 || (name == "cvt" && is_float(s.type())))
    return;
  const unsigned first = name == "setp" ? 2 : 1, count = name == "cvt" || name == "shr" ? 1 : 2;
  bool wide = false;
  for (unsigned slot = first; slot < first + count; ++slot) wide |= sign_of_s16(p, pc, slot).has_value();
  if (!wide) return;
  std::vector<Operand> sources;
  for (unsigned slot = first; slot < first + count; ++slot) sources.push_back(extended(p, pc, slot));
  const bool high = s.has("hi"), widens = s.has("wide");
  if (name == "mul" || name == "mad") {
    if (!high && !widens) return;
    const Operand product = p.w.fresh(Type::b32);
    p.insert(pc, {"mul", "lo", "s32"}, {product, sources[0], sources[1]});
    if (high) p.insert(pc, {"shr", "s32"}, {product, product, p.w.constant(16)});
    if (name == "mul") return p.replace(pc, {"mov", "b32"}, {product});
    p.replace(pc, {"add", high ? "s16" : "s32"}, {product, p.operand(pc, 3)});
  } else if (name == "cvt") {
    Rewriter::Tokens tokens = s.tokens;
    tokens.back() = "s32";
    p.replace(pc, tokens, sources);
  } else if (name == "setp") {
    Rewriter::Tokens tokens = s.tokens;
    tokens.back() = "s32";
    sources.insert(sources.begin(), p.operand(pc, 1));
    if (p.operand(pc, 4)) sources.push_back(p.operand(pc, 4));  // the predicate that it is combined with
    p.replace(pc, tokens, sources);
  } else if (name == "set") {
    Rewriter::Tokens tokens = s.tokens;
    tokens.back() = "s32";
    if (p.operand(pc, 3)) sources.push_back(p.operand(pc, 3));  // the predicate that it is combined with
    p.replace(pc, tokens, sources);
  } else if (name == "div" || name == "rem") {
    const Operand result = p.w.fresh(Type::b32);
    p.insert(pc, {name, "s32"}, {result, sources[0], sources[1]});
    p.replace(pc, {"cvt", "u16", "u32"}, {result});
  } else if (name == "sad") {
    const Operand result = p.w.fresh(Type::b32);
    p.insert(pc, {"sad", "s32"}, {result, sources[0], sources[1], p.operand(pc, 3)});
    p.replace(pc, {"cvt", "u16", "u32"}, {result});
  } else if (name == "shr") {
    const Operand result = p.w.fresh(Type::b32);
    p.insert(pc, {"shr", "s32"}, {result, sources[0], p.operand(pc, 2)});
    p.replace(pc, {"cvt", "u16", "u32"}, {result});
  }
}

// The remainder of an abs: as if the least integer were a positive number.
void fold_remainder(Pass& p, uint32_t pc) {
  if (p.source(pc).type() != Type::s32) return;
  const auto abs = p.open_maker(pc, 1, "abs");
  if (!abs || p.source(*abs).type() != Type::s32) return;
  const auto by = p.bits(pc, 2);
  if (by && !static_cast<uint32_t>(*by)) return;
  Operand divisor;
  if (by) {
    const auto value = static_cast<int32_t>(*by);
    divisor = p.w.constant(static_cast<uint32_t>(value < 0 ? -value : value));
  } else {
    divisor = p.w.fresh(Type::b32);
    p.insert(pc, {"abs", "s32"}, {divisor, p.operand(pc, 2)});
  }
  p.replace(pc, {"rem", "u32"}, {p.operand(pc, 1), divisor});
}

// A part of a wider register, also of one that 16 bits were loaded into as elements of a vector.
bool is_part(const Pass& p, uint32_t pc, unsigned slot) {
  const auto from = p.behind_copies(pc, slot);
  if (!from) return false;
  const Source& s = p.source(*from);
  const bool has_elements = is_vector(p.operand(*from, 0));
  if (s.tokens[0] == "mov") return has_elements;
  if (s.tokens[0] == "ld") return has_elements && bits_of(s.type()) == 16;
  return is_integer_cvt(s) && bits_of(s.type(1)) == 64;
}

// What neg and abs make of the least integer is a positive number where it is saturated next. What abs makes
// of it is a number below 0 where u16 or u32 is converted to f32, but of a part of a wider register.
void convert_integer(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.has("pack")) return;
  const Type to = s.type(0), from = s.type(1);
  const bool is_unsigned = from == Type::u16 || from == Type::u32;
  if (const auto abs = p.open_maker(pc, 1, "abs"); abs && is_unsigned && to == Type::f32) {
    Rewriter::Tokens tokens = s.tokens;
    tokens.back() = from == Type::u16 ? "s16" : "s32";
    if (name_of(p.source(*abs).type()) == tokens.back() && !is_part(p, *abs, 1))
      p.replace(pc, tokens, {p.operand(pc, 1)});
    return;
  }
  if (from != Type::s32 || !s.has("sat") || is_float(to)) return;
  for (const std::string_view name : {"neg", "abs"})
    if (const auto sign = p.open_maker(pc, 1, name); sign && p.source(*sign).type() == Type::s32) {
      if (bits_of(to) > 16) {
        const Operand most = name == "neg" ? p.w.fresh(Type::b32) : p.operand(pc, 1);
        if (name == "neg") {
          p.insert(*sign, {"min", "s32"}, {most, p.operand(*sign, 1), p.w.constant(0)});
          p.insert(*sign, {"neg", "s32"}, {most, most});
        }
        return p.replace(pc, {"cvt", name_of(to), "u32"}, {most});
      }
      const Operand x = p.operand(*sign, 1), negative = p.w.fresh(Type::b32), result = p.w.fresh(Type::b32);
      p.insert(*sign, {"sub", "sat", "s32"}, {negative, p.w.constant(0), x});
      p.insert(*sign, {name == "neg" ? "min" : "max", "s32"},
               {result, negative, name == "neg" ? negative : x});
      p.operand(pc, 1) = result;
      return;
    }
}

// Two negations are none, as in an even number of rounds.
void cancel_negations(Pass& p, uint32_t pc) {
  const Type type = p.source(pc).type();
  const auto inner = is_float(type) ? std::nullopt : p.open_maker(pc, 1, "neg");
  if (inner && p.source(*inner).type() == type) p.become_copy(pc, p.kept(*inner, 1), type);
}

// A saturated sum with 0 of what neg or abs made: its least number becomes the greatest.
void add_nothing(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (!s.has("sat") || s.type() != Type::s32) return;
  const auto is_zero = [&](unsigned slot) {
    const auto value = p.bits(pc, slot);
    return value && !static_cast<uint32_t>(*value);
  };
  const bool is_product = s.tokens[0] == "mad24";
  if (is_product && !is_zero(1) && !is_zero(2)) return;
  for (const unsigned slot : {is_product ? 3u : 1u, is_product ? 3u : 2u}) {
    if (!is_product && !is_zero(3 - slot)) continue;
    for (const std::string_view name : {"neg", "abs"})
      if (const auto sign = p.made_by(pc, slot, name); sign && p.source(*sign).type() == Type::s32) {
        const Operand is_least = p.w.fresh(Type::b32);
        p.insert(pc, {"set", "eq", "s32", "s32"}, {is_least, p.operand(pc, slot), p.w.constant(0x80000000)});
        return p.replace(pc, {"add", "s32"}, {p.operand(pc, slot), is_least});
      }
  }
}

// A difference to 0 and, of s32, a product by -1 are negations, where they say that they have a sign.
void become_negation(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if ((s.type() != Type::s32 && s.type() != Type::s16) || s.has("sat") || s.has("cc")) return;
  const bool differs = s.tokens[0] == "sub" && s.tokens.size() == 2 && p.bits(pc, 1) == 0u;
  if (differs) return p.replace(pc, {"neg", name_of(s.type())}, {p.operand(pc, 2)});
  if (s.tokens[0] != "mul" || !s.has("lo") || s.type() != Type::s32) return;
  for (const unsigned slot : {1u, 2u})
    if (const auto factor = p.bits(pc, 3 - slot); factor && static_cast<uint32_t>(*factor) == ~0u)
      return p.replace(pc, {"neg", "s32"}, {p.operand(pc, slot)});
}

}  // namespace

std::span<const Rule> least_integer_rules() {
  static constexpr Rule kRules[] = {
      {"sub", become_negation}, {"mul", become_negation}, {"neg", cancel_negations},
      {"cvt", widen},           {"div", widen},           {"mad", widen},
      {"mul", widen},           {"rem", fold_remainder},  {"rem", widen},
      {"sad", widen},           {"set", widen},           {"setp", widen},
      {"shr", widen},           {"cvt", convert_integer}, {"add", add_nothing},
      {"mad24", add_nothing},
  };
  return kRules;
}

}  // namespace fp4lab::emu::peephole
