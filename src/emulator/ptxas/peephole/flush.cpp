// What `set` with .ftz made of two f32 as an integer is compared with 0 by the floats' comparison itself,
// which then lacks the .ftz.
#include <algorithm>

#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

bool flushes(const Source& s) {
  return s.has("ftz") && (s.type() == Type::u32 || s.type() == Type::s32) && s.type(1) == Type::f32;
}

// The same truth without .ftz, for an operand that is one, as it is or with another sign.
std::optional<Operand> unflushed(Pass& p, uint32_t pc, unsigned slot) {
  auto set = p.open_maker(pc, slot, "set");
  for (const std::string_view sign : {"neg", "abs"})
    if (const auto from = p.made_by(pc, slot, sign); from && p.source(*from).type() == Type::s32)
      set = p.open_maker(*from, 1, "set");
  if (!set || !flushes(p.source(*set))) return std::nullopt;
  Rewriter::Tokens tokens = p.source(*set).tokens;
  std::erase(tokens, "ftz");
  const Operand truth = p.w.fresh(Type::b32);
  std::vector<Operand> operands{truth};
  for (unsigned n = 1; n < kMaxOperands && p.operand(*set, n); ++n) operands.push_back(p.operand(*set, n));
  p.insert(*set, std::move(tokens), std::move(operands));
  return truth;
}

void compare(Pass& p, uint32_t pc, unsigned slot) {
  if (const auto truth = unflushed(p, pc, slot)) p.operand(pc, slot) = *truth;
}

void compare_equal(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const bool plain =
      s.tokens.size() == 3 && !p.operand(pc, 1) && !is_float(s.type()) && bits_of(s.type()) == 32;
  if (!plain || (s.tokens[1] != "eq" && s.tokens[1] != "ne")) return;
  for (const unsigned slot : {2u, 3u})
    if (p.bits(pc, 5 - slot) == 0u) return compare(p, pc, slot);
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
  const auto truth = unflushed(p, pc, 3);
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
      {"setp", compare_equal},
      {"cnot", negate},
      {"fns", find_set_bit},
  };
  return kRules;
}

}  // namespace fp4lab::emu::peephole
