// Control flow: where the lanes of a divergent branch reconverge.
#pragma once

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// An instruction's effect on control flow, from its mnemonic and operands.
struct Flow {
  bool falls_through = true;      // the next instruction may be executed
  bool leaves = false;            // the function may end here
  bool abrupt = false;            // by a trap, after which no lane continues
  std::vector<uint32_t> targets;  // branches
};
Flow flow_of(const Module&, const Function&, uint32_t pc);

// Sets Instr::reconverge of every branch to the first instruction of its immediate post-dominator.
void find_reconvergence(const Module&, Function&);

}  // namespace fp4lab::emu
