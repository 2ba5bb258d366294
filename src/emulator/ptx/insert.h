// Instructions that lowering adds to the text's.
#pragma once

#include <string_view>
#include <vector>

#include "emulator/core/ir.h"
#include "emulator/isa/table.h"

namespace fp4lab::emu {

// Is inserted before the instruction at `pc`, under the same guard, and writes a register that only that
// instruction reads: under a false guard its sources may be unwritten.
struct Insertion {
  uint32_t pc;
  std::vector<std::string_view> opcode;  // "add", "u32": their text lives on
  std::vector<Operand> operands;
};

// Binds an instruction to the body of the opcode given by source.tokens. Returns the table's row.
const Entry* bind(const Table&, Instr&, const Source&);

// rows[pc] is the table's row of code[pc]. `insertions` are sorted by pc. Labels move with their instructions
// and point to what was inserted before them.
void insert(const Table&, Function&, std::vector<const Entry*>& rows,
            const std::vector<Insertion>& insertions);

}  // namespace fp4lab::emu
