// What ptxas makes of approximate f32 functions beside executing them: of constants it computes them
// (fold.h), 1 / (1 / x) is x, 1 / 2^x is 2^-x, and quotients end in a product.
#pragma once

#include <utility>

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Before sums look for products. Whether anything has changed; instructions stay where they are.
bool fold_approximate(Rewriter&, const Dataflow&, const Known&);

// What ptxas makes of approximate reciprocals and quotients ends in a product; rcp.approx.ftz is the
// unit's.
bool ends_in_product(const Source&);
// The factors of what ends in a product: the dividend and the unit's reciprocal, both scaled where the
// divisor is subnormal or very large (float_approx.h has the same steps).
std::pair<Operand, Operand> expand_quotient(Rewriter&, uint32_t pc);

}  // namespace fp4lab::emu
