// What machine code has no instruction for: ptxas makes code of several basic blocks of it, mostly a
// subroutine (observed with ptxas 13.0).
#pragma once

#include <cstdint>
#include <optional>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

// The reciprocal or reciprocal root of f64 that the machine makes of the upper half: .approx.ftz. (.ftz alone
// means nothing to an f64.)
bool is_of_upper_half(const Source&);
// Exact quotients and roots of floats, and the whole f64 rsqrt.approx.
bool is_float_routine(const Source&);
// One whose code begins between the instructions around it and calls no more than what is left of it: it
// stays where nobody wants its result, and reads its operands there. The others are calls of which nothing
// but the call stays.
bool stays_unwanted(const Source&);
// A root or a reciprocal of a constant, which ptxas leaves only the straight-line code of if that constant
// takes no special case.
bool is_routine_inline(const Source&, uint64_t constant);
// A quotient, root or reciprocal whose code is so long that ptxas folds the whole function once more behind
// it.
bool is_folded_behind(const Source&);
// Quotients and remainders of integers: those of u32 are straight-line code.
bool is_integer_routine(const Source&);
// A function's, or one whose machine code calls the routine or what is left of it.
bool has_call(const Source&, std::optional<uint64_t> constant);
// One of f32 that under a guard is executed for all: the guard selects its result. Quotients that are rounded
// in a direction stay behind a branch.
bool is_selected_routine(const Source&);

// Whether the compiler's basic block ends behind an instruction: what becomes a branch, but for a routine of
// which a `constant` first operand leaves straight-line code; fences that are a MEMBAR (not those between
// proxies, of one direction alone, or behind mbarrier.init), and some others.
bool ends_block(const Source&, bool becomes_branch, std::optional<uint64_t> constant);
// What ends straight-line code for the compiler: routines, also where nobody wants their results, barriers,
// collectives of a warp, atomics of vectors, and instructions on the bits of 64 that are expanded late.
bool ends_stretch(const Source&);

}  // namespace fp4lab::emu
