// What the answer is: group and dual GEMM of NVFP4 operands on the CPU, in two roundings.
#pragma once

#include <cstdint>
#include <vector>

#include "fp4lab/operand.h"
#include "fp4lab/problem.h"
#include "fp4lab/simd.h"

namespace fp4lab {

enum class Rounding {
  // The infinitely precise sum, rounded once, to nearest even. The order of a kernel's sum does not matter to
  // it, so this is
  // what kernels are checked against, with a tolerance.
  kExact,
  // What tcgen05.mma does to one accumulator when K is walked in steps of 64 from a zero accumulator, each
  // step rounding toward
  // zero to fp32 (numerics/tensor_core.h); the epilogue rounds to nearest even. A kernel that does not split
  // K gives these bits.
  kTensorCore,
};
const char* rounding_name(Rounding rounding);  // "exact", "tensor-core"

struct ReferenceOptions {
  Rounding rounding = Rounding::kExact;
  float alpha = 1.0f;  // finite factor on every product of two matrices
  int threads = 0;     // 0 means one per core
  Simd simd = best_simd();
};

// Row-major [a.rows][b.rows] of alpha * A * B^T. K may be any common multiple of 16. A NaN scale makes its
// row or column NaN (fp16 0x7FFF, fp32 0x7FFFFFFF). Fails where the operands' K differ.
//   exact:       alpha * sum is exact before its one rounding, to fp16 or to fp32.
//   tensor-core: accumulator in fp32, times alpha in fp32 (nearest even) unless alpha is 1, then to fp16. K %
//   64 elements at
//                the end count as a step filled with zero scales.
std::vector<std::uint16_t> reference_gemm(const Operand& a, const Operand& b,
                                          const ReferenceOptions& options = {});
std::vector<float> reference_gemm_f32(const Operand& a, const Operand& b,
                                      const ReferenceOptions& options = {});

// silu(X) * Y with X = alpha * A * B1^T, Y = alpha * A * B2^T, silu(x) = x / (1 + exp(-x)), evaluated in
// double and rounded once to fp16. X and Y are exact sums rounded to double, or the tensor core's fp32
// accumulators.
std::vector<std::uint16_t> reference_dual(const Operand& a, const Operand& b1, const Operand& b2,
                                          const ReferenceOptions& options = {});

// C of every group of the problem, row-major [m][n] fp16.
std::vector<std::vector<std::uint16_t>> reference(const Problem& problem,
                                                  const ReferenceOptions& options = {});

// How far a right kernel may be from the exact result because it accumulates in fp32, for each element of a
// group's C, row-major: with S the sum of the products' magnitudes, each of the K / 16 steps that a tensor
// core may take (16 to 64 of K at a time) loses less than 2^-23 of a partial sum that is at most S. So alpha
// = (K / 16) * 2^-23 * S bounds any order of summation, RZ or RNE. Where products cancel (distribution full)
// this is more than the fp16 tolerance; elsewhere far less. For the dual GEMM the two sums' bounds go through
// silu(x) * y with |silu'| < 1.1.
std::vector<float> accumulation_bound(Operation operation, const GroupData& group);

}  // namespace fp4lab
