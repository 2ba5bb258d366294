// e2m1 codes to fp16, exactly: e2m1 * ue4m3 has at most 6 significant bits and a magnitude of 0 or
// 2^-10..2688.
#pragma once
#include "isa/arith.cuh"

namespace fp4lab::sm90 {

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
// In two calls: the integer part can be done while the registers of `a` are still in use.
__device__ __forceinline__ void unpack_fragment(u32 word, u32 (&codes)[4]) {
  constexpr u32 kSigns = 0x80008000, kMagnitudes = 0x0e000e00;
  codes[0] = word & (kSigns | kMagnitudes);
  codes[1] = (word << 3) & (kSigns | kMagnitudes);
  codes[2] = ((word << 6) & kMagnitudes) | ((word << 1) & kSigns);
  codes[3] = ((word << 9) & kMagnitudes) | ((word << 2) & kSigns);
}
__device__ __forceinline__ void scale_fragment(const u32 (&codes)[4], u32 scales, u32 (&a)[4]) {
  const u32 scale_q = isa::duplicate_low(scales);
  const u32 scale_q8 = isa::duplicate_high(scales);
  a[0] = isa::mul_rn_f16x2(codes[0], scale_q);
  a[1] = isa::mul_rn_f16x2(codes[1], scale_q8);
  a[2] = isa::mul_rn_f16x2(codes[2], scale_q);
  a[3] = isa::mul_rn_f16x2(codes[3], scale_q8);
}
// What the sums must be multiplied by: weights and activations were times 2^-7.
constexpr float kSumScale = 128.0f * 128.0f;

// The packed word's share of register `r`, half `h`.
__device__ __forceinline__ u32 pack_code(u32 code, u32 r, u32 h) {
  constexpr u32 kSign[4] = {15, 12, 14, 13}, kMagnitude[4] = {9, 6, 3, 0};
  return ((code >> 3) << kSign[r] | (code & 7) << kMagnitude[r]) << (16 * h);
}

// ue4m3 times 2^7 in both halves: eeee.mmm moved to fp16's exponent field is scale * 2^-8, subnormals
// included.
__device__ __forceinline__ u32 ue4m3_to_f16(u32 byte) {
  constexpr u32 kF16x2_32768 = 0x78007800;
  return isa::mul_rn_f16x2((byte & 0x7fu) * 0x00800080u, kF16x2_32768);
}

// Eight activations, low nibble first, to four fp16 pairs, times 2^-7 as weights are: pair i is codes i and
// i + 4, which takes half the integer instructions of the order of memory. So K runs 0 4 1 5 2 6 3 7 in every
// eight; repack.cuh gives weights the same order.
__device__ __forceinline__ void decode_row(u32 word, u32 scale, u32 (&out)[4]) {
  constexpr u32 kSigns = 0x80008000, kMagnitudes = 0x0e000e00;
  out[0] = isa::mul_rn_f16x2(((word << 12) & kSigns) | ((word << 9) & kMagnitudes), scale);
  out[1] = isa::mul_rn_f16x2(((word << 8) & kSigns) | ((word << 5) & kMagnitudes), scale);
  out[2] = isa::mul_rn_f16x2(((word << 4) & kSigns) | ((word << 1) & kMagnitudes), scale);
  out[3] = isa::mul_rn_f16x2((word & kSigns) | ((word >> 3) & kMagnitudes), scale);
}
// Code in the eight (by the order of memory) of position `position` of K.
__device__ __forceinline__ u32 code_at(u32 position) { return position / 2 + position % 2 * 4; }

}  // namespace fp4lab::sm90
