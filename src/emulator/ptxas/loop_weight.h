// How large a loop is in the eyes of ptxas 13.0, which unrolls small ones by four: its own instructions
// count, not PTX's. Weights and limits were measured, by loops that are as large as they may be (sm_90a): of
// 1280 loops of random programs the sum says for 1254 whether they are unrolled.
#pragma once

#include "emulator/ptxas/dataflow.h"

namespace fp4lab::emu {

// Of one instruction.
uint32_t machine_weight(const Instr&, const Source&);

// Whether the instructions [begin, end) of a loop are few enough to be unrolled by four.
bool is_light_loop(const Function&, const Dataflow&, uint32_t begin, uint32_t end);

}  // namespace fp4lab::emu
