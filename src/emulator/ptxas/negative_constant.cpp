#include "emulator/ptxas/negative_constant.h"

#include <algorithm>
#include <optional>

namespace fp4lab::emu {

namespace {

// Of one register is B of m16n8k8 alone.
bool has_lone_operand(const Source& s) {
  return s.tokens[0] == "mma" && s.has("m16n8k8") && (s.has("f16") || s.has("bf16"));
}

bool is_negative_number(uint64_t bits) { return bits >> 31 & 1 && (bits & 0x7fffffff) <= 0x7f800000; }

}  // namespace

bool may_mistake_constants(const Function& f) { return std::ranges::any_of(f.source, has_lone_operand); }

void mistake_negative_constants(Rewriter& w, const Known& known) {
  Function& f = w.f;
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    const Operand& b = f.code[pc].op[2];
    if (!has_lone_operand(f.source[pc]) || b.kind != Operand::Kind::vector || b.count != 1) continue;
    const std::optional<uint64_t> bits = known.bits_of_element(pc, b.index);
    if (bits && is_negative_number(*bits)) f.vectors[b.index] = w.constant(*bits ^ 0x8000);
  }
}

}  // namespace fp4lab::emu
