// Integer and half-precision arithmetic that C++ cannot name without cuda_fp16.h.
#pragma once
#include "types.cuh"

namespace fp4lab::isa {

// prmt.b32 d, a, b, selector;  (PTX 2.0; 9.7.9.7): byte i of d is byte (selector nibble i) of {b, a}.
__device__ __forceinline__ u32 prmt(u32 a, u32 b, u32 selector) {
  u32 d;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
  return d;
}

// mul.rn.f16x2 d, a, b;  (PTX 4.2, sm_53; 9.7.4.3): subnormals kept.
__device__ __forceinline__ u32 mul_rn_f16x2(u32 a, u32 b) {
  u32 d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

// mov.b32 {lo, hi}, v; mov.b32 d, {lo, lo};  (9.7.9.2): ptxas folds it into the half selector of the user.
__device__ __forceinline__ u32 duplicate_low(u32 v) {
  u32 d;
  asm("{\n\t.reg .b16 lo, hi;\n\tmov.b32 {lo, hi}, %1;\n\tmov.b32 %0, {lo, lo};\n\t}" : "=r"(d) : "r"(v));
  return d;
}
__device__ __forceinline__ u32 duplicate_high(u32 v) {
  u32 d;
  asm("{\n\t.reg .b16 lo, hi;\n\tmov.b32 {lo, hi}, %1;\n\tmov.b32 %0, {hi, hi};\n\t}" : "=r"(d) : "r"(v));
  return d;
}

}  // namespace fp4lab::isa
