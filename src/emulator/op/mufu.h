// The multifunction unit (MUFU), bit for bit: the base of PTX's approximate instructions.
//
// The unit divides an argument's range into segments and evaluates a quadratic with integer coefficients in
// each (mufu.cpp). The method and five of the seven tables were first read from a G80 (envytools, nvhw/sfu.c
// and sfu_tab.c, M. Koscielnicka). An H200 gives the same bits for all 2^32 arguments of each f32 function
// and every upper word of the f64 ones (notes/records/2026-11-21-mufu). Not compared on a Blackwell.
//
// All f32 functions but tanh flush denormal arguments and results to zeros. A NaN gives 0x7fffffff.
#pragma once

#include <cstdint>

namespace fp4lab::emu::mufu {

float rcp(float a);
float rsq(float a);  // 1 / sqrt(a)
float sqrt(float a);
float sin(float turns);  // sin(2 pi turns)
float cos(float turns);
float ex2(float a);
float lg2(float a);
float tanh(float a);  // a itself below 2^-8, denormals too

// From and to the upper 32 bits of an f64.
uint32_t rcp64h(uint32_t high);
uint32_t rsq64h(uint32_t high);

}  // namespace fp4lab::emu::mufu
