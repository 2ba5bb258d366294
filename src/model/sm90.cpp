#include <algorithm>

#include "model/plans.h"

namespace fp4lab::model {

Estimate estimate(const sm90::Plan& plan, const Case& c, const Chip& chip, double sm_mhz,
                  const Harness& harness) {
  (void)c, (void)chip;
  Estimate e;
  e.bound = "tensor core";
  e.terms = {{"start", harness.start_us, ""}, {"schedule", plan.predicted_cycles / sm_mhz, ""}};
  e.us = harness.start_us + plan.predicted_cycles / sm_mhz;
  return e;
}

}  // namespace fp4lab::model
