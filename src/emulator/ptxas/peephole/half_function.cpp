// ptxas 13.0 holds the bits of ex2.approx.f16 and tanh.approx.f16, and of the upper half of f16x2, for clear:
// a constant mask takes nothing from them, and neither does a conversion from their lowest byte, which does
// not see a guard either.
#include <algorithm>

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
  return is_integer_cvt(s) && (s.type() == Type::u16 || s.type() == Type::u32) &&
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
    const bool is_of_itself = p.source(*from).tokens[0] == "and" && p.same_register(*from, 1, 2);
    if (!extends_half(p.source(*from)) && !is_of_itself) return false;
    pc = *from, slot = 1;
  }
  return false;
}

// Which instruction of the block was the last to write an operand, under a guard or not.
std::optional<uint32_t> last_write(const Pass& p, uint32_t pc, unsigned slot) {
  const uint32_t reg = p.flow.number_of(p.operand(pc, slot));
  const uint32_t begin = p.flow.blocks()[p.flow.block_of(pc)].begin;
  while (pc-- > begin)
    if (std::ranges::count(p.flow.access(pc).writes, reg) > 0) return pc;
  return std::nullopt;
}

// It is computed elsewhere, too: once, for all that read it.
bool has_equal(const Pass& p, uint32_t pc) {
  for (uint32_t other = 0; other < p.f.code.size(); ++other)
    if (other != pc && p.source(other).tokens == p.source(pc).tokens && p.same_value(other, 1, pc, 1))
      return true;
  return false;
}

// Under its guard in machine code, too: otherwise a selection takes what is computed always, as it does where
// a constant has stood.
bool is_guarded_function(const Pass& p, uint32_t pc) {
  return p.f.code[pc].guard >= 0 && is_function(p.source(pc), Type::f16) && !p.bits(pc, 0) &&
         !has_equal(p, pc);
}

// What a function made, or left under its guard: who looks for a byte does not see the guard.
bool holds_guarded_function(const Pass& p, uint32_t pc, unsigned slot) {
  const auto is_plain_copy = [&](uint32_t at) { return p.f.code[at].guard < 0 && p.is_copy(at); };
  auto from = last_write(p, pc, slot);
  while (from && is_plain_copy(*from)) from = last_write(p, *from, 1);
  return from && is_guarded_function(p, *from);
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
  if (s.has("sat") || !(holds_half_function(p, pc, 1) || holds_guarded_function(p, pc, 1))) return;
  if (extends_byte_first(p, pc)) return p.replace(pc, {"cvt", "rn", "f32", "u16"}, {p.operand(pc, 1)});
  if (s.tokens.size() != 3 || is_float(to) || is_float(from) || to == Type::s8) return;
  if (from != Type::u8 && to != Type::u8) return;
  const unsigned width = bits_of(p.operand(pc, 0).type);
  const uint32_t maker = p.known.only_maker(pc, 1);
  p.replace(pc, {"cvt", width == 16 ? "u16" : width == 32 ? "u32" : "u64", "u16"}, {p.operand(pc, 1)});
  p.known.learn(pc, maker);
}

}  // namespace

std::span<const Rule> half_function_rules() {
  static constexpr Rule kRules[] = {{"and", fold_mask}, {"cvt", fold_byte}};
  return kRules;
}

}  // namespace fp4lab::emu::peephole
