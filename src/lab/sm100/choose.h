#pragma once

#include <vector>

#include "fp4lab/sm100.h"

namespace fp4lab::sm100 {

// Modelled microseconds on a B200 of a swapped pair plan with a static schedule. For ranking plans.
double estimate_us(const Plan& plan, const Case& c);

// The legal plan with the least estimate; the first of the list when none is legal, for its reasons.
Plan cheapest(const std::vector<Plan>& plans, const Case& c);

}  // namespace fp4lab::sm100
