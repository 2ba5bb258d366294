// Products that only sums read, and what stands between: the parts of which contraction makes fma.
#pragma once

#include <optional>
#include <vector>

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// A flushed negation is a neg.ftz, which changes nothing else in a product with .ftz: ptxas takes one up too,
// but no negation behind it.
enum class Shape : uint8_t { other, product, sum, copy, negation, flushed_negation };
Shape shape_of(const Instr&, const Source&);
// Of one type, and both with .ftz or without.
bool same_kind(const Source& a, const Source& b);
// An unguarded neg without .ftz that products go through. (Of bf16x2 ptxas negates with an fma of its own.)
bool is_negation(const Instr&, const Source&);
// Whether a product, or what a neg.ftz has made of it already (is_flushed), goes on through a negation.
bool goes_on_through(Shape negation, const Source&, const Source& product, bool is_flushed);

struct SummedProduct {
  uint32_t pc;
  struct Use {
    uint32_t pc;
    bool second, negated;  // which operand of the sum; whether it is the product's negation
  };
  std::vector<Use> uses;
};

// The products by what machine code has as a constant: a number, a kernel's parameter, what lies at a fixed
// address of .const memory. ptxas 13.0 takes them up into sums of any block, as if each stood in front of its
// sum; other products only within their block. One without uses is read otherwise too. Nothing for a function
// that is too big. A product with .ftz that only a neg.ftz of its block reads is such a one too: the negation
// is a sum with -0, thus fma(-a, b, -0), and ptxas makes fma(-a, b, c) where c is added to that, whatever
// else reads it. `part` is equal for instructions of one of ptxas's blocks, within one of the data flow.
std::optional<std::vector<SummedProduct>> constant_products(const Rewriter&, const Dataflow&, const Known&,
                                                            const std::vector<uint32_t>& part);

}  // namespace fp4lab::emu
