// A product of f32 and then 2, 4, 8 or one part of as many: machine code has one instruction for both
// (FMUL.M2 to .D8), which rounds once. That shows where the product alone is subnormal or overflows. Which
// pairs become one was read off the machine code of ptxas 13.0: see tests/ptx/scaled_product.ptx.
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Whether there is such a constant at all.
bool may_scale_products(const Rewriter&);
// Behind contraction, which takes products first. Whether there were any; the rewriter has rebuilt then.
bool scale_products(Rewriter&, const Dataflow&);

}  // namespace fp4lab::emu
