#include "emulator/ptxas/negative_constant.h"

#include <algorithm>
#include <optional>

#include "emulator/isa/wgmma_operands.h"

namespace fp4lab::emu {

namespace {

// Of one register is B of m16n8k8 alone.
bool has_lone_operand(const Source& s) {
  return s.tokens[0] == "mma" && s.has("m16n8k8") && (s.has("f16") || s.has("bf16"));
}

bool has_sign_of_a(const Source& s) { return s.tokens[0] == "wgmma" && s.has("mma_async"); }

bool is_negative_number(uint64_t bits) { return bits >> 31 & 1 && (bits & 0x7fffffff) <= 0x7f800000; }

// ptxas gathers the registers of A anew where one of them is a constant, and takes the sign along: as that of
// 32-bit integers, whatever A's elements are (ptxas 13.0; an H200 gives what follows).
void negate_words(Function& f, const Known& known, uint32_t pc) {
  const Operand& a = f.code[pc].op[1];
  if (a.kind != Operand::Kind::vector) return;
  Operand& sign = f.code[pc].op[wgmma_scale_a(f.source[pc].has("sp"))];
  if (sign.displacement != -1) return;
  for (uint32_t n = 0; n < a.count; ++n)
    if (known.bits_of_element(pc, a.index + n)) sign.displacement = kNegatedWords;
}

}  // namespace

bool may_mistake_constants(const Function& f) {
  return std::ranges::any_of(f.source,
                             [](const Source& s) { return has_lone_operand(s) || has_sign_of_a(s); });
}

void mistake_negative_constants(Rewriter& w, const Known& known) {
  Function& f = w.f;
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    if (has_sign_of_a(f.source[pc])) negate_words(f, known, pc);
    const Operand& b = f.code[pc].op[2];
    if (!has_lone_operand(f.source[pc]) || b.kind != Operand::Kind::vector || b.count != 1) continue;
    const std::optional<uint64_t> bits = known.bits_of_element(pc, b.index);
    if (bits && is_negative_number(*bits)) f.vectors[b.index] = w.constant(*bits ^ 0x8000);
  }
}

}  // namespace fp4lab::emu
