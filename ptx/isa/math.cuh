// Floating-point conversions and approximations.
#pragma once
#include "types.cuh"

namespace fp4lab::isa {

// cvt.rn.f16x2.f32 d, hi, lo;  (PTX 7.0, sm_80; 9.7.9.21): `lo` in bits 15:0, so that it comes first in
// memory.
__device__ __forceinline__ u32 cvt_rn_f16x2_f32(float lo, float hi) {
  u32 d;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
  return d;
}

// cvt.rn.f16.f32 d, a;  (PTX 1.0; 9.7.9.21)
__device__ __forceinline__ u16 cvt_rn_f16_f32(float a) {
  u16 d;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(d) : "f"(a));
  return d;
}

// ex2.approx.ftz.f32 d, a;  (PTX 1.4; 9.7.3.21): 2^a within 2 ulp.
__device__ __forceinline__ float ex2_approx_ftz(float a) {
  float d;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
  return d;
}

// rcp.approx.ftz.f32 d, a;  (PTX 1.4; 9.7.3.13): 1/a within 1 ulp.
__device__ __forceinline__ float rcp_approx_ftz(float a) {
  float d;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
  return d;
}

// tanh.approx.f32 d, a;  (PTX 7.0, sm_75; 9.7.3.22): relative error up to 2^-11.
__device__ __forceinline__ float tanh_approx(float a) {
  float d;
  asm("tanh.approx.f32 %0, %1;" : "=f"(d) : "f"(a));
  return d;
}

}  // namespace fp4lab::isa
