// Which vector instructions the host has. Every level gives the same bits; a lower one can be asked for in a
// test.
#pragma once

#include <span>
#include <string_view>

namespace fp4lab {

enum class Simd {
  kScalar,
  kAvx2,    // AVX2 + FMA
  kAvx512,  // AVX-512 F, BW, DQ, VL, VNNI
  kAmx,     // the above and AMX int8, with the kernel's leave to use the tiles
};

std::string_view simd_name(Simd simd);  // "scalar", "avx2", "avx512", "amx"

// The levels of this machine, lowest first.
std::span<const Simd> simd_levels();

// The highest level of this machine, or the one that FP4LAB_SIMD names (an error if unknown or not
// available).
Simd best_simd();

}  // namespace fp4lab
