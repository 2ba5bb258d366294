// f16 and bf16 arithmetic on the 64 halves of a warp's register rows at once.
#pragma once

#include <cstdint>

namespace fp4lab::emu {

enum class HalfOp : uint8_t { none, add, sub, mul, fma };

// d = a op b (fma: a * b + c), rounded once to nearest even, NaN as 0x7fff, on rows of 32 words of two
// halves. The result's words are ANDed with `keep` (0xffff: single values). Rows may alias. False, with
// nothing written, if the host lacks AVX2 or F16C, or if a bf16 product leaves the range in which fp32
// represents it exactly.
template <HalfOp kOp, bool kBfloat>
bool half_rows(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* d, uint32_t keep);

}  // namespace fp4lab::emu
