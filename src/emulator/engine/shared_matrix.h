// Reads operands through descriptors out of a CTA's shared memory, with its checks.
#pragma once

#include "emulator/engine/descriptors.h"
#include "emulator/engine/operand.h"

namespace fp4lab::emu {

// Copies `rows` rows, from `first_row` on (a multiple of 8), of `bytes` bytes (a multiple of 16) of a K-major
// operand to `out` ([rows][bytes], dense). Faults when the operand leaves the window or has bytes that nobody
// wrote. With base offset 0 the swizzle is anchored to address bits, as TMA's is, so an operand may start at
// any row of the pattern: CUTLASS 48_hopper_warp_specialized_gemm places A at 384 bytes, and that works on an
// H100. A null `defined` asks for that check; otherwise bit i of defined[r] tells whether word i of row r is.
constexpr uint16_t kAllWords = 0xffff;
void read_k_major(Cluster&, Cta&, const SharedMatrix&, uint32_t rows, uint32_t bytes, std::byte* out,
                  const AsyncOp&, const char* operand, uint16_t* defined = nullptr, uint32_t first_row = 0);

// `rows` x `columns` elements of an MN-major operand from row `first_row` on, to out[mn][k]. Elements that
// lie 16 in `data_bytes` bytes get a byte each.
void read_mn_major(Cluster&, Cta&, const SharedMatrix&, uint32_t rows, uint32_t columns,
                   uint32_t element_bytes, std::byte* out, const AsyncOp&, const char* operand,
                   uint32_t first_row = 0);

}  // namespace fp4lab::emu
