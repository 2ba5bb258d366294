// The approximate f32 functions of constants, which ptxas computes itself: rounded to nearest where the
// multifunction unit is not (seen in the machine code of ptxas 13.0). Zeros, infinities and NaNs are the
// unit's, and NaNs are left to it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// The result's bits for an operand's; nothing for an instruction that ptxas leaves to the unit (tanh.approx,
// the f16 and f64 forms).
std::optional<uint32_t> folded_function(const Source&, uint32_t a);

// neg, abs, add, sub, mul, min and max of f32 constants, rounded to nearest; nothing for others (foldable.h),
// and for NaNs.
std::optional<uint32_t> folded_arithmetic(const Source&, const std::array<uint32_t, 2>& operands);

// div.approx and div.full by a constant are products: a * before * factor. `before` is 1 but for a subnormal
// or very large divisor.
struct FoldedDivisor {
  float before, factor;
};
FoldedDivisor folded_divisor(const Source&, uint32_t b);

}  // namespace fp4lab::emu
