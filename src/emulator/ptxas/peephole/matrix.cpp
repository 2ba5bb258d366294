// Operands of matrix products.
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

// The machine's product of halves takes the sign of all of A, or of all of B: ptxas leaves to it what negates
// every register of the operand as an f32, though that would be the upper half's sign alone.
void negate_operand(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type of = s.type(1);
  if ((of != Type::f16 && of != Type::bf16) || s.has("m8n8k4")) return;
  for (const unsigned slot : {1u, 2u}) {
    const Operand& operand = p.operand(pc, slot);
    if (operand.kind != Operand::Kind::vector) continue;
    const auto negation = [&](uint32_t element) -> std::optional<uint32_t> {
      const uint32_t maker = p.known.maker_of_element(pc, element);
      if (maker == Dataflow::kNone || p.f.code[maker].guard >= 0) return std::nullopt;
      const auto from = p.is_copy(maker) ? p.made_by(maker, 1, "neg") : std::optional(maker);
      if (!from || p.source(*from).tokens[0] != "neg" || p.source(*from).type() != Type::f32 ||
          p.source(*from).has("ftz") || p.made_by(*from, 1, "abs") || p.made_by(*from, 1, "neg"))
        return std::nullopt;
      return from;
    };
    std::vector<uint32_t> negations;
    for (uint32_t n = 0; n < operand.count; ++n)
      if (const auto from = negation(operand.index + n)) negations.push_back(*from);
    if (negations.size() != operand.count) continue;
    for (uint32_t n = 0; n < operand.count; ++n) {
      const Operand negated = p.w.fresh(Type::b32);
      p.insert(pc, {"xor", "b32"}, {negated, p.kept(negations[n], 1), p.w.constant(0x80008000)});
      p.f.vectors[operand.index + n] = negated;
    }
  }
}

}  // namespace

std::span<const Rule> matrix_rules() {
  static constexpr Rule kRules[] = {{"mma", negate_operand}};
  return kRules;
}

}  // namespace fp4lab::emu::peephole
