// Matrix fragments: which element of a matrix a lane's register holds, for mma.sync and wmma (PTX
// ISA 9.7.14.5).
#pragma once

#include <span>

#include "emulator/core/warp.h"
#include "emulator/engine/mma_float.h"

namespace fp4lab::emu {

// The elements of a vector operand; a single register may stand without braces.
inline unsigned fragment_registers(const Operand& o) { return o.kind == Operand::Kind::vector ? o.count : 1; }
inline const Operand& fragment_register(Warp& w, const Operand& o, unsigned r) {
  return o.kind == Operand::Kind::vector ? w.element(o, r) : o;
}

// A fault unless D, A, B and C of an mma.sync have this many registers.
void require_fragments(const Instr&, std::span<const unsigned, 4> counts);

// Where register r of lane t lies in A (m rows x k) or in B (n columns x k, so transposed): the four lanes of
// a group hold 16 consecutive bytes of a row, register by register the next 8 rows (operands of 16 rows
// only), then the next 16 bytes.
struct OperandWord {
  unsigned row, byte;
};
inline OperandWord operand_word(unsigned r, unsigned t, unsigned rows) {
  const unsigned halves = rows / 8;
  return {t / 4 + 8 * (r % halves), 16 * (r / halves) + 4 * (t % 4)};
}
// The operand's elements from its registers; `out` has rows of `row_bytes`.
void gather_operand(Warp&, const Operand&, unsigned rows, unsigned row_bytes, std::byte* out);

// Where lane t finds accumulator value v: rows of 8 lanes groups, two neighbouring columns.
struct FragmentCell {
  unsigned row, column;
};
inline FragmentCell accumulator_cell(unsigned v, unsigned t) {
  return {t / 4 + 8 * (v >> 1), 2 * (t % 4) + (v & 1)};
}

// C into and D out of d[column * 16 + row] (8 columns); fp16 values two to a register.
void gather_accumulator(Warp&, const Operand&, unsigned rows, bool half, uint32_t* d);
void scatter_accumulator(Warp&, const Operand&, unsigned rows, bool half, const uint32_t* d);
// D = C + products, register by register, as ptxas 13.0 ends products of fp8 for sm_90a and sm_100a (seen in
// machine code): a register of C that is also an earlier one of D has D's value by then.
void add_to_accumulator(Warp&, const Operand& d, const Operand& c, unsigned rows, bool half,
                        const uint32_t* products);

uint16_t half_of_fp8(ElementFormat, uint8_t code);
// 4-bit integers get a byte each: 2 * `bytes` of them. What A's (`which` 0) and B's (1) are then, by the
// first and second .s4 or .u4 of the mnemonic (there is no Type for them), wherever .satfinite stands.
ElementFormat widened_format(const Source&, unsigned which);
void widen_nibbles(bool is_signed, const std::byte* in, size_t bytes, std::byte* out);

}  // namespace fp4lab::emu
