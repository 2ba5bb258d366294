// Control flow: where the lanes of a divergent branch meet again.
#pragma once

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// What an instruction does to control flow, by its mnemonic and operands.
struct Flow {
  bool falls_through = true;      // the next instruction may be executed
  bool leaves = false;            // the function may be left here
  bool abrupt = false;            // by a trap: nobody goes on
  std::vector<uint32_t> targets;  // branches
};
Flow flow_of(const Module&, const Function&, uint32_t pc);

// Sets Instr::reconverge of every branch to the first instruction of its immediate post-dominator.
void find_reconvergence(const Module&, Function&);

}  // namespace fp4lab::emu
