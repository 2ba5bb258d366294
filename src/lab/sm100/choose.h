#pragma once

#include <vector>

#include "fp4lab/sm100.h"

namespace fp4lab::sm100 {

// The legal plan with the least predicted time on a B200; the first of the list when none is legal, for its
// reasons.
Plan cheapest(const std::vector<Plan>& plans, const Case& c);

}  // namespace fp4lab::sm100
