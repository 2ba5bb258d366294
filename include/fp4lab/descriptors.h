// The two descriptors of tcgen05.mma as named fields, for kernels, host and tests alike.
// ptxas checks no descriptor value, so whatever can be checked is checked here, at compile time.
#pragma once

#include "fp4lab/portable.h"

namespace fp4lab {

// Instruction descriptor of kind::mxf4nvf4 (PTX ISA 9.7.16.4.2, table of kinds mxf4 and mxf4nvf4): both
// operands e2m1, K-major, scales ue4m3, K = 64 dense, D in fp32. m and n are those of the CTA pair with
// cta_group::2.
struct Nvfp4InstructionDescriptor {
  int m = 128;
  int n = 128;
  bool negate_a = false;
  bool negate_b = false;
  int sfa_id = 0;  // byte of the scale word; block16 uses all four, so 0
  int sfb_id = 0;

  FP4LAB_HD constexpr unsigned bits() const {
    constexpr unsigned e2m1 = 1;
    constexpr unsigned ue4m3 = 0;
    return unsigned(sfb_id) << 4 | e2m1 << 7 | e2m1 << 10 | unsigned(negate_a) << 13 |
           unsigned(negate_b) << 14 | unsigned(n >> 3) << 17 | ue4m3 << 23 | unsigned(m >> 7) << 27 |
           unsigned(sfa_id) << 29;
  }
};
// Constants that public kernels carry.
static_assert(Nvfp4InstructionDescriptor{128, 128}.bits() == 0x0820'0480u);
static_assert(Nvfp4InstructionDescriptor{128, 256}.bits() == 0x0840'0480u);
static_assert(Nvfp4InstructionDescriptor{256, 256}.bits() == 0x1040'0480u);

enum class SharedSwizzle : unsigned { kNone = 0, k128B = 2, k64B = 4, k32B = 6 };

// Shared-memory descriptor of tcgen05 (PTX ISA 9.7.16.4.1). Offsets in bytes, multiples of 16. Bits 46..48
// hold the constant 1 that Hopper's wgmma descriptor lacks.
struct SharedDescriptor {
  unsigned address = 0;  // shared-window address; the rank of the CTA in bits 24.. drops out
  int leading_bytes = 16;
  int stride_bytes = 0;
  SharedSwizzle swizzle = SharedSwizzle::kNone;

  FP4LAB_HD constexpr unsigned long long bits() const {
    using u64 = unsigned long long;
    return u64((address & 0x3ffffu) >> 4) | u64(leading_bytes >> 4) << 16 | u64(stride_bytes >> 4) << 32 |
           u64(1) << 46 | u64(swizzle) << 61;
  }
};

// K-major tile of e2m1, rows of 128 bytes (K = 256) under the 128-byte swizzle: 8 rows make a 1024-byte
// pattern. `address` is 1024-aligned plus 32 bytes per MMA step of K = 64 (PTX ISA 9.7.16.3; the swizzle acts
// on the final address, so the step needs no new descriptor fields). LBO is ignored under a swizzle.
FP4LAB_HD constexpr unsigned long long operand_descriptor(unsigned address) {
  return SharedDescriptor{address, 16, 1024, SharedSwizzle::k128B}.bits();
}
static_assert(operand_descriptor(0) == 0x4000'4040'0001'0000ull);
static_assert(operand_descriptor(0x0100'0400 + 32) == 0x4000'4040'0001'0042ull);

// One 512-byte atom of the 128x4 scale layout as tcgen05.cp.32x128b.warpx4 reads it: 32 rows of 16 bytes.
FP4LAB_HD constexpr unsigned long long scale_descriptor(unsigned address) {
  return SharedDescriptor{address, 16, 128, SharedSwizzle::kNone}.bits();
}
static_assert(scale_descriptor(0) == 0x0000'4008'0001'0000ull);

// Either descriptor, 16 * `units` bytes further on. Shared-window offsets end below 2^18, so the sum stays in
// the 14 bits of the address field, and the high word is a constant.
FP4LAB_HD constexpr unsigned long long advance(unsigned long long descriptor, unsigned units) {
  return (descriptor & 0xffff'ffff'0000'0000ull) | unsigned(unsigned(descriptor) + units);
}
static_assert(advance(operand_descriptor(0x400), 0x3'0000 / 16 + 2) == operand_descriptor(0x3'0400 + 32));

}  // namespace fp4lab
