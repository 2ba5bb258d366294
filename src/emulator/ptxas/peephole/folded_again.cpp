// Whether the compiler looks at all pairs of a function once more. It does so behind the expansion of some
// quotients and roots, where the first look made predicates of masks, and where what lies at a variable
// address of .const memory is compared with 0: what came of cnot and selp is a truth by then, whatever type
// reads it.
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"
#include "emulator/ptxas/routine.h"

namespace fp4lab::emu::peephole {

namespace {

bool is_expanded(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (!is_folded_behind(s)) return false;
  const auto constant = s.type() == Type::f32 ? p.bits(pc, 1) : std::nullopt;
  return !(constant && is_routine_inline(s, *constant));
}

// The negation, as a number, of what cnot or a selection between 1 and 0 has made for it alone.
bool negates_truth(const Pass& p, uint32_t pc, unsigned slot) {
  const auto neg = p.made_by(pc, slot, "neg");
  if (!neg || p.source(*neg).has("ftz") || name_of(p.source(*neg).type()).ends_with("x2")) return false;
  if (const auto cnot = p.made_by(*neg, 1, "cnot")) return p.known.uses(*cnot) == 1 && !p.bits(*cnot, 1);
  const auto selp = selected_truth(p, *neg, 1, 1);
  return selp && p.known.uses(*selp) == 1;
}

bool is_mask(const Pass& p, uint32_t pc, unsigned slot, unsigned bits) {
  if (const auto set = p.made_by(pc, slot, "set")) return makes_mask(p.source(*set)) && bits < 64;
  return selected_truth(p, pc, slot, ~uint64_t(0)) || negates_truth(p, pc, slot);
}

// Logic of a mask and another register, and not of a mask: a selection, or predicates.
bool becomes_selection(const Pass& p, uint32_t pc) {
  const std::string_view name = p.source(pc).tokens[0];
  const unsigned bits = bits_of(p.source(pc).type());
  if (bits < 16) return false;
  if (name == "not") return is_mask(p, pc, 1, bits);
  if ((name != "and" && name != "or" && name != "xor") || p.same_register(pc, 1, 2)) return false;
  if (p.bits(pc, 1) || p.bits(pc, 2)) return false;
  return is_mask(p, pc, 1, bits) || is_mask(p, pc, 2, bits);
}

// A truth that is compared with 0: its predicate.
bool becomes_predicate(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.tokens[0] != "setp" || is_float(s.type()) || p.bits(pc, 3) != 0u) return false;
  const bool equal = s.has("eq") || s.has("ne"), is_signed = name_of(s.type())[0] == 's';
  if ((equal || (s.has("gt") && is_signed)) && selected_truth(p, pc, 2, 1)) return true;
  if (!equal && !((s.has("lt") || s.has("ge")) && is_signed)) return false;
  const auto neg = p.made_by(pc, 2, "neg");
  return neg && is_float(p.source(*neg).type()) && negates_truth(p, pc, 2);
}

// A word of .const memory at a variable address.
bool is_indexed_bank(const Pass& p, uint32_t pc, unsigned slot, unsigned bits) {
  const auto load = p.made_by(pc, slot, "ld");
  if (!load || !p.source(*load).has("const") || p.flow.is_in_bank(*load)) return false;
  return bits < 64 || bits_of(p.source(*load).type()) == 64;
}

// Comparisons of one with 0 alone; slct asks that, too.
bool asks_indexed_bank(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.has("ftz")) return false;
  if (s.tokens[0] == "slct") return is_indexed_bank(p, pc, 3, 32);
  if (s.tokens[0] != "setp" || name_of(s.type()).ends_with("x2") || p.flow.is_dead(pc)) return false;
  for (const std::string_view combination : {"and", "or", "xor"})
    if (s.has(combination)) return false;
  const unsigned bits = bits_of(s.type());
  const uint64_t sign = is_float(s.type()) ? uint64_t(1) << (bits - 1) : 0;
  for (const unsigned slot : {2u, 3u}) {
    const auto zero = p.bits(pc, 5 - slot);
    if (zero && !(*zero & ~sign) && is_indexed_bank(p, pc, slot, bits)) return true;
  }
  return false;
}

// A selection by a comparison whose opposite the machine asks instead: eq, lt and le of two registers, in
// which it changes its operands. Of the second predicate the others.
bool is_asked_opposite(const Pass& p, uint32_t setp, uint32_t selp) {
  const Source& s = p.source(setp);
  if (s.tokens[0] != "setp" || name_of(s.type()).ends_with("x2")) return false;
  for (const std::string_view combination : {"and", "or", "xor"})
    if (s.has(combination)) return false;
  const bool is_swapped = p.bits(setp, 2).has_value() && !p.bits(setp, 3);
  const bool asks_order = is_swapped ? s.has("gt") || s.has("ge") || s.has("gtu") || s.has("geu")
                                     : s.has("lt") || s.has("le") || s.has("ltu") || s.has("leu");
  const bool is_second = p.operand(setp, 1) && p.operand(setp, 1).index == p.operand(selp, 3).index;
  return (asks_order || s.has("eq") || s.has("equ") || s.has("num")) != is_second;
}

}  // namespace

std::optional<uint32_t> selected_truth(const Pass& p, uint32_t pc, unsigned slot, uint64_t one) {
  const auto selp = p.made_by(pc, slot, "selp");
  const unsigned bits = selp ? bits_of(p.source(*selp).type()) : 64;
  if (bits > 32) return std::nullopt;
  const uint64_t truth = one & ((uint64_t(1) << bits) - 1);
  const auto a = p.bits(*selp, 1), b = p.bits(*selp, 2);
  const bool is_it = a && b && ((*a == truth && *b == 0) || (*a == 0 && *b == truth));
  if (!is_it) return std::nullopt;
  const uint32_t by = p.known.maker(*selp, 3);
  return by != Dataflow::kNone && by < *selp && is_asked_opposite(p, by, *selp) ? std::nullopt : selp;
}

bool Pass::is_folded_again() const {
  for (uint32_t pc = 0; !folded_again_ && pc < f.code.size(); ++pc)
    if (is_expanded(*this, pc) || becomes_selection(*this, pc) || becomes_predicate(*this, pc) ||
        asks_indexed_bank(*this, pc))
      folded_again_ = true;
  if (!folded_again_) folded_again_ = false;
  return *folded_again_;
}

}  // namespace fp4lab::emu::peephole
