// Two extremes of signed integers, of which the second takes the first, are one instruction of three
// operands (VIMNMX3), in which the second operand of the first extreme loses a change of sign.
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

bool is_extreme(const Source& s) {
  return (s.tokens[0] == "min" || s.tokens[0] == "max") && (s.type() == Type::s32 || s.type() == Type::s16);
}

// What made an operand, for this instruction alone and in its block.
std::optional<uint32_t> maker_of(Pass& p, uint32_t pc, unsigned slot) {
  const uint32_t from = p.known.maker(pc, slot);
  if (from >= pc || p.known.uses(from) != 1 || !p.known.is_in_block(from, pc)) return std::nullopt;
  return p.fences_before(pc) == p.fences_before(from) ? std::optional(from) : std::nullopt;
}

// max(x, 0) of an extreme: the slot of x. The extreme does it itself.
std::optional<unsigned> cut_at_zero(Pass& p, uint32_t pc) {
  if (p.source(pc).tokens[0] != "max") return std::nullopt;
  for (const unsigned slot : {1u, 2u}) {
    const auto zero = p.bits(pc, 3 - slot);
    const auto from = maker_of(p, pc, slot);
    if (zero && !static_cast<uint16_t>(*zero) && from && is_extreme(p.source(*from)) &&
        p.source(*from).type() == p.source(pc).type())
      return slot;
  }
  return std::nullopt;
}

struct Inner {
  uint32_t pc;
  unsigned slot;  // of its result in the extreme that takes it
};

bool takes_extreme(Pass& p, uint32_t pc);

// The extreme that another one takes. A sum that is an operand is taken instead.
std::optional<Inner> inner_extreme(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (cut_at_zero(p, pc) || p.same_register(pc, 1, 2)) return std::nullopt;
  for (const unsigned slot : {1u, 2u}) {
    auto from = maker_of(p, pc, slot);
    if (!from) continue;
    const std::string_view name = p.source(*from).tokens[0];
    if ((name == "add" || name == "sub") && s.type() == Type::s32 && p.source(*from).tokens.size() == 2 &&
        bits_of(p.source(*from).type()) == 32 && !is_float(p.source(*from).type()))
      return std::nullopt;
    if (!is_extreme(p.source(*from)) || p.source(*from).type() != s.type()) continue;
    bool is_cut = p.source(*from).has("relu");
    if (const auto of = cut_at_zero(p, *from)) from = maker_of(p, *from, *of), is_cut = true;
    const bool same =
        p.source(*from).tokens[0] == s.tokens[0] && (!is_cut || s.tokens[0] == "max" || s.has("relu"));
    if (same && p.f.code[*from].guard < 0 && !takes_extreme(p, *from)) return Inner{*from, slot};
  }
  return std::nullopt;
}

// Asked once for each, as a chain of them may be long.
bool takes_extreme(Pass& p, uint32_t pc) {
  if (const auto known = p.takes_extreme.find(pc); known != p.takes_extreme.end()) return known->second;
  return p.takes_extreme[pc] = inner_extreme(p, pc).has_value();
}

// What a change of sign read.
std::optional<std::pair<uint32_t, unsigned>> negated(const Pass& p, uint32_t pc, unsigned slot) {
  const auto is_it = [&](uint32_t from) {
    return bits_of(p.source(from).type()) == bits_of(p.source(pc).type());
  };
  if (const auto neg = p.open_maker(pc, slot, "neg"); neg && is_it(*neg) && !is_float(p.source(*neg).type()))
    return std::pair(*neg, 1u);
  if (const auto sub = p.open_maker(pc, slot, "sub");
      sub && is_it(*sub) && p.source(*sub).tokens.size() == 2 && p.bits(*sub, 1) == 0u)
    return std::pair(*sub, 2u);
  return std::nullopt;
}

bool is_bank(const Pass& p, uint32_t pc, unsigned slot) {
  const uint32_t from = p.known.maker(pc, slot);
  return p.bits(pc, slot) || (from != Dataflow::kNone && p.flow.is_in_bank(from));
}

void lose_sign(Pass& p, uint32_t pc) {
  if (!is_extreme(p.source(pc))) return;
  const auto inner = inner_extreme(p, pc);
  p.takes_extreme[pc] = inner.has_value();
  if (!inner) return;
  // Constants become the second operand, and leave their place to what stood there.
  if (is_bank(p, inner->pc, 1) || is_bank(p, pc, 3 - inner->slot)) return;
  const auto of = negated(p, inner->pc, 2);
  if (of) p.operand(inner->pc, 2) = p.kept(of->first, of->second);
}

}  // namespace

std::span<const Rule> three_way_rules() {
  static constexpr Rule kRules[] = {{"min", lose_sign}, {"max", lose_sign}};
  return kRules;
}

}  // namespace fp4lab::emu::peephole
