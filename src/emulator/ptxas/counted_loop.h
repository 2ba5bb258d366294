// Loops that count: what ptxas 13.0 unrolls (observed).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "emulator/ptx/token.h"
#include "emulator/ptxas/dataflow.h"

namespace fp4lab::emu {

// An innermost loop in one stretch of the text, entered at its begin alone. A register grows by a constant in
// each round and is compared with what does not change; whether the loop goes on is decided at the end of the
// last block (which branches back where the comparison holds, or leaves before a branch back that is a block
// of its own), or at that of the first (which leaves).
struct CountedLoop {
  uint32_t begin = 0, back = 0;  // its first instruction, and the branch back to it: its last one
  uint32_t test = 0;             // the branch by the comparison; `back`, or one at the end of the first block
  uint32_t out = 0;              // the block where the test leaves
  uint32_t step_at = 0, compared_at = 0;  // where the register grows, and is compared
  bool leaves_at_end = false;             // by the instruction before the branch back
  bool has_other_exits = false;
  // From where several ways have met, with nothing but copies and signs between.
  bool is_entered_by_several = false;
  // It counts down to the opposite of a register. Between the rounds that ptxas takes together it asks for
  // that register instead.
  bool loses_sign = false;
  int64_t step = 0;                // by which the register grows
  bool says_unsigned = false;      // the comparison is lo, ls, hi or hs: it stays a loop
  std::optional<uint32_t> rounds;  // of all that stands behind the test, or before it if that is at the end
  std::vector<uint32_t> changing;  // instructions but those that the compiler moves before the loop
  std::vector<uint32_t> leaving;   // those whose results it changes for the code behind it
  uint32_t size = 0;               // how many they are; a store is two, and so is a shift of 64 bits
  bool is_light = false;           // see loop_weight.h
  bool stores_loaded = false;      // see stored_load.h
  // Behind a branch inside it a predicate may be the one of a round before, or of before the loop.
  bool carries_predicate = false;

  bool is_tested_at_end() const { return test == back || leaves_at_end; }
  uint32_t length() const { return back - begin + 1; }
};

// Without those that have a pragma before or in their first block (PTX ISA 11.4.7), or before the body.
std::vector<CountedLoop> counted_loops(const Function&, const Dataflow&,
                                       const std::vector<const Token*>& nounroll);

// Of "lt", "le", "gt", "ge", "eq" and "ne" the one that holds where it does not.
std::string_view negated_comparison(std::string_view);

// ptxas makes straight-line code of it.
bool becomes_straight(const CountedLoop&);
// ptxas makes several loops of it, of four rounds at once, two and one.
bool becomes_several(const Function&, const CountedLoop&);

}  // namespace fp4lab::emu
