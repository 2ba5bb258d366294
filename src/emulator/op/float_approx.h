// The expansions by ptxas 13.0 of approximate instructions that are more than one MUFU, read from its machine
// code for sm_90a. f32 results may be a NaN of any payload; the instruction returns the canonical one.
#pragma once

#include <cmath>

#include "emulator/op/mufu.h"
#include "emulator/op/rounding.h"

namespace fp4lab::emu::approx {

// The unit's function, or the compiler's replacement for constants.
using Unit = float (*)(float);

inline bool subnormal(float a) { return std::abs(a) < 0x1p-126f; }
inline bool huge(float a) { return std::abs(a) > 0x1p126f; }

// FMUL.FTZ
inline float multiply_ftz(float a, float b) {
  const double exact = double(flush(a)) * double(flush(b));
  return is_tiny<Round::rn>(exact) ? std::copysign(0.f, float(exact)) : float(exact);
}

template <Unit kUnit = mufu::rcp>
float rcp(float a) {
  const float scale = huge(a) ? 0.25f : subnormal(a) ? 0x1p24f : 1.f;
  return scale * kUnit(a * scale);
}
template <Unit kUnit = mufu::sqrt>
float sqrt(float a) {
  return subnormal(a) ? kUnit(a * 0x1p24f) * 0x1p-12f : kUnit(a);
}
template <Unit kUnit = mufu::rsq>
float rsqrt(float a) {
  return subnormal(a) ? kUnit(a * 0x1p24f) * 0x1p12f : kUnit(a);
}
template <Unit kUnit = mufu::lg2>
float lg2(float a) {
  return subnormal(a) ? kUnit(a * 0x1p24f) - 24.f : kUnit(a);
}
template <Unit kUnit = mufu::ex2>
float ex2(float a) {
  if (!(a < -126.f)) return kUnit(a);
  const float root = kUnit(a * 0.5f);
  return root * root;
}

inline float divide(float a, float b) {
  const float scale = subnormal(b) ? 0x1p24f : 1.f;
  return mufu::rcp(b * scale) * (a * scale);
}
inline float divide_full(float a, float b) {
  const float scale = huge(b) ? 0.25f : subnormal(b) ? 0x1p24f : 1.f;
  return mufu::rcp(b * scale) * (a * scale);
}
inline float divide_full_ftz(float a, float b) {
  const float scale = huge(b) ? 0.25f : 1.f;
  return multiply_ftz(mufu::rcp(multiply_ftz(b, scale)), multiply_ftz(a, scale));
}

// FMUL.RZ by 1 / (2 pi): the argument of sin and cos in turns.
inline float turns(float a) {
  const double exact = double(a) * double(0x1.45f306p-3f);
  const float near = float(exact);
  if (!(std::abs(double(near)) > std::abs(exact)) || std::isinf(near)) return near;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(near) - 1);
}

// One step from the unit's 20 bits: y + y e (1/2 + 3/8 e) with e = 1 - a y^2.
inline double rsqrt_step(double a) {
  const uint32_t high = mufu::rsq64h(uint32_t(std::bit_cast<uint64_t>(a) >> 32));
  const double y = std::bit_cast<double>(uint64_t(high) << 32);
  const double e = std::fma(a, -(y * y), 1.0);
  return std::fma(std::fma(e, 0.375, 0.5), y * e, y);
}
inline double rsqrt_f64(double a) {
  if (a != a) return quiet(a);
  if (a == 0) return std::copysign(INFINITY, a);
  if (std::signbit(a)) return std::bit_cast<double>(kNan64);
  if (std::isinf(a)) return 0;
  return a < 0x1p-1022 ? rsqrt_step(a * 0x1p54) * 0x1p27 : rsqrt_step(a);
}

}  // namespace fp4lab::emu::approx
