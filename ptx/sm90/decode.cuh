// e2m1 codes to fp16, exactly: e2m1 * ue4m3 has at most 6 significant bits and a magnitude of 0 or
// 2^-10..2688.
#pragma once
#include "isa/arith.cuh"

namespace fp4lab::sm90 {

// The fp16 of 0, 0.5, 1, 1.5, 2, 3, 4, 6 have a zero low byte; these are the high bytes.
constexpr u32 kMagnitudes0123 = 0x3e3c3800;
constexpr u32 kMagnitudes4567 = 0x46444240;

// Byte i of the result: high byte of |fp16| of the code in nibble i of the low half of `codes`; bit 3 of each
// nibble must be zero (prmt would replicate a sign there).
__device__ __forceinline__ u32 magnitudes(u32 codes) {
  return isa::prmt(kMagnitudes0123, kMagnitudes4567, codes);
}

// {byte 0, byte 1} and {byte 2, byte 3} as the high bytes of an fp16 pair.
__device__ __forceinline__ u32 widen_low(u32 bytes) { return isa::prmt(bytes, 0, 0x1404); }
__device__ __forceinline__ u32 widen_high(u32 bytes) { return isa::prmt(bytes, 0, 0x3424); }

// One packed weight word and its two scales {row q, row q + 8} to the wgmma A registers. In each half of the
// word lie the codes of one half of the four registers, so placed that a shift brings a sign to bit 15 and a
// magnitude to bits 11:9. There it is an fp16 of 2^-14 times its value, subnormals included; the scales are
// times 2^7, so the product, 2^-7 times the weight, is exact. Six LOP3 on the integer pipe, five shifts (as
// IMAD) and four HMUL2 on the other: integer instructions cannot be issued for half of the cycles of a wgmma,
// so they are what limits small tiles.
//   register  sign  magnitude
//      0       15    11:9
//      1       12     8:6
//      2       14     5:3
//      3       13     2:0
__device__ __forceinline__ void decode_fragment(u32 word, u32 scales, u32 (&a)[4]) {
  constexpr u32 kSigns = 0x80008000, kMagnitudes = 0x0e000e00;
  const u32 scale_q = isa::duplicate_low(scales);
  const u32 scale_q8 = isa::duplicate_high(scales);
  a[0] = isa::mul_rn_f16x2(word & (kSigns | kMagnitudes), scale_q);
  a[1] = isa::mul_rn_f16x2((word << 3) & (kSigns | kMagnitudes), scale_q8);
  a[2] = isa::mul_rn_f16x2(((word << 6) & kMagnitudes) | ((word << 1) & kSigns), scale_q);
  a[3] = isa::mul_rn_f16x2(((word << 9) & kMagnitudes) | ((word << 2) & kSigns), scale_q8);
}
// What the sums must be multiplied by: weights were times 2^-7.
constexpr float kWeightScale = 128.0f;

// The packed word's share of register `r`, half `h`.
__device__ __forceinline__ u32 pack_code(u32 code, u32 r, u32 h) {
  constexpr u32 kSign[4] = {15, 12, 14, 13}, kMagnitude[4] = {9, 6, 3, 0};
  return ((code >> 3) << kSign[r] | (code & 7) << kMagnitude[r]) << (16 * h);
}

// ue4m3 in both halves: eeee.mmm moved to fp16's exponent field is scale * 2^-8, subnormals included.
// Times `factor`, a power of two in both halves.
constexpr u32 kF16x2_256 = 0x5c005c00, kF16x2_32768 = 0x78007800;
__device__ __forceinline__ u32 ue4m3_to_f16(u32 byte, u32 factor = kF16x2_256) {
  return isa::mul_rn_f16x2((byte & 0x7fu) * 0x00800080u, factor);
}

// Eight codes in the order of memory (low nibble first) times a scale pair.
__device__ __forceinline__ void decode_row(u32 word, u32 scale, u32 (&out)[4]) {
  const u32 low = magnitudes(word & 0x7777u);
  const u32 high = magnitudes((word >> 16) & 0x7777u);
  // Sign of nibble i of a half to bit 7 of byte i: spread the half's bytes, then the nibbles.
  const u32 sign_even = word << 4;  // bits 7, 15, 23, 31: nibbles 0, 2, 4, 6
  const u32 sign_low = isa::prmt(sign_even, word, 0x5140) & 0x80808080u;   // nibbles 0, 1, 2, 3
  const u32 sign_high = isa::prmt(sign_even, word, 0x7362) & 0x80808080u;  // nibbles 4, 5, 6, 7
  out[0] = isa::mul_rn_f16x2(widen_low(low | sign_low), scale);
  out[1] = isa::mul_rn_f16x2(widen_high(low | sign_low), scale);
  out[2] = isa::mul_rn_f16x2(widen_low(high | sign_high), scale);
  out[3] = isa::mul_rn_f16x2(widen_high(high | sign_high), scale);
}

}  // namespace fp4lab::sm90
