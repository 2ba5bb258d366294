// Many exact sums to fp16 at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fp4lab/simd.h"

namespace fp4lab {

// out[i] = the fp16 nearest to sums[i] * 2^exponent (ties to even), as half_from_fixed; -60 <= exponent
// <= 60.
void halves_from_fixed(const std::int64_t* sums, std::size_t count, int exponent, std::uint16_t* out,
                       Simd simd = best_simd());

}  // namespace fp4lab
