// Logic of 64 bits of which each half is a constant, whatever register it is made of: or with
// 0x7fffffffffffffff of 32 bits that were loaded into 64 gives that. ptxas works on halves, and takes it for
// a constant before it looks at pairs.
#include "emulator/ptxas/part.h"
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

std::optional<uint32_t> half_of_logic(const Pass&, uint32_t pc, bool upper, unsigned depth);

// 32 bits of an operand of 64 bits, where they are the same whatever a register holds: what extends 32 bits
// or fewer, packs, shifts and logic show it.
std::optional<uint32_t> known_half(const Pass& p, uint32_t pc, unsigned slot, bool upper,
                                   unsigned depth = 0) {
  constexpr unsigned kDeepest = 8;
  if (const auto bits = p.bits(pc, slot)) return static_cast<uint32_t>(upper ? *bits >> 32 : *bits);
  const auto from = depth < kDeepest ? p.behind_copies(pc, slot, "mov") : std::nullopt;
  if (!from) return std::nullopt;
  const Source& s = p.source(*from);
  const std::string_view name = s.tokens[0];
  if (name != "ld" && !is_value(p.operand(*from, 0))) return std::nullopt;
  const Operand& first = p.operand(*from, 1);
  if (name == "mov") {
    if (is_value(first)) return known_half(p, *from, 1, upper, depth + 1);
    const bool is_pack = first.kind == Operand::Kind::vector && first.count == 2;
    const auto bits = is_pack ? p.known.bits_of_element(*from, first.index + upper) : std::nullopt;
    return bits ? std::optional(static_cast<uint32_t>(*bits)) : std::nullopt;
  }
  if (name == "ld" || name == "cvt") {
    // What has fewer bits than the register is extended as its own type has it.
    const bool is_of_floats = name == "cvt" && (is_float(s.type(0)) || is_float(s.type(1)));
    const Type type = name == "cvt" && bits_of(s.type(0)) == 64 ? s.type(1) : s.type(0);
    const bool is_wide = bits_of(type) == 64 || s.has("sat") || is_of_floats;
    return upper && !is_wide && name_of(type)[0] != 's' ? std::optional(0u) : std::nullopt;
  }
  if (name == "shl" || (name == "shr" && s.type() != Type::s64)) {
    const auto amount = p.bits(*from, 2);
    return amount && (*amount & 0xffffffff) >= 32 && upper == (name == "shr") ? std::optional(0u)
                                                                              : std::nullopt;
  }
  if (name != "and" && name != "or" && name != "xor") return std::nullopt;
  return half_of_logic(p, *from, upper, depth + 1);
}

// Of what and, or and xor make.
std::optional<uint32_t> half_of_logic(const Pass& p, uint32_t pc, bool upper, unsigned depth) {
  const std::string_view name = p.source(pc).tokens[0];
  const auto a = known_half(p, pc, 1, upper, depth), b = known_half(p, pc, 2, upper, depth);
  const uint32_t absorbing = name == "or" ? ~0u : 0;
  if (name != "xor" && (a == absorbing || b == absorbing)) return absorbing;
  if (!a || !b) return std::nullopt;
  return name == "and" ? *a & *b : name == "or" ? *a | *b : *a ^ *b;
}

}  // namespace

std::optional<uint64_t> known_halves(const Pass& p, uint32_t pc) {
  const auto lower = half_of_logic(p, pc, false, 0), upper = half_of_logic(p, pc, true, 0);
  return lower && upper ? std::optional(uint64_t(*upper) << 32 | *lower) : std::nullopt;
}

// The upper word of a register that was extended without a sign is 0 where it is taken apart.
void know_upper_word(Pass& p, uint32_t pc) {
  const Operand& parts = p.operand(pc, 0);
  if (!takes_apart(p.f.code[pc], p.source(pc)) || parts.count != 2 || bits_of(p.source(pc).type()) != 64)
    return;
  Operand& upper = p.f.vectors[parts.index + 1];
  const auto bits = is_value(upper) ? known_half(p, pc, 1, true) : std::nullopt;
  if (!bits) return;
  p.insert(pc, {"mov", "b32"}, {upper, p.w.constant(*bits)});
  upper = {};
  upper.kind = Operand::Kind::sink;
}

}  // namespace fp4lab::emu::peephole
