// Loops whose number of rounds is a constant become straight-line code, as ptxas 13.0 makes it: which of two
// NaNs f64 sums keep depends on that (value_order.h), and which products become part of a sum: those before
// the loop, in it and of the round before stand in one block with the sums in and behind it.
#pragma once

#include "emulator/ptx/token.h"
#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Instructions of a function beyond which no loop is copied any more.
inline constexpr size_t kMostUnrolled = 1u << 16;

// It has f64 sums or products. (Signs that rounds undo: alternating_sign.h.)
bool sums_f64(const Function&);
// It has products that may become part of a sum.
bool has_products(const Function&);
// It becomes one with another instruction, maybe of the next round: an extreme of signed integers, an
// approximate reciprocal, a sum of the upper half of a product, a change of an f16's sign with .ftz.
bool makes_pairs(const Source&);
bool has_pairs(const Function&);
// A truth that `set` makes as a float.
bool makes_truth(const Source&);
// And whether such a truth may be taken for a number (peephole/folded_again.cpp), so that it matters which
// round's is read behind a loop.
bool may_take_truths(const Function&);
bool has_signs(const Function&);           // neg or abs
bool has_tables(const Function&);          // lop3, whose constants decide what it becomes
bool has_saturated_sums(const Function&);  // of integers: constants of several rounds meet in them
// It has products or extremes of floats, also guarded ones: in a first round maybe by 1, or of a value and
// itself.
bool gives_back_operands(const Function&);
// Whether there was such a loop, and one with branches inside.
struct Unrolled {
  bool any = false, with_branches = false;
};
Unrolled unroll(Rewriter&, const Dataflow&, const std::vector<const Token*>& nounroll);

}  // namespace fp4lab::emu
