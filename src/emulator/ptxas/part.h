// What a mov takes a register apart into.
#pragma once

#include <cstdint>
#include <optional>

#include "emulator/core/ir.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

inline bool takes_apart(const Instr& i, const Source& s) {
  return s.tokens[0] == "mov" && i.op[0].kind == Operand::Kind::vector && is_value(i.op[1]);
}

// Which part of what such a mov reads is left in a register.
inline std::optional<uint32_t> nth_part(const Function& f, uint32_t unpacking, const Operand& reg) {
  if (!takes_apart(f.code[unpacking], f.source[unpacking])) return std::nullopt;
  const Operand& parts = f.code[unpacking].op[0];
  for (uint32_t n = 0; n < parts.count; ++n)
    if (const Operand& e = f.vectors[parts.index + n]; is_value(e) && e.offset == reg.offset) return n;
  return std::nullopt;
}

}  // namespace fp4lab::emu
