// The shared-memory and instruction descriptors of tcgen05.mma and tcgen05.cp (PTX ISA 9.7.16.4). ptxas
// checks none of their values; here every field is checked, and a fault names the field, its bits and its
// value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fp4lab::emu {

enum class MmaKind : uint8_t { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 };
const char* name_of(MmaKind);

// How an operand lies in shared memory. Offsets are relative to the CTA's window.
struct SharedMatrix {
  enum class Swizzle : uint8_t { none, b128_atom32, b128, b64, b32 };
  uint32_t start = 0;  // bytes
  uint32_t lbo = 0, sbo = 0;
  uint32_t base = 0;  // of the swizzle's pattern: row of the pattern (bits 9:7) that is not permuted
  Swizzle swizzle = Swizzle::none;
  bool k_major = true;
  // Of each 16 bytes, the first ones that hold elements; the rest is padding, which nobody needs to have
  // written. 12 and 8 for the 16 six- and four-bit elements of kind f8f6f4 and mxf8f6f4 (PTX
  // ISA 9.7.16.10.4).
  uint32_t data_bytes = 16;

  uint32_t span() const {  // bytes of one row within a swizzle atom
    switch (swizzle) {
      case Swizzle::b32:
        return 32;
      case Swizzle::b64:
        return 64;
      case Swizzle::none:
        return 16;
      default:
        return 128;
    }
  }
  // The swizzle: address bits 9:7, less the base offset, into bits 6:4. wgmma on an H200 (2026-11-21) reads
  // so for each base offset, swizzle and start that was tried; tcgen05's descriptor is described in the same
  // words.
  uint32_t permuted(uint32_t address) const {
    const uint32_t row = (address >> 7) - base;
    switch (swizzle) {
      case Swizzle::none:
        return address;
      case Swizzle::b32:
        return address ^ (row << 4 & 0x10);
      case Swizzle::b64:
        return address ^ (row << 4 & 0x30);
      case Swizzle::b128:
        return address ^ (row << 4 & 0x70);
      case Swizzle::b128_atom32:
        return address ^ (row << 5 & 0x60);
    }
    return address;
  }
  // Address of byte k (0..) of row r of a K-major operand: cores of 8 rows, SBO apart; without a swizzle a
  // row has 16 bytes in each core and the next 16 bytes of K lie LBO further. So do the second 32 bytes of a
  // row of 64 (B beside a sparse A) in 32-byte swizzle; elsewhere a row goes on behind its span. wgmma on an
  // H200 (2026-11-22) does so with every start, stride and base offset that was tried, also those that are no
  // multiples of the pattern.
  uint32_t k_major_address(uint32_t row, uint32_t k) const {
    const uint32_t core = start + row / 8 * sbo + row % 8 * span();
    if (swizzle == Swizzle::none) return core + k / 16 * lbo + k % 16;
    return permuted(swizzle == Swizzle::b32 ? core + k / 32 * lbo + k % 32 : core + k);
  }
  // Address of element (mn, k) of an MN-major operand of `bytes`-byte elements.
  uint32_t mn_major_address(uint32_t mn, uint32_t k, uint32_t bytes) const;
};

// `what` names the operand in messages ("tcgen05.mma: descriptor of A").
SharedMatrix decode_tcgen05_descriptor(uint64_t bits, const std::string& what);
// Its constant field (bits 48:46), and what must stand there.
constexpr uint64_t kTcgen05Constant = 0x0001'c000'0000'0000, kTcgen05ConstantValue = 0x4000'0000'0000;
// wgmma's: other swizzle codes, no version bits (PTX ISA 9.7.15.5.1).
constexpr uint64_t kWgmmaReserved = 0x3ff1'c000'c000'c000;
SharedMatrix decode_wgmma_descriptor(uint64_t bits, const std::string& what);

struct InstructionDescriptor {
  MmaKind kind{};
  uint32_t m = 0, n = 0;
  // Plain kinds and mxf8f6f4: format codes of A and B; D: 0 f16, 1 f32, 2 s32.
  uint8_t a_format = 0, b_format = 0, d_format = 1;
  bool negate_a = false, negate_b = false, transpose_a = false, transpose_b = false;
  bool saturate = false;
  bool scale_ue8m0 = false;
  uint8_t sfa_id = 0, sfb_id = 0;
  uint8_t sparsity_selector = 0;  // which of two columns of TMEM holds the metadata (16 and 32-bit elements)
  uint8_t maximum_shift = 0;      // of B's columns, in .ws
};

// `scale_vec`: 1, 2 or 4 scales per row and instruction, 0 for kinds without; `group`: cta_group. `a_in_tmem`
// restricts A to K-major. The sparse flag must be as the instruction says.
InstructionDescriptor decode_instruction_descriptor(uint32_t bits, MmaKind, unsigned scale_vec,
                                                    unsigned group, bool a_in_tmem,
                                                    bool weight_stationary = false, bool sparse = false);

// Where zeros stand for columns of B (PTX ISA 9.7.16.4.3): runs of columns, by turns used and skipped,
// separately in each part of N that the rows of TMEM make. The manual's table says of the two spans the
// opposite of what its examples show; the examples go with the names, and are followed here. 1 = zeros; empty
// = none.
std::vector<uint8_t> zero_column_mask(uint64_t bits, uint32_t m, uint32_t n);

}  // namespace fp4lab::emu
