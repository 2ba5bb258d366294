// An instruction of the table: see isa/opcode.h, which says what the texts mean.
#pragma once

#include <string_view>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

enum class Fidelity : uint8_t { exact, measured, modelled };

using Binder = Body (*)(Instr&, const Source&);

struct Opcode {
  std::string_view name, spelling, operands, section;
  Fidelity fidelity;
  int target;
  Binder bind;
};

}  // namespace fp4lab::emu
