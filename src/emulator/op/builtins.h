// The functions of CUDA's device runtime that a kernel may call without defining them.
#pragma once

#include "emulator/core/ir.h"

namespace fp4lab::emu {

class Warp;

// Executes a call of `callee`, which has no body (Function::external), for the active lanes. Arguments are in
// each lane's param space, at the callee's places.
void call_builtin(Warp&, const Instr&, const Function& callee);

}  // namespace fp4lab::emu
