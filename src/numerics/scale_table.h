// All 256 scale codes of a format, decoded once.
#pragma once

#include <bit>
#include <cstdint>

#include "numerics/mma_panel.h"

namespace fp4lab {

struct ScaleEntry {
  float value = 0;  // 0 for NaN
  float power = 0;  // 2^exponent, 0 for a zero scale and NaN
  // Of zero and NaN: values that leave a minimum and a maximum alone.
  std::int8_t lsb = 127;  // exponent of the lowest set bit
  std::int8_t exponent = -127;
  std::int8_t exponent_or_127 = 127;
  bool nan = false;
};
struct ScaleTable {
  ScaleEntry entry[256];
};
const ScaleTable& scale_table(ScaleFormat format);

// MmaRange's part about scales, gathered quickly.
struct SeenScales {
  int lsb = 127, top = -127, bottom = 127;
  float largest = 0;
  void add(const ScaleEntry& e) {
    lsb = e.lsb < lsb ? e.lsb : lsb;
    top = e.exponent > top ? e.exponent : top;
    bottom = e.exponent_or_127 < bottom ? e.exponent_or_127 : bottom;
    largest = e.value > largest ? e.value : largest;
  }
  MmaRange range() const { return {lsb, top, bottom, largest, 0}; }
};

}  // namespace fp4lab
