// The opcode table: one row per instruction, with its spelling, its operands, the manual's section and the
// body that executes it. Parser, dispatch, messages and the support page all derive from the rows in
// opcodes.def.
//
// A row:   OP(add_int, "add<.u16,.s16,.u32,.s32,.u64,.s64>", "d, a, b", "9.7.1.1", exact, 0)
//
//   name      the binder `Body bind_add_int(Instr&, const Source&)`, defined in a file of op/ or engine/.
//   section   of the PTX ISA manual.
//   fidelity  exact: the hardware's bits by the manual; measured: an H200's bits where the manual only gives
//             an error bound, within which other chips may differ; modelled: from public models.
//   target    the .target that a module needs for it: see target.h.
//
// Spelling: the mnemonic, then its modifiers in order.
//   .word       required
//   <.a,.b.c>   exactly one of the alternatives; an alternative may be several modifiers, and may itself
//               contain groups
//   {.a,.b}     at most one of them;  {.sem{.scope}} nests
//   [ ... ]     the groups inside in any order
//
// Operands: comma-separated items; item i fills Instr::op[i], but `d|p`, `P|q` and `[m,{c}]` fill two. An
// absent optional operand is Kind::none.
//
//   d        destination register
//   d|p      destination with optional predicate: %r|%p or %r
//   d|P      the same, but the predicate is required
//   P        destination predicate
//   P|q      predicate pair: %p|%q or %p
//   p        source predicate, may be negated; the constants 0 and 1 become predicate 0 or its negation
//   [m]      address: [reg+imm], [symbol+imm], [imm]
//   [m,{c}]  tensor coordinates: an address and a vector of s32
//   {v}      a vector, or a single value
//   {d}      the same as a destination
//   L        label
//   {L}      list of labels (brx.idx)
//   F        function: the whole call, see layout.cpp
//   I        an immediate
//   a/[m]    value or address
//   a        any other name is a source value: register, immediate, special register, symbol address
//
// The letters above may have a digit (d, d2); longer names ("desc", "policy") are values. A destination with
// `_` after its letter may be discarded: `d_`, `d|p_`, `P_|q_` (one of the two), `{d_}` (some elements of
// the vector), `{d_}_` (some or the whole). After an item and its brackets may follow
//
//   :type    the type: a name (`a:u32`), tN = the Nth type among the modifiers (`a:t1`), wN = twice as wide
//            as the Nth type (`d:w0`, mul.wide), rN = of the registers that hold elements of the Nth type
//            (`{a}:r1`, mma), any = not checked
//   ~        the register may be wider than the type (ld, st, cvt)
//   @        may be the address of a variable
//   !        the vector's braces are required, even for one element
//   +        may have a selector and a sign, -%r1.h0 (video instructions): Operand::displacement holds the
//            selector's letters, Operand::negated the sign
//   ?        optional
//   ?word    present if and only if the instruction has that modifier: `mask:u16?multicast::cluster`
//
// Without :type a destination has the first type among the modifiers, a source the second if there is one.
// Vectors have the first if .v2, .v4 or .v8 is among the modifiers; otherwise their elements are not checked.
// If the modifiers name no type, sources are read as u32, immediates as s32.
//
// The type determines the bits of an immediate, the legal register widths, and so the rows that a body may
// read: shift counts are `b:u32`, mbarrier counts `a:u32`. Operand::displacement of an immediate is its value
// (sign-extended for signed types); its row is truncated to the type's width.
#pragma once

#include <span>

#include "emulator/core/opcode.h"

namespace fp4lab::emu {

std::span<const Opcode> opcodes();

}  // namespace fp4lab::emu
