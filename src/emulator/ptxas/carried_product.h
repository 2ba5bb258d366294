// Products that a sum of the next round takes. ptxas 13.0 takes four rounds of a small loop at once, then
// two, then one (counted_loop.h), and in each such group the product of a round and the sum of the next are
// one fma. The first sum of a group takes the product as it was rounded.
#pragma once

#include "emulator/ptx/token.h"
#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Of loops of one block, behind contraction.
void carry_products(Rewriter&, const Dataflow&, const std::vector<const Token*>& nounroll);

}  // namespace fp4lab::emu
