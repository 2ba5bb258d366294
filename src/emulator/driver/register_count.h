// CU_FUNC_ATTRIBUTE_NUM_REGS: programs divide by it. PTX has no register allocation, so this is an estimate.
#pragma once

#include <cstdint>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// Threads of a CTA that the kernel was compiled for at most; 1024 if it does not say.
uint32_t max_threads(const Function&);

// 32-bit registers that a thread of the kernel would need if every value stayed in one from the first line
// that names it to the last, through whole loops, and the deepest call besides; in eights, as hardware gives
// them out. At most what .maxnreg allows and lets the largest CTA run (with .minnctapersm so many of them),
// for no launch fails here for want of registers; the occupancy functions do not count them either.
uint32_t register_count(const Module&, const Function&);

}  // namespace fp4lab::emu
