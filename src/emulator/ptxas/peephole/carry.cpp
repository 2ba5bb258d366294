// Carries that are known.
#include <optional>

#include "emulator/ptxas/halves.h"
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

// What leaves the carry that is read at pc, in the same block. Under a guard it may be another one.
std::optional<uint32_t> carry_maker(const Pass& p, uint32_t pc) {
  while (!p.source(pc).begins_block && pc-- > 0)
    if (p.source(pc).has("cc"))
      return p.f.code[pc].guard < 0 && !p.flow.is_dead(pc) ? std::optional(pc) : std::nullopt;
  return std::nullopt;
}

}  // namespace

// Behind the first sum or difference others may stand. Of a difference the carry is that of a + ~b + 1.
bool has_no_carry(const Pass& p, uint32_t pc) {
  const auto from = carry_maker(p, pc);
  if (!from || bits_of(p.source(*from).type()) != 32) return false;
  const std::string_view name = p.source(*from).tokens[0];
  const bool subtracts = name.starts_with("sub");
  const auto a = p.bits(*from, 1), b = p.bits(*from, 2);
  if ((!subtracts && !name.starts_with("add")) || !a || !b) return false;
  const bool is_first = !reads_carry(p.source(*from));
  if (!is_first && !has_no_carry(p, *from)) return false;
  const uint32_t second = uint32_t(subtracts ? ~*b : *b);
  return (uint64_t(uint32_t(*a)) + second + (subtracts && is_first)) >> 32 == 0;
}

namespace {

// The upper half of a product of 64 bits with a carry that is known to be 0: that 0 takes the place of the
// first operand, which takes that of the second, and so on. What is left is the second operand; the carry
// that it leaves is right.
void multiply_carry(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (!s.has("hi") || bits_of(s.type()) != 64 || !has_no_carry(p, pc)) return;
  if (s.has("cc")) {
    const Operand right = p.w.fresh(Type::b64);
    p.insert(pc, s.tokens, {right, p.operand(pc, 1), p.operand(pc, 2), p.operand(pc, 3)});
  }
  p.become_copy_of(pc, 2, Type::b64);
}

}  // namespace

std::span<const Rule> carry_rules() {
  static constexpr Rule kRules[] = {{"madc", multiply_carry}};
  return kRules;
}

}  // namespace fp4lab::emu::peephole
