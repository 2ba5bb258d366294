#include "fp4lab/simd.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "fp4lab/error.h"

namespace fp4lab {
namespace {

// Tile registers are off until the process asks (Linux arch_prctl, ARCH_REQ_XCOMP_PERM for XTILEDATA).
bool amx_granted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// CPUID leaf 7: EDX bit 24 is AMX-TILE, bit 25 AMX-INT8.
bool has_amx_int8() {
  unsigned a = 7, b = 0, c = 0, d = 0;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return (d >> 24 & 3) == 3;
}

std::vector<Simd> detect() {
  std::vector<Simd> levels{Simd::kScalar};
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return levels;
  levels.push_back(Simd::kAvx2);
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("f16c"))
    return levels;
  levels.push_back(Simd::kAvx512);
  if (has_amx_int8() && amx_granted()) levels.push_back(Simd::kAmx);
  return levels;
}

}  // namespace

std::string_view simd_name(Simd simd) {
  switch (simd) {
    case Simd::kScalar:
      return "scalar";
    case Simd::kAvx2:
      return "avx2";
    case Simd::kAvx512:
      return "avx512";
    case Simd::kAmx:
      return "amx";
  }
  return "?";
}

std::span<const Simd> simd_levels() {
  static const std::vector<Simd> levels = detect();
  return levels;
}

Simd best_simd() {
  static const Simd best = [] {
    const char* wanted = std::getenv("FP4LAB_SIMD");
    if (!wanted || !*wanted) return simd_levels().back();
    for (Simd level : simd_levels())
      if (simd_name(level) == wanted) return level;
    fail("FP4LAB_SIMD={}: this machine has no such level; the highest it has is {}", wanted,
         simd_name(simd_levels().back()));
  }();
  return best;
}

}  // namespace fp4lab
