// movmatrix of a word in which the lanes agree: ptxas 13.0 believes that they agree in what it makes of it
// too, and that a shfl.sync of that changes nothing, as one of any value in which they agree (seen in machine
// code and on an H200; tests/ptx/uniform_shuffle.ptx). What only such shuffles move is a copy, its extreme
// with the value, too, and the predicate of match.all of such a value is true (tests/ptx/uniform_match.ptx).
#pragma once

#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Without movmatrix a shuffle of what the lanes agree in gives just that: to extremes of what is shuffled and
// the value itself, which are copies.
bool may_shuffle_extremes(const Function&);
void copy_uniform_shuffles(Rewriter&, const Dataflow&, const Known&);

bool may_shuffle_uniform(const Function&);
void move_uniform_shuffles(Rewriter&, const Dataflow&, const Known&);

}  // namespace fp4lab::emu
