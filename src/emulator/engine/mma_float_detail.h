// Between the portable and the vector code of the plain kinds' arithmetic.
#pragma once

#include "emulator/engine/mma_float.h"

namespace fp4lab::emu::detail {

// The common exponent never falls below this (MATLAB-tensor-core, arXiv 2512.07004).
constexpr int least_exponent(const FloatMma& f) { return f.half_output ? -21 : -133; }

// fp32 results, row_stride 1, no Inf or NaN anywhere. Needs AVX-512 F, BW, DQ, VL.
void mma_f32_avx512(const FloatMma&);

}  // namespace fp4lab::emu::detail
