// All 256 scale codes of a format, decoded once.
#pragma once

#include <bit>
#include <cstdint>

#include "numerics/tensor_core.h"

namespace fp4lab {

struct ScaleEntry {
  float value = 0;        // 0 for NaN
  float power = 0;        // 2^exponent, 0 for a zero scale and NaN
  std::int8_t lsb = 127;  // exponent of the lowest set bit
  std::int8_t exponent = -127;
  bool nan = false;
};
struct ScaleTable {
  ScaleEntry entry[256];
};
const ScaleTable& scale_table(ScaleFormat format);

}  // namespace fp4lab
