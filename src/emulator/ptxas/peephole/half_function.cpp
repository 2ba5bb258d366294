// ptxas 13.0 holds the bits of ex2.approx.f16 and tanh.approx.f16, and of the upper half of f16x2, for clear:
// a constant mask takes nothing from them, and neither does a conversion from their lowest byte.
#include "emulator/ptxas/part.h"
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

bool is_function(const Source& s, Type type) {
  return (s.tokens[0] == "ex2" || s.tokens[0] == "tanh") && s.type() == type;
}

// Between registers of 16 and 32 bits, without a sign.
bool extends_half(const Source& s) {
  return s.tokens[0] == "cvt" && s.tokens.size() == 3 && (s.type() == Type::u16 || s.type() == Type::u32) &&
         (s.type(1) == Type::u16 || (s.type(1) == Type::u32 && s.type() == Type::u16));
}

bool holds_half_function(const Pass& p, uint32_t pc, unsigned slot) {
  constexpr unsigned kMostSteps = 16;
  for (unsigned step = 0; step < kMostSteps; ++step) {
    const Operand& read = p.operand(pc, slot);
    const auto from = p.behind_copies(pc, slot);
    if (!from || *from >= pc) return false;
    if (is_function(p.source(*from), Type::f16)) return true;
    if (nth_part(p.f, *from, read) == 1u && p.operand(*from, 0).count == 2) {
      const auto pair = p.behind_copies(*from, 1);
      return pair && is_function(p.source(*pair), Type::f16x2);
    }
    if (!extends_half(p.source(*from))) return false;
    pc = *from, slot = 1;
  }
  return false;
}

void fold_mask(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.type() != Type::b16 && s.type() != Type::b32) return;
  for (const unsigned slot : {1u, 2u})
    if (p.bits(pc, 3 - slot).value_or(0) != 0 && holds_half_function(p, pc, slot))
      return p.become_copy_of(pc, slot, s.type());
}

// The conversion reads a byte itself, but for one to f32 that rounds to nearest or to zero and alone reads
// what the function made.
bool extends_byte_first(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const auto from = p.behind_copies(pc, 1);
  return s.type() == Type::f32 && s.type(1) == Type::u8 && (s.has("rn") || s.has("rz")) && from &&
         is_function(p.source(*from), Type::f16) && p.known.uses(*from) == 1;
}

void fold_byte(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type to = s.type(), from = s.type(1);
  if (s.has("sat") || !holds_half_function(p, pc, 1)) return;
  if (extends_byte_first(p, pc)) return p.replace(pc, {"cvt", "rn", "f32", "u16"}, {p.operand(pc, 1)});
  if (s.tokens.size() != 3 || is_float(to) || is_float(from) || to == Type::s8) return;
  if (from != Type::u8 && to != Type::u8) return;
  const unsigned width = bits_of(p.operand(pc, 0).type);
  p.replace(pc, {"cvt", width == 16 ? "u16" : width == 32 ? "u32" : "u64", "u16"}, {p.operand(pc, 1)});
}

}  // namespace

std::span<const Rule> half_function_rules() {
  static constexpr Rule kRules[] = {{"and", fold_mask}, {"cvt", fold_byte}};
  return kRules;
}

}  // namespace fp4lab::emu::peephole
