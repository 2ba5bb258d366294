// Comparisons of several matrices as one.
#pragma once

#include <algorithm>

#include "fp4lab/compare.h"

namespace fp4lab {

inline void add(Comparison& sum, const Comparison& part) {
  if (!sum.first_outside) sum.first_outside = part.first_outside;
  if (!sum.first_different) sum.first_different = part.first_different;
  sum.count += part.count;
  sum.bit_equal += part.bit_equal;
  sum.outside += part.outside;
  sum.by_slack += part.by_slack;
  sum.unwritten += part.unwritten;
  sum.nan += part.nan;
  sum.max_abs = std::max(sum.max_abs, part.max_abs);
  sum.max_rel = std::max(sum.max_rel, part.max_rel);
  sum.max_ulps = std::max(sum.max_ulps, part.max_ulps);
}

}  // namespace fp4lab
