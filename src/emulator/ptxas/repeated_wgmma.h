// wgmma.mma_async that repeats one before it between the same fence and commit: ptxas 13.0 takes both for the
// same value, since for it what is added to is the register and not what the register holds. So D is what the
// first one made, and those between the two are gone, if only they wrote D (read off machine code, and an
// H200 gives what follows; tests/ptx/repeated_wgmma.ptx). A fault of the compiler: two equal products in a
// row are one.
//
// It does so in functions without branches (a guarded store and div.rn.f32 are some) as long as few registers
// are in the game: the values of all accumulators, one at the begin and one for each wgmma up to this one,
// have fewer than 120 together. (From 120 to 128 it depends on what else the function does, which is not
// followed.) Nor does it where a group is committed that has no wgmma.
#pragma once

#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

bool may_repeat_wgmma(const Function&);
void forget_repeated_wgmma(Rewriter&, const Dataflow&, const Known&);

}  // namespace fp4lab::emu
