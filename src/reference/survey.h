// What an operand contains, found in one pass: it decides which exact arithmetic is cheap enough.
#pragma once

#include <vector>

#include "fp4lab/operand.h"
#include "numerics/mma_panel.h"

namespace fp4lab {

struct Survey {
  MmaRange range;                     // of all scales (NaN left out) and codes
  std::vector<std::uint8_t> nan_row;  // 1 where a row has a NaN scale
};
Survey survey(const Operand& operand, int threads);

}  // namespace fp4lab
