// Instructions that lowering adds to those of the text.
#pragma once

#include <string_view>
#include <vector>

#include "emulator/core/ir.h"
#include "emulator/isa/table.h"

namespace fp4lab::emu {

// Stands before the instruction at `pc`, under that one's guard. It writes a register that only that one
// reads: under a false guard nothing may have written what it is made of.
struct Insertion {
  uint32_t pc;
  std::vector<std::string_view> opcode;  // "add", "u32": their text lives on
  std::vector<Operand> operands;
};

// Binds an instruction to the body of the opcode that source.tokens spell. Returns the table's row.
const Entry* bind(const Table&, Instr&, const Source&);

// rows[pc] is the table's row of code[pc]. `insertions` are in the order of their pc. Labels follow to where
// their instructions have moved, before what stands there.
void insert(const Table&, Function&, std::vector<const Entry*>& rows,
            const std::vector<Insertion>& insertions);

}  // namespace fp4lab::emu
