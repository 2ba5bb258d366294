// What `set` made is compared with 0 or 1 by the comparison itself: one of two f32 then has the .ftz of who
// asks, and lacks it if an integer is asked for, and 1 is what holds, though `set` makes -1 (or 1.0) of it.
#include <algorithm>

#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

// Of two f32 or f16, of which .ftz can be said.
bool may_flush(const Source& s) {
  if (s.type() == Type::u16 || s.type() == Type::s16) return s.type(1) == Type::f16;
  return (s.type() == Type::u32 || s.type() == Type::s32) && s.type(1) == Type::f32;
}

// The same truth with .ftz or without, for an operand that is one the other way, as it is or with another
// sign.
std::optional<Operand> truth_with(Pass& p, uint32_t pc, unsigned slot, bool ftz) {
  auto set = p.open_maker(pc, slot, "set");
  for (const std::string_view sign : {"neg", "abs"})
    if (const auto from = p.made_by(pc, slot, sign); from && p.source(*from).type() == Type::s32)
      set = p.open_maker(*from, 1, "set");
  if (!set || !may_flush(p.source(*set)) || p.source(*set).has("ftz") == ftz) return std::nullopt;
  Rewriter::Tokens tokens = p.source(*set).tokens;
  if (ftz)
    tokens.insert(tokens.end() - 2, "ftz");
  else
    std::erase(tokens, "ftz");
  const Operand truth = p.w.fresh(bits_type(p.source(*set).type()));
  std::vector<Operand> operands{truth};
  for (unsigned n = 1; n < kMaxOperands && p.operand(*set, n); ++n) operands.push_back(p.operand(*set, n));
  p.insert(*set, std::move(tokens), std::move(operands));
  return truth;
}

void compare(Pass& p, uint32_t pc, unsigned slot, bool ftz = false) {
  if (const auto truth = truth_with(p, pc, slot, ftz)) p.operand(pc, slot) = *truth;
}

// Does one machine instruction make it of its comparison, which another can then take instead? A pair's two
// truths are made by the comparison itself.
bool is_one_instruction(const Source& set) {
  if (name_of(set.type(1)).ends_with("x2")) return false;
  if (set.type() == Type::f32)
    return (set.type(1) == Type::f32 && !set.has("ftz")) || bits_of(set.type(1)) == 64;
  return (set.type() == Type::u32 || set.type() == Type::s32) && bits_of(set.type(1)) >= 32;
}

// 1 where what `set` made holds, and 0.
void compare_with_one(Pass& p, uint32_t pc, unsigned slot) {
  const auto set = p.open_maker(pc, slot, "set");
  if (!set || !is_one_instruction(p.source(*set)) || p.bits(pc, slot)) return;
  const Operand truth = p.w.fresh(Type::b32);
  if (p.source(*set).type() == Type::f32) {
    p.insert(pc, {"shr", "u32"}, {truth, p.operand(pc, slot), p.w.constant(29)});
  } else {
    compare(p, pc, slot);
    p.insert(pc, {"and", "b32"}, {truth, p.operand(pc, slot), p.w.constant(1)});
  }
  p.operand(pc, slot) = truth;
}

bool is_among(std::string_view how, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, how) != list.end();
}

bool is_equality(std::string_view how) { return is_among(how, {"eq", "ne", "equ", "neu"}); }

uint64_t one_of(Type type) { return type == Type::f16 ? 0x3c00 : type == Type::bf16 ? 0x3f80 : 0x3f800000; }
uint64_t sign_of(Type type) { return uint64_t(1) << (bits_of(type) - 1); }

bool asks_below(std::string_view how, bool is_first) {
  return is_first ? is_among(how, {"lt", "ge", "ltu", "geu"}) : is_among(how, {"gt", "le", "gtu", "leu"});
}

// A comparison of an operand with 0, or whether it is 1, as a float or an integer.
bool asks_truth(const Pass& p, uint32_t pc, unsigned slot) {
  const Source& s = p.source(pc);
  const bool makes_predicate = s.tokens[0] == "setp";
  if (!makes_predicate && s.tokens[0] != "set") return false;
  const unsigned first = makes_predicate ? 2 : 1;
  const auto with = slot == first || slot == first + 1 ? p.bits(pc, 2 * first + 1 - slot) : std::nullopt;
  if (!with) return false;
  const Type type = s.type(makes_predicate ? 0 : 1);
  const std::string_view how = s.tokens[1];
  if (!is_float(type)) return *with <= 1 && is_among(how, {"eq", "ne"});
  const bool zero = (*with & ~sign_of(type)) == 0, equality = is_equality(how);
  return zero ? equality || asks_below(how, slot == first) : *with == one_of(type) && equality;
}

// Whether nothing but such comparisons reads what an instruction made.
bool is_asked_alone(Pass& p, uint32_t maker, int copies = 0) {
  constexpr int kMostCopies = 8;
  const auto& readers = p.readers(maker);
  return copies <= kMostCopies && readers.size() == p.known.uses(maker) &&
         std::ranges::all_of(readers, [&](const Pass::Reader& reader) {
           return p.is_copy(reader.pc) ? is_asked_alone(p, reader.pc, copies + 1)
                                       : asks_truth(p, reader.pc, reader.slot);
         });
}

// As the float 1 where an integer truth holds, against 1, and as -1 against 0: what the comparison of
// integers would say, though the bits of -1 are a NaN. Whether it is below 0 so only if all that read
// it ask one of these things.
void compare_as_float(Pass& p, uint32_t pc, Type type, unsigned first) {
  const Source& s = p.source(pc);
  const bool makes_predicate = s.tokens[0] == "setp", ftz = s.has("ftz");
  if (s.tokens.size() != (makes_predicate ? 3u : 4u) + (ftz ? 1 : 0)) return;
  if (type != Type::f16 && type != Type::bf16 && type != Type::f32) return;
  const uint64_t one = one_of(type), sign = sign_of(type);
  const std::string_view how = s.tokens[1];
  const bool equality = is_equality(how);
  for (const unsigned slot : {first, first + 1}) {
    const auto with = p.bits(pc, 2 * first + 1 - slot);
    const auto set = p.made_by(pc, slot, "set");
    if (!with || !set || p.bits(pc, slot)) continue;
    const Source& of = p.source(*set);
    const bool halves = (of.type() == Type::u16 || of.type() == Type::s16) && bits_of(of.type(1)) == 16;
    if (is_float(of.type()) || bits_of(of.type()) != bits_of(type) || of.tokens.back().ends_with("x2") ||
        !(halves || is_one_instruction(of)))
      return;
    const bool below = asks_below(how, slot == first);
    // No instruction has the opposite of .xor, and a predicate is made by `ne`.
    const bool fits_one = !of.has("xor") || (!makes_predicate && (how == "eq" || how == "equ"));
    const bool with_one = *with == one && equality && fits_one;
    const bool asks_sign = below && !ftz && !of.has("ftz") && is_asked_alone(p, *set);
    const bool with_zero = (*with & ~sign) == 0 && (equality || asks_sign);
    if (!with_one && !with_zero) return;
    // Against 0 it is the truth itself that is asked for, not what the comparison read.
    if ((with_one || of.has("ftz")) && !p.known.may_read_for(pc, *set)) return;
    compare(p, pc, slot, ftz);
    const Operand truth = p.w.fresh(bits_type(type));
    p.insert(pc, {"and", name_of(bits_type(type))},
             {truth, p.operand(pc, slot), p.w.constant(with_one ? one : one | sign, bits_type(type))});
    p.operand(pc, slot) = truth;
    return;
  }
}

void compare_equal(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const bool makes_predicate = s.tokens[0] == "setp";
  const Type type = s.type(makes_predicate ? 0 : 1);
  if (is_float(type)) return compare_as_float(p, pc, type, makes_predicate ? 2 : 1);
  const bool equal = s.tokens[1] == "eq", plain = s.tokens.size() == (makes_predicate ? 3 : 4);
  if (!plain || bits_of(type) != 32 || (!equal && s.tokens[1] != "ne")) return;
  const unsigned first = makes_predicate ? 2 : 1;
  for (const unsigned slot : {first, first + 1}) {
    const auto with = p.bits(pc, 2 * first + 1 - slot);
    if (with != 0u && with != 1u) continue;
    // A predicate is made by `ne`, and turned where it is read; no instruction has the opposite of .xor.
    const bool opposite = makes_predicate ? with == 1u : equal == (with == 0u);
    const auto set = p.made_by(pc, slot, "set");
    if (opposite && set && p.source(*set).has("xor")) return;
    return with == 1u ? compare_with_one(p, pc, slot) : compare(p, pc, slot);
  }
}

// Made by `set` of integers for nothing else: -1 where the comparison holds, and 0. What that compared need
// not be open to the reader, which asks for the truth itself.
bool is_minus_one_or_zero(const Pass& p, uint32_t pc, unsigned slot) {
  const auto set = p.made_by(pc, slot, "set");
  return set && p.known.uses(*set) == 1 && !p.bits(pc, slot) && p.source(*set).type() != Type::f32 &&
         is_one_instruction(p.source(*set)) && !p.source(*set).has("ftz");
}

// Which of them it is goes as it is into a comparison with 0, which is made as if it were of s32: -1 is less
// as u32 too. Not by lo and hs.
void compare_sign(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const bool makes_predicate = s.tokens[0] == "setp";
  const std::string_view how = s.tokens[1];
  if (s.type(makes_predicate ? 0 : 1) != Type::u32) return;
  const unsigned first = makes_predicate ? 2 : 1;
  const bool by_second = how == "lt" || how == "ge", by_first = how == "gt" || how == "le";
  const unsigned slot = by_second ? first : first + 1;
  if (!(by_first || by_second) || p.bits(pc, 2 * first + 1 - slot) != 0u) return;
  const auto set = p.made_by(pc, slot, "set");  // no instruction has the opposite of .xor
  if (!makes_predicate && (how == "ge" || how == "le") && set && p.source(*set).has("xor")) return;
  // Of 0 and 2^32 - 1 the other is less.
  if (is_minus_one_or_zero(p, pc, slot)) p.exchange(pc, first, first + 1);
}

void negate(Pass& p, uint32_t pc) {
  if (bits_of(p.source(pc).type()) == 32) compare(p, pc, 1);
}

// fns asks whether the offset is 0, by the comparison without .ftz, and then what it is: where only the first
// is not 0, it looks downwards for no bit at all, and finds bit 31.
void find_set_bit(Pass& p, uint32_t pc) {
  const auto set = p.made_by(pc, 3, "set");
  if (!set) return;
  const Operand flushed = p.operand(pc, 3);
  const auto truth = truth_with(p, pc, 3, /*ftz=*/false);
  if (!truth) return;
  const Operand found = p.w.fresh(Type::b32), only_first = p.w.fresh(Type::b32);
  p.insert(pc, {"fns", "b32"}, {found, p.operand(pc, 1), p.operand(pc, 2), *truth});
  p.insert(pc, {"not", "b32"}, {only_first, flushed});
  p.insert(pc, {"and", "b32"}, {only_first, only_first, *truth});
  p.replace(pc, {"slct", "b32", "s32"}, {found, p.w.constant(31), only_first});
}

}  // namespace

std::span<const Rule> flush_rules() {
  static constexpr Rule kRules[] = {
      {"set", compare_equal}, {"set", compare_sign}, {"setp", compare_equal},
      {"setp", compare_sign}, {"cnot", negate},      {"fns", find_set_bit},
  };
  return kRules;
}

}  // namespace fp4lab::emu::peephole
