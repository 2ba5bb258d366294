// f16 and bf16 values: the common part of their arithmetic.
#pragma once

#include "emulator/op/float_format.h"
#include "emulator/op/float_order.h"
#include "fp4lab/half.h"

namespace fp4lab::emu {

struct HalfValue {
  using Bits = F16Bits;
  static constexpr uint16_t kOne = 0x3c00;
  static float to_float(uint16_t h) { return half_to_float(h); }
  static double value(uint16_t h) { return half_to_float(h); }
  static uint16_t nearest(double v) { return uint16_t(encode(v, kF16, FormatRound::nearest_even, false)); }
};

struct BfloatValue {
  using Bits = Bf16Bits;
  static constexpr uint16_t kOne = 0x3f80;
  static float to_float(uint16_t h) { return std::bit_cast<float>(uint32_t(h) << 16); }
  static double value(uint16_t h) { return to_float(h); }
  static uint16_t nearest(double v) { return uint16_t(encode(v, kBf16, FormatRound::nearest_even, false)); }
};

}  // namespace fp4lab::emu
