// The opcode table: one row says how an instruction is spelt, what operands it takes, where the manual
// describes it and who carries it out. Parser, dispatch, messages and the support page all derive from the
// rows in opcodes.def.
//
// A row:   OP(add_int, "add<.u16,.s16,.u32,.s32,.u64,.s64>", "d, a, b", "9.7.1.1", exact)
//   name      the binder `Body bind_add_int(Instr&, const Source&)`, defined in a file of op/ or engine/
//   spelling  the mnemonic and its modifiers: `.word` must be there, `<.a,.b>` exactly one of them, `{.a,.b}`
//   at most one operands  d destination register, d|p destination with optional predicate, p predicate, a
//   value, [m] address,
//             {v} vector or single value, L label, F function, I immediate, `?` behind an operand: may be
//             absent
//   section   of the PTX ISA manual
//   fidelity  exact: the hardware's bits by the manual; bounded: within the manual's error bound; modelled:
//   from one public source target    0 = any, 90 = needs sm_90a, 100 = needs sm_100a
#pragma once

#include <span>
#include <string_view>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

enum class Fidelity : uint8_t { exact, bounded, modelled };

using Binder = Body (*)(Instr&, const Source&);

struct Opcode {
  std::string_view name, spelling, operands, section;
  Fidelity fidelity;
  int target;
  Binder bind;
};

std::span<const Opcode> opcodes();

}  // namespace fp4lab::emu
