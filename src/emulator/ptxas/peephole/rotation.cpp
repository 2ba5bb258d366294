// A sum of 64 bits of a value shifted to the left and of the same value shifted to the right by the rest of
// its bits is a rotation. ptxas takes a difference for it too, and shr.s64 for shr.u64.
#include <algorithm>

#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

// A shift by a constant that made an operand, in any block.
struct Shift {
  uint32_t pc;
  uint64_t amount;
};

std::optional<Shift> shift_behind(const Pass& p, uint32_t pc, unsigned slot, std::string_view mnemonic) {
  const auto shift = p.made_by(pc, slot, mnemonic);
  if (!shift || bits_of(p.source(*shift).type()) != 64) return std::nullopt;
  const auto amount = p.bits(*shift, 2);
  return amount ? std::optional(Shift{*shift, *amount & 0xffffffff}) : std::nullopt;
}

// Whether both shift the same value, which may have met another one before them (then they stand close
// together).
bool shift_the_same(const Pass& p, uint32_t left, uint32_t right) {
  if (p.same_value(left, 1, right, 1)) return true;
  constexpr uint32_t kClose = 32;
  const auto [first, last] = std::minmax(left, right);
  const Operand &a = p.operand(left, 1), &b = p.operand(right, 1);
  if (!is_value(a) || !is_value(b) || a.immediate || a.offset != b.offset) return false;
  if (last - first > kClose || p.flow.block_of(first) != p.flow.block_of(last)) return false;
  const uint32_t reg = p.flow.number_of(a);
  for (uint32_t pc = first; pc < last; ++pc)
    if (std::ranges::find(p.flow.access(pc).writes, reg) != p.flow.access(pc).writes.end()) return false;
  return true;
}

void rotate(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.tokens.size() != 2 || is_float(s.type()) || bits_of(s.type()) != 64) return;
  for (const unsigned slot : {1u, 2u}) {
    const auto left = shift_behind(p, pc, slot, "shl"), right = shift_behind(p, pc, 3 - slot, "shr");
    if (!left || !right || left->amount == 0 || left->amount > 63 || left->amount + right->amount != 64)
      continue;
    if (!shift_the_same(p, left->pc, right->pc)) continue;
    const Operand value = p.kept(left->pc, 1), high = p.w.fresh(Type::b64), low = p.w.fresh(Type::b64);
    p.insert(pc, {"shl", "b64"}, {high, value, p.w.constant(left->amount)});
    p.insert(pc, {"shr", "u64"}, {low, value, p.w.constant(right->amount)});
    return p.replace(pc, {"or", "b64"}, {high, low});
  }
}

}  // namespace

std::span<const Rule> rotation_rules() {
  static constexpr Rule kRules[] = {{"add", rotate}, {"sub", rotate}};
  return kRules;
}

}  // namespace fp4lab::emu::peephole
