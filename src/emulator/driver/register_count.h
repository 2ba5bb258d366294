// CU_FUNC_ATTRIBUTE_NUM_REGS, by which programs divide. PTX has no register allocation, so this is an
// estimate.
#pragma once

#include <cstdint>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// The most threads of a CTA that the kernel was compiled for; 1024 if unspecified.
uint32_t max_threads(const Function&);

// 32-bit registers of a thread if every value were live from the first line that names it to the last,
// through whole loops, plus the deepest call; rounded up to a multiple of 8, as hardware allocates them.
// Limited by .maxnreg and by the largest CTA (with .minnctapersm by that many CTAs), since no launch fails
// here for lack of registers, and the occupancy functions do not count them either.
uint32_t register_count(const Module&, const Function&);

}  // namespace fp4lab::emu
