// Loops of which the text has the blocks in any order: ptxas 13.0 goes by the graph of blocks, and what is
// known of its loops here by the text. (The order of f64 operands goes by the text there, too, so that all
// other blocks stay where they are.)
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Whether a branch leads back in the text at all.
bool may_stand_in_any_order(const Function&);
// Makes loops whole where a branch leads back that is no loop's.
void order_blocks(Rewriter&, const Dataflow&);

}  // namespace fp4lab::emu
