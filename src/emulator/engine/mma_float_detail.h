// What the files of the plain kinds' arithmetic share.
#pragma once

#include "emulator/engine/mma_float.h"

namespace fp4lab::emu::detail {

constexpr int kZeroExponent = -1000;  // zeros have no say in the common exponent

constexpr unsigned bytes_of(ElementFormat f) {
  return f == ElementFormat::tf32 ? 4 : f == ElementFormat::f16 || f == ElementFormat::bf16 ? 2 : 1;
}

// The common exponent never falls below this (MATLAB-tensor-core, arXiv 2512.07004).
constexpr int least_exponent(const FloatMma& f) { return f.half_output ? -21 : -133; }

// fp32 results, row_stride 1, no Inf or NaN anywhere. Needs AVX-512 F, BW, DQ, VL.
void mma_f32_avx512(const FloatMma&);

}  // namespace fp4lab::emu::detail
