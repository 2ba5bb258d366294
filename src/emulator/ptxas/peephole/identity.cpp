// Integer instructions that give back an operand: copies, through which pairs are seen and of which the order
// of f64 operands asks who made and who reads them. (Not and.b16, which stays.) Those of 64 bits that are a
// constant whatever one of their operands is, too; of 32 bits they are constants before other rules ask
// (absorbing.cpp). Sums of 64 bits that read what another one has read. Extremes of one part of a register
// and itself.
#include <algorithm>
#include <bit>

#include "emulator/ptxas/behind_copies.h"
#include "emulator/ptxas/part.h"
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

bool is_of_64_bits(const Source& s) {
  const Type type = s.type();
  return s.tokens.size() == 2 && (type == Type::s64 || type == Type::u64 || type == Type::b64);
}

bool is_of_integers(const Source& s) {
  const Type type = s.type();
  return s.tokens.size() == 2 &&
         (is_of_64_bits(s) || type == Type::s32 || type == Type::u32 || type == Type::b32 ||
          type == Type::s16 || type == Type::u16 || (type == Type::b16 && s.tokens[0] != "and"));
}

// By a constant that changes nothing.
void fold_neutral(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (!is_of_integers(s)) return;
  const std::string_view name = s.tokens[0];
  const uint64_t neutral = name == "and" ? ~uint64_t(0) >> (64 - bits_of(s.type())) : 0;
  const bool changes_places = name != "sub" && name != "shl" && name != "shr";
  for (const unsigned slot : {2u, 1u})
    if ((slot == 2 || changes_places) && p.bits(pc, slot) == neutral)
      return p.become_copy_of(pc, 3 - slot, s.type());
}

// What made an operand, also as one of two halves that were packed and taken apart again.
std::optional<uint32_t> maker_behind_pack(const Pass& p, uint32_t pc, unsigned slot) {
  const auto from = p.behind_copies(pc, slot);
  if (!from || !takes_apart(p.f.code[*from], p.source(*from))) return from;
  const auto part = nth_part(p.f, *from, p.operand(pc, slot));
  const auto pack = part ? p.behind_copies(*from, 1, "mov") : std::nullopt;
  if (!pack || !is_vector(p.operand(*pack, 1)) || p.operand(*pack, 1).count != p.operand(*from, 0).count)
    return std::nullopt;
  const uint32_t maker = p.known.maker_of_element(*pack, p.operand(*pack, 1).index + *part);
  return maker == Dataflow::kNone ? std::nullopt : std::optional(maker);
}

// How many lower bits a register has, for as much as is seen of the instruction that made it alone: less than
// what decides comparisons (width.cpp), which follows operands, sums and logic.
unsigned width_of_result(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const std::string_view name = s.tokens[0];
  const unsigned bits = bits_of(s.type());
  const auto width = [&](unsigned slot) {
    const auto constant = p.bits(pc, slot);
    return constant ? static_cast<unsigned>(std::bit_width(*constant)) : bits;
  };
  if (is_float(s.type())) return 32;
  if (name == "ld") return name_of(s.type())[0] == 's' || bits > 16 ? 32 : bits;
  if (name == "cvt" && is_integer(s.type(1)) && name_of(s.type(1))[0] != 's' && s.tokens.size() == 3)
    return std::min(bits_of(s.type(1)), 32u);
  if (bits != 32 || is_vector(p.operand(pc, 0))) return 32;
  if (name == "selp") return std::max(width(1), width(2));
  if (name_of(s.type())[0] == 's') return 32;
  if (name == "and" || name == "min") return std::min(width(1), width(2));
  if (name == "bfe" && p.bits(pc, 2) && p.bits(pc, 3)) return static_cast<unsigned>(*p.bits(pc, 3) & 0xff);
  const auto places = name == "shr" ? p.bits(pc, 2) : std::nullopt;
  return places && *places < bits ? bits - static_cast<unsigned>(*places) : bits;
}

// A mask of all the bits that its operand may have.
void fold_covering_mask(Pass& p, uint32_t pc) {
  if (p.source(pc).type() != Type::b32) return;
  for (const unsigned slot : {1u, 2u}) {
    const auto mask = p.bits(pc, 3 - slot);
    const auto from = mask && !p.bits(pc, slot) ? maker_behind_pack(p, pc, slot) : std::nullopt;
    const unsigned width = from ? width_of_result(p, *from) : 32;
    if (width < 32 && !(~*mask & ((uint64_t(1) << width) - 1))) return p.become_copy_of(pc, slot, Type::b32);
  }
}

struct MovedValue {
  unsigned slot;  // of the value
  int64_t by;
};
// What a sum with a constant, or a difference from one, is made of.
std::optional<MovedValue> moved_value(const Pass& p, uint32_t pc) {
  const bool is_difference = p.source(pc).tokens[0] == "sub";
  for (const unsigned slot : {2u, 1u}) {
    if (is_difference && slot == 1) break;
    if (const auto bits = p.bits(pc, slot))
      return MovedValue{3 - slot, static_cast<int64_t>(is_difference ? 0 - *bits : *bits)};
  }
  return std::nullopt;
}

// Of a sum whose constant has 32 bits with their sign: both constants at once.
void fold_sum_of_sum(Pass& p, uint32_t pc) {
  if (!is_of_64_bits(p.source(pc))) return;
  const auto outer = moved_value(p, pc);
  if (!outer || p.bits(pc, outer->slot)) return;
  for (const std::string_view name : {"add", "sub"}) {
    const auto from = p.open_maker(pc, outer->slot, name);
    if (!from || bits_of(p.source(*from).type()) != 64 || is_float(p.source(*from).type())) continue;
    const auto inner = moved_value(p, *from);
    if (!inner || inner->by != static_cast<int32_t>(inner->by)) return;
    const auto by = static_cast<uint64_t>(inner->by) + static_cast<uint64_t>(outer->by);
    return p.replace(pc, {"add", "s64"}, {p.kept(*from, inner->slot), p.w.constant(by, Type::b64)});
  }
}

// By 1. One of 16 or 64 bits stays.
void fold_product(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.tokens.size() != 3 || !s.has("lo") || bits_of(s.type()) != 32) return;
  for (const unsigned slot : {2u, 1u})
    if (p.bits(pc, slot) == uint64_t(1)) return p.become_copy_of(pc, 3 - slot, s.type());
}

// By a constant that leaves nothing of the other operand. shr.s64 is computed.
void fold_absorbing(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const std::string_view name = s.tokens[0];
  if (bits_of(s.type()) != 64 || is_float(s.type()) || s.has("wide") || s.has("cc")) return;
  const bool shifts = name == "shl" || name == "shr", extracts = name == "bfe";
  const uint64_t absorbing = name == "or" ? ~uint64_t(0) : 0;
  if (shifts || extracts) {
    const auto amount = p.bits(pc, shifts ? 2 : 3);
    const bool leaves_nothing = amount && (shifts ? (*amount & 0xffffffff) > 63 : *amount == 0);
    if (leaves_nothing && (extracts || s.type() != Type::s64)) p.become(pc, 0, s.type());
  } else if (p.bits(pc, 1) == absorbing || p.bits(pc, 2) == absorbing) {
    p.become(pc, absorbing, s.type());
  }
}

// No bits into a value, some behind its end, or all of them; and a field of all bits.
void fold_insertion(Pass& p, uint32_t pc) {
  if (!is_of_64_bits(p.source(pc))) return;
  const auto position = p.bits(pc, 3), length = p.bits(pc, 4);
  if (length == 0u || position.value_or(0) >= 64)
    p.become_copy_of(pc, 2, Type::b64);
  else if (position == 0u && length.value_or(0) >= 64)
    p.become_copy_of(pc, 1, Type::b64);
}

void fold_extraction(Pass& p, uint32_t pc) {
  if (is_of_64_bits(p.source(pc)) && p.bits(pc, 2) == 0u && p.bits(pc, 3).value_or(0) >= 64)
    p.become_copy_of(pc, 1, Type::b64);
}

// Of a value and itself. Logic of 64 bits of one register has voices still (value_uses.cpp).
void fold_same(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (!is_of_integers(s)) return;
  if (!p.same_operands(pc, 1, 2)) {
    if (s.tokens[0] != "min" && s.tokens[0] != "max") fold_neutral(p, pc);
    return;
  }
  if (s.tokens[0] == "xor") return p.become(pc, 0, s.type());
  if (!is_logic_of_itself(p.f.code[pc], s)) p.become_copy_of(pc, 1, s.type());
}

// One register taken apart twice gives the same parts, of which the extreme is a move.
bool is_same_part(const Pass& p, uint32_t pc) {
  const uint32_t a = p.known.maker(pc, 1), b = p.known.maker(pc, 2);
  if (a == b || a == Dataflow::kNone || b == Dataflow::kNone || !p.same_value(a, 1, b, 1)) return false;
  const auto of_a = nth_part(p.f, a, p.operand(pc, 1));
  return of_a && of_a == nth_part(p.f, b, p.operand(pc, 2)) && p.operand(a, 0).count == p.operand(b, 0).count;
}

void fold_same_part(Pass& p, uint32_t pc) {
  const Type type = p.source(pc).type();
  if (p.source(pc).tokens.size() == 2 && (type == Type::f32 || type == Type::f16) && is_same_part(p, pc))
    p.become_copy_of(pc, 1, type);
}

}  // namespace

std::span<const Rule> identity_rules() {
  static constexpr Rule kRules[] = {
      {"and", fold_same},       {"or", fold_same},           {"xor", fold_same},
      {"min", fold_same},       {"max", fold_same},          {"min", fold_same_part},
      {"max", fold_same_part},  {"add", fold_neutral},       {"sub", fold_neutral},
      {"shl", fold_neutral},    {"shr", fold_neutral},       {"bfi", fold_insertion},
      {"and", fold_absorbing},  {"or", fold_absorbing},      {"mul", fold_absorbing},
      {"mul", fold_product},    {"shl", fold_absorbing},     {"shr", fold_absorbing},
      {"bfe", fold_absorbing},  {"bfe", fold_extraction},    {"add", fold_sum_of_sum},
      {"sub", fold_sum_of_sum}, {"and", fold_covering_mask},
  };
  return kRules;
}

}  // namespace fp4lab::emu::peephole
