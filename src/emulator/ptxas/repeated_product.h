// A wgmma.mma_async that does what an earlier one of the same block did: ptxas 13.0 takes its result for the
// earlier one's, as it would a second load's, though both add to the same accumulators. The second one is
// gone, and with it what was added in between (seen in machine code; tests/ptx/repeated_product.ptx).
#pragma once

#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

bool has_async_products(const Function&);
// The rewriter has rebuilt then.
void drop_repeated_products(Rewriter&, const Dataflow&, const Known&);

}  // namespace fp4lab::emu
