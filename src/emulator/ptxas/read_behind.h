// Whether a register is read behind an instruction that writes it, by anything that is wanted.
#pragma once

#include "emulator/ptxas/dataflow.h"

namespace fp4lab::emu {

bool is_read_behind(const Function&, const Dataflow&, uint32_t pc, uint32_t reg);

}  // namespace fp4lab::emu
