// Choosing a rung's plan: the fastest of those that are legal, by the model (src/model).
#include "lab/sm100/choose.h"

#include <vector>

#include "model/harness.h"
#include "model/plans.h"

namespace fp4lab::sm100 {

Plan cheapest(const std::vector<Plan>& plans, const Case& c) {
  const model::Chip& chip = model::find_chip("", kArch);
  const model::Harness& harness = model::find_harness("fp4lab", chip.name);
  const Plan* best = nullptr;
  double least = 0;
  for (const Plan& p : plans) {
    bool legal = plan_reasons(p).empty();
    for (const Shape& s : c.shapes) legal = legal && shape_reasons(p, s.m, s.n, s.k).empty();
    if (!legal) continue;
    const double us = model::estimate(p, c, chip, chip.sm_mhz, harness).us;
    if (!best || us < 0.99 * least)
      best = &p, least = us;  // differences below 1 % are noise: the earlier plan
  }
  return best ? *best : plans.front();
}

}  // namespace fp4lab::sm100
