// What lets a number-format header be read by g++, nvcc and NVRTC alike: no standard header, one macro.
#pragma once

#if defined(__CUDACC__)
#define FP4LAB_HD __host__ __device__
#else
#define FP4LAB_HD
#endif

namespace fp4lab {

// Bits of a float and back; constexpr everywhere because the compilers share this builtin.
FP4LAB_HD constexpr unsigned float_bits(float value) { return __builtin_bit_cast(unsigned, value); }
FP4LAB_HD constexpr float float_from_bits(unsigned bits) { return __builtin_bit_cast(float, bits); }

// value / 2^shift, rounded to nearest, ties to even. shift >= 0; a shift of 64 or more gives 0.
FP4LAB_HD constexpr unsigned long long shift_right_rne(unsigned long long value, int shift) {
  if (shift <= 0) return value;
  if (shift > 63) return 0;
  const unsigned long long kept = value >> shift;
  const unsigned long long dropped = value & ((1ull << shift) - 1);
  const unsigned long long half = 1ull << (shift - 1);
  return kept + (dropped > half || (dropped == half && (kept & 1)) ? 1 : 0);
}

}  // namespace fp4lab
