// Integer instructions of 32 and 64 bits that give a constant whatever one of their operands is, and
// selections that give one value in either case. To the rules that ask whether an operand is constant
// they are, and so are logic of predicates, and sums, products and extremes of f32 that can be one number
// only; what other instructions make of it (sub and rem, extremes, prmt, lop3, bfe of no bits of 32, wide
// products) is not, though the compiler knows later that it is one.
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

bool is_word(const Source& s) {
  const unsigned width = bits_of(s.type());
  return !is_float(s.type()) && (width == 32 || width == 64);
}

uint64_t ones(const Source& s) { return ~uint64_t(0) >> (64 - bits_of(s.type())); }

bool either_is(const Pass& p, uint32_t pc, uint64_t value) {
  return p.bits(pc, 1) == value || p.bits(pc, 2) == value;
}

void become_constant(Pass& p, uint32_t pc, std::optional<uint64_t> value) {
  if (value) p.become(pc, *value, bits_type(p.source(pc).type()));
}

// What an operand holds that is a predicate.
std::optional<bool> holds(const Pass& p, uint32_t pc, unsigned slot) {
  const auto known = p.bits(pc, slot);
  return known ? std::optional(bool(*known) != p.operand(pc, slot).negated) : std::nullopt;
}

// Logic of predicates that one operand decides, or that has one twice.
void absorb_predicate(Pass& p, uint32_t pc) {
  const std::string_view name = p.source(pc).tokens[0];
  const auto become = [&](bool value) {
    p.known.mark_constant(pc);
    p.replace(pc, {"setp", value ? "eq" : "ne", "u32"}, {Operand{}, p.w.constant(0), p.w.constant(0)});
  };
  const Operand &a = p.operand(pc, 1), &b = p.operand(pc, 2);
  if (name == "xor") {
    if (a.index == b.index) become(a.negated != b.negated);
    return;
  }
  const bool absorbs = name == "or";
  if (holds(p, pc, 1) == absorbs || holds(p, pc, 2) == absorbs) become(absorbs);
}

void absorb_logic(Pass& p, uint32_t pc) {
  if (p.source(pc).type() == Type::pred) return absorb_predicate(p, pc);
  if (const auto constant = logic_by_width(p, pc)) return become_constant(p, pc, constant);
  if (!is_word(p.source(pc))) return;
  const std::string_view name = p.source(pc).tokens[0];
  if (name == "and" && either_is(p, pc, 0)) return become_constant(p, pc, 0);
  if (name == "or" && either_is(p, pc, ones(p.source(pc)))) return become_constant(p, pc, ones(p.source(pc)));
  if (name == "xor" && p.same_register(pc, 1, 2)) return become_constant(p, pc, 0);
  if (bits_of(p.source(pc).type()) == 64) become_constant(p, pc, known_halves(p, pc));
}

void absorb_product(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.type() == Type::f32) return become_only_number(p, pc);
  if (!is_word(s) || s.has("wide") || s.has("sat") || s.has("cc") || !either_is(p, pc, 0)) return;
  if (s.tokens[0] != "mad")
    become_constant(p, pc, 0);
  else if (s.has("lo"))
    become_constant(p, pc, p.bits(pc, 3));
}

// A choice of 64 bits between two constants: the compiler shifts both to the left, by the amount modulo 64.
bool shifts_choice(Pass& p, uint32_t pc, uint64_t amount) {
  const auto choice = p.behind_copies(pc, 1);
  if (!choice || bits_of(p.source(pc).type()) != 64 || p.source(pc).tokens[0] != "shl") return false;
  const std::string_view name = p.source(*choice).tokens[0];
  if ((name != "selp" && name != "slct") || !p.bits(*choice, 1) || !p.bits(*choice, 2)) return false;
  p.set_operand(pc, 2, amount & 63);
  return true;
}

// Of 0, or of more places than there are. (A product of 64 bits stays where it is: fold_wide_shift.)
void absorb_shift(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (!is_word(s) || shifted_product(p, pc)) return;
  const bool is_signed = s.type() == Type::s32 || s.type() == Type::s64;
  const auto amount = p.bits(pc, 2);
  if (amount && (*amount & 0xffffffff) >= 64 && shifts_choice(p, pc, *amount)) return;
  if (p.bits(pc, 1) == 0u || (!is_signed && amount && (*amount & 0xffffffff) >= bits_of(s.type())))
    become_constant(p, pc, 0);
}

// Of two words by a constant amount that leaves one of them whole.
void absorb_funnel(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const auto amount = p.bits(pc, 3);
  if (!amount) return;
  const auto places = static_cast<uint32_t>(*amount);
  const unsigned unmoved = s.has("l") ? 2 : 1, other = 3 - unmoved;
  if (s.has("wrap") ? places % 32 == 0 : places == 0)
    become_constant(p, pc, p.bits(pc, unmoved));
  else if (s.has("clamp") && places >= 32)
    become_constant(p, pc, p.bits(pc, other));
}

// Of no bits.
void absorb_extension(Pass& p, uint32_t pc) {
  const auto bits = p.bits(pc, 2);
  if (!bits) return;
  const auto count = static_cast<uint32_t>(*bits);
  if ((p.source(pc).has("wrap") ? count % 32 : count) == 0) become_constant(p, pc, 0);
}

// Between a value and itself it is a copy, of any type: pairs see through it.
void absorb_choice(Pass& p, uint32_t pc) {
  if (p.same_register(pc, 1, 2)) return p.become_copy(pc, p.operand(pc, 1), p.source(pc).type(0));
  const unsigned width = bits_of(p.source(pc).type(0));
  if (width != 32 && width != 64) return;
  const auto a = p.bits(pc, 1), b = p.bits(pc, 2);
  const Type type = bits_type(p.source(pc).type(0));
  if (p.source(pc).tokens[0] == "selp" && a && a == b) return p.become(pc, *a, type);
  const auto slot = chosen_slot(p, pc);
  const auto chosen = slot == 1u ? a : slot ? b : std::nullopt;
  if (chosen) p.become(pc, *chosen, type);
}

// Of 64 bits a field that has none, or unsigned and behind the end: it becomes shifts.
void absorb_field(Pass& p, uint32_t pc) {
  const Type type = p.source(pc).type();
  if (bits_of(type) != 64) return;
  const auto position = p.bits(pc, 2), length = p.bits(pc, 3);
  const bool is_behind = type == Type::u64 && position && (*position & 0xff) >= 64;
  if (is_behind || length == 0u) become_constant(p, pc, 0);
}

// No bits into a constant.
void absorb_insertion(Pass& p, uint32_t pc) {
  if (is_word(p.source(pc)) && p.bits(pc, 4) == 0u) become_constant(p, pc, p.bits(pc, 2));
}

void decide_comparison(Pass& p, uint32_t pc) {
  decide_by_width(p, pc);
  if (!p.has_replaced(pc)) decide_by_range(p, pc);
}

}  // namespace

std::span<const Rule> absorbing_rules() {
  static constexpr Rule kRules[] = {
      {"and", absorb_logic},       {"or", absorb_logic},        {"xor", absorb_logic},
      {"mul", absorb_product},     {"mad", absorb_product},     {"mul24", absorb_product},
      {"add", become_only_number}, {"sub", become_only_number}, {"max", become_only_number},
      {"min", become_only_number}, {"shl", absorb_shift},       {"shr", absorb_shift},
      {"shf", absorb_funnel},      {"slct", absorb_choice},     {"selp", absorb_choice},
      {"bfi", absorb_insertion},   {"bfe", absorb_field},       {"setp", decide_comparison},
      {"szext", absorb_extension}, {"mov", know_upper_word},
  };
  return kRules;
}

}  // namespace fp4lab::emu::peephole
