// Our own plans in the model's terms.
#pragma once

#include <vector>

#include "fp4lab/plan.h"
#include "fp4lab/sm90/plan.h"
#include "model/kernel.h"

namespace fp4lab::model {

/// A Blackwell plan for these groups in one launch.
Kernel kernel_of(const Plan& plan, const std::vector<Shape>& shapes, const Chip& chip);
/// The whole case: one launch, or one for each group, as the plan says.
Estimate estimate(const Plan& plan, const Case& c, const Chip& chip, double sm_mhz, const Harness& harness);

/// A Hopper plan, which has its schedule in it.
Estimate estimate(const sm90::Plan& plan, const Case& c, const Chip& chip, double sm_mhz,
                  const Harness& harness);

}  // namespace fp4lab::model
