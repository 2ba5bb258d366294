// Fused multiply-add and square root of the host, correctly rounded in the current SSE rounding mode.
#pragma once

#include <emmintrin.h>

#include <cmath>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// glibc dispatches these to the FMA instructions where the CPU has them, and otherwise computes them exactly.
inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

// sqrtss and sqrtsd; std::sqrt may be evaluated at compile time or replaced by a call, these are not.
inline float square_root(float a) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(a))); }
inline double square_root(double a) { return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd(a))); }

// fma.rn.f32 for whole rows: with FMA instructions where the CPU has them.
Body fma_f32_body();

}  // namespace fp4lab::emu
