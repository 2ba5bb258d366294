// Which 64-bit registers ptxas 13.0 keeps as halves, two 32-bit registers: the instructions that make or read
// one are asked, and the majority decides (observed).
#pragma once

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// How the machine code of an unguarded instruction makes a 64-bit result.
enum class Makes : uint8_t {
  whole,
  packed,  // as halves, which its end joins
  halves,
  loose,  // as halves, which each reader joins for itself
};
Makes makes(const Instr&, const Source&);
// What says that a result is an f64 says so of the register; copysign works on bits.
bool makes_f64(const Source&);

// A guarded instruction is a branch, or else a selection of halves between the old and the new.
bool is_branch_under_guard(const Source&);

// A sum, difference or product of a chain that is not its first.
bool reads_carry(const Source&);

// How an instruction reads a 64-bit register in one of its operands: how many times as a whole, less the
// times as halves. 0 for one that needs only one of the halves, or both as they are.
int reads_whole(const Instr&, const Source&, unsigned slot);
// Whether some of its machine code reads the operand as a whole, however many times it reads halves.
// `for_carry`: the carry alone is read.
bool joins_halves(const Instr&, const Source&, unsigned slot, bool for_carry);

}  // namespace fp4lab::emu
