// Packs of two halves.
#include <algorithm>

#include "emulator/ptxas/part.h"
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/range.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

// The square of a pack in an fma: where one half is -0 and the other not negative, or a constant below 0
// beside a value, that half's product has the wrong sign.
void fold_square(Pass& p, uint32_t pc) {
  const Type type = p.source(pc).type();
  if (type != Type::f16x2 && type != Type::bf16x2) return;
  uint32_t wrong = 0;
  if (const auto x = p.bits(pc, 1)) {
    if (x != p.bits(pc, 2)) return;
    const bool low = (*x & 0x8000ffff) == 0x8000, high = (*x & 0xffff8000) == 0x80000000;
    wrong = low ? 0x8000 : high ? 0x80000000 : 0;
  } else if (const auto from = p.made_by(pc, 1, "mov"); from && p.same_register(pc, 1, 2)) {
    const Operand& pack = p.operand(*from, 1);
    if (pack.kind != Operand::Kind::vector || pack.count != 2) return;
    const auto low = p.known.bits_of_element(*from, pack.index),
               high = p.known.bits_of_element(*from, pack.index + 1);
    if (bool(low) == bool(high)) return;
    wrong = low ? *low & 0x8000 : (*high & 0x8000) << 16;
  }
  if (!wrong) return;
  const Operand other = p.w.fresh(Type::b32);
  p.insert(pc, {"xor", "b32"}, {other, p.operand(pc, 1), p.w.constant(wrong)});
  p.operand(pc, 1) = other;
}

bool is_sign_of_pack(const Source& s) {
  return (s.tokens[0] == "neg" || s.tokens[0] == "abs") && s.type() == Type::f16x2 && !s.has("ftz");
}

// Did one instruction make both halves, or are they the same or partly constant? What changes their sign does
// not matter, nor do functions that the machine has for one half only.
bool is_made_at_once(const Pass& p, uint32_t pc, unsigned slot) {
  auto from = p.behind_copies(pc, slot);
  while (from && is_sign_of_pack(p.source(*from))) from = p.behind_copies(*from, 1);
  if (!from) return false;
  const Source& s = p.source(*from);
  if (s.tokens[0] != "mov")
    return s.tokens[0] != "ex2" && s.tokens[0] != "tanh" &&
           std::ranges::any_of(s.tokens, [](std::string_view t) { return t.ends_with("16x2"); });
  const Operand& pack = p.operand(*from, 1);
  if (pack.kind != Operand::Kind::vector || pack.count != 2) return false;
  const Operand &low = p.f.vectors[pack.index], &high = p.f.vectors[pack.index + 1];
  const auto is_constant = [&](uint32_t n) {
    return p.known.bits_of_element(*from, pack.index + n).has_value();
  };
  return (is_value(low) && is_value(high) && low.offset == high.offset) || is_constant(0) || is_constant(1);
}

std::optional<uint32_t> sign_of_pack(const Pass& p, uint32_t pc, unsigned slot) {
  for (const std::string_view name : {"neg", "abs"})
    if (const auto sign = p.open_maker(pc, slot, name); sign && is_sign_of_pack(p.source(*sign))) return sign;
  return std::nullopt;
}

// The extreme of absolute values of two negated or absolute packs of f16, or of one and itself: the first is
// the pack as it was, with its own sign, where the halves of the second come from different instructions.
void fold_signed_extreme(Pass& p, uint32_t pc) {
  if (p.source(pc).type() != Type::f16x2 || !p.source(pc).has("xorsign")) return;
  auto first = sign_of_pack(p, pc, 1);
  const auto second = sign_of_pack(p, pc, 2);
  if (!first || !second || is_made_at_once(p, *second, 1)) return;
  constexpr unsigned kMostSigns = 8;
  for (unsigned signs = 1; signs < kMostSigns && !p.same_register(pc, 1, 2); ++signs) {
    const auto inner = sign_of_pack(p, *first, 1);
    if (!inner) break;
    first = inner;
  }
  p.operand(pc, 1) = p.kept(*first, 1);
}

// The range as f32 of the register that one half, or a pair of them, is taken out of.
std::optional<Range> range_around(const Pass& p, uint32_t pc) {
  if (p.bits(pc, 1)) return std::nullopt;
  if (bits_of(p.source(pc).type()) == 32) return range_of(p, pc, 1);
  const auto half = half_behind_packs(p.f, p.known, pc, 0);
  return half ? range_made_by(p, half->maker) : std::nullopt;
}

// Where the value stands whose sign abs drops: behind a negation, but for one of bf16x2.
uint32_t behind_negation(const Pass& p, uint32_t absolute) {
  const Type type = p.source(absolute).type();
  const auto negation = type == Type::bf16x2 ? std::nullopt : p.open_maker(absolute, 1, "neg");
  const bool is_same = negation && p.source(*negation).type() == type && !p.source(*negation).has("ftz");
  return is_same ? *negation : absolute;
}

// What is no less than 0 as f32 has no sign to the compiler, also where it is taken for two halves, or one is
// taken out of it: the lower one keeps its own.
void fold_absolute(Pass& p, uint32_t pc) {
  const Type type = p.source(pc).type();
  const bool is_bf16 = type == Type::bf16 || type == Type::bf16x2;
  if (!is_bf16 && type != Type::f16x2 && type != Type::f16 && type != Type::s16) return;
  const uint32_t at = behind_negation(p, pc);
  const auto range = range_around(p, at);
  if (!range || range->least < 0) return;
  const bool ftz = p.source(pc).has("ftz");
  const Operand value = at == pc ? p.operand(pc, 1) : p.kept(at, 1);
  if (!is_bf16 && !ftz) {
    p.dropped_absolutes.insert(pc);
    return p.become_copy(pc, value, bits_type(type));
  }
  const auto of_each = [&](uint64_t half) {
    return p.w.constant(bits_of(type) == 32 ? half << 16 | half : half, bits_type(type));
  };
  const Operand minus_zero = of_each(0x8000);
  if (ftz)
    p.replace(pc, {"fma", "rn", "ftz", name_of(type)}, {value, of_each(0x3c00), minus_zero});
  else
    p.replace(pc, {"fma", "rn", name_of(type)}, {minus_zero, of_each(0), value});
}

// A negation of such an absolute value has taken the sign away itself.
void keep_absolute(Pass& p, uint32_t pc) {
  const uint32_t absolute = p.known.maker(pc, 1);
  if (!p.dropped_absolutes.contains(absolute)) return;
  const Operand kept = p.w.fresh(p.operand(pc, 1).type);
  p.insert(absolute, {"abs", name_of(p.source(pc).type())}, {kept, p.operand(absolute, 1)});
  p.operand(pc, 1) = kept;
}

// What a pack of two registers of 64 bits is taken apart into are copies of these.
void fold_wide_unpacking(Pass& p, uint32_t pc) {
  const Operand parts = p.operand(pc, 0);
  if (p.source(pc).type() != Type::b128 || parts.kind != Operand::Kind::vector || p.f.code[pc].guard >= 0)
    return;
  const auto from = p.behind_copies(pc, 1);
  if (!from || p.source(*from).tokens[0] != "mov") return;
  const Operand pack = p.operand(*from, 1);
  if (pack.kind != Operand::Kind::vector || pack.count != parts.count) return;
  for (uint32_t n = 0; n < parts.count; ++n) {
    const Operand part = p.f.vectors[parts.index + n];
    if (!is_value(part)) continue;
    const Operand held = p.w.fresh(Type::b64);
    p.insert(*from, {"mov", "b64"}, {held, p.f.vectors[pack.index + n]});
    p.insert(pc, {"mov", "b64"}, {part, held});
  }
  p.w.remove(pc);
}

// Who took a register of 64 bits apart, of which an element of a pack is the nth half.
std::optional<uint32_t> unpacking_behind(const Pass& p, uint32_t pc, uint32_t nth) {
  constexpr unsigned kMostCopies = 256;  // see behind_copies
  const Operand* half = &p.f.vectors[p.operand(pc, 1).index + nth];
  uint32_t maker = p.known.maker_of_element(pc, p.operand(pc, 1).index + nth);
  for (unsigned copies = 0; copies < kMostCopies && maker != Dataflow::kNone && maker < pc; ++copies) {
    if (!p.is_copy(maker)) return nth_part(p.f, maker, *half) == nth ? std::optional(maker) : std::nullopt;
    pc = maker;
    half = &p.operand(pc, 1);
    maker = p.known.maker(pc, 1);
  }
  return std::nullopt;
}

// A pack of the two halves of a register is a copy of it. (Of four quarters it is none, observed.)
void fold_repacking(Pass& p, uint32_t pc) {
  const Operand& pack = p.operand(pc, 1);
  if (pack.kind != Operand::Kind::vector || pack.count != 2 || bits_of(p.source(pc).type()) != 64) return;
  const auto low = unpacking_behind(p, pc, 0), high = unpacking_behind(p, pc, 1);
  if (!low || !high || p.operand(*low, 0).count != 2 || p.operand(*high, 0).count != 2) return;
  if (*low != *high && !p.same_value(*low, 1, *high, 1)) return;
  p.become_copy(pc, p.kept(*low, 1), Type::b64);
}

}  // namespace

std::span<const Rule> pack_rules() {
  static constexpr Rule kRules[] = {
      {"neg", keep_absolute},       {"abs", fold_absolute},  {"fma", fold_square},
      {"mov", fold_wide_unpacking}, {"mov", fold_repacking}, {"min", fold_signed_extreme},
      {"max", fold_signed_extreme},
  };
  return kRules;
}

}  // namespace fp4lab::emu::peephole
