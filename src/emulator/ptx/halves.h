// Which instructions ptxas 13.0 makes of 32-bit ones that work on the halves of 64-bit registers (observed).
#pragma once

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// Of an unguarded instruction: its result is made as halves.
bool makes_halves(const Source&);
// The same, and each reader joins them for itself.
bool makes_loose_halves(const Source&);

// A guarded instruction is a branch, or else a selection of halves between the old and the new.
bool is_branch_under_guard(const Source&);

// How it reads its 64-bit operands.
enum class Reads : uint8_t {
  whole,
  halves,
  parts,  // one of the halves, or both as they are: does not count
};
Reads reads(const Instr&, const Source&);

}  // namespace fp4lab::emu
