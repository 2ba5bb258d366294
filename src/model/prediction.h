// An estimate with its error: which measured class it is nearest to, and how far predictions of that class
// were off.
#pragma once

#include <string>

#include "fp4lab/model.h"
#include "model/kernel.h"
#include "model/points.h"

namespace fp4lab::model {

/// Measured points of a sort that were set aside before the fit: how far off they were.
/// src/model/validation.cpp says which, and the command that prints the figures.
struct ErrorClass {
  std::string_view on;
  int points;
  double low, high;  // of measured / predicted: 10th and 90th percentile
  // The same for ratios of two plans of one shape, whose predicted times differ by a factor up to 1.2, and by
  // more.
  int pairs;
  double near_low, near_high, far_low, far_high;
};

struct Classified {
  const ErrorClass* nearest;
  bool holds;                // false: nothing of this sort was measured
  const ErrorClass* ratios;  // whose pairs of plans are nearest
};
Classified class_of(const Point& point, double us);
Classified class_of(const Plan& plan, const Case& c, const Estimate& estimate);
Classified class_of(const sm90::Plan& plan, const Case& c, const Estimate& estimate);

Prediction prediction_of(const Estimate& estimate, const Chip& chip, double sm_mhz,
                         const Classified& classified);

}  // namespace fp4lab::model
