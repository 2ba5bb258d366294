// Which results ptxas 13.0 computes later than the text does ("rematerialises"): what only blocks far away
// need, and what is made of values that are no arithmetic and kept across blocks anyway, is computed on the
// way there.
#pragma once

#include <vector>

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/ssa.h"

namespace fp4lab::emu {

// By block of the data flow.
std::vector<char> blocks_in_loops(const Dataflow&, const Ssa&);

class Sinking {
 public:
  // Blocks as the compiler sees them, in the text's order: those of the data flow, which also end where an
  // instruction becomes a branch. By pc: where an instruction stands, and where its result is made.
  struct Blocks {
    std::vector<uint32_t> reads, makes, flow;
  };
  // Of values in registers that `ssa` knows: `users` by pc, who reads the result; `is_variable` by value, it
  // is one of several that a register holds by turns.
  Sinking(const Function&, const Dataflow&, const Ssa&, const Blocks&,
          const std::vector<std::vector<uint32_t>>& users, const std::vector<char>& is_variable);

  static constexpr uint32_t kNone = Dataflow::kNone;
  // The block at whose end the result is computed; kNone = where it stands. There, what weighs less comes
  // first.
  uint32_t place(uint32_t pc) const { return place_[pc]; }
  uint32_t weight(uint32_t pc) const { return weight_[pc]; }
  // For whom it is computed there: itself, or one who reads it.
  uint32_t root(uint32_t pc) const { return root_[pc]; }
  // Whether it is computed again for who reads it and moves elsewhere, behind what else stands there: 0 = it
  // is not; what is computed so for others comes behind them.
  uint32_t copies(uint32_t pc) const { return copies_[pc]; }

  // Of what is computed at one place: one instruction reads what another makes there, which may be a copy of
  // what others read elsewhere.
  struct Reading {
    uint32_t place, made, reader;
    bool moves;  // the reader is computed there alone
    auto operator<=>(const Reading&) const = default;
  };
  std::vector<Reading> sunk_readings() const;  // sorted

 private:
  // What an instruction makes, in its own block.
  struct Result {
    std::vector<uint32_t> readers;
    bool is_kept = false;  // another block reads it, too
  };
  void find_dominators();
  void find_results();
  void find_kept(uint32_t flow_block);
  bool reads_behind_guard(uint32_t pc, uint32_t reg) const;
  uint32_t maker(uint32_t reader, uint32_t reg) const;
  uint32_t maker_of_its_own(uint32_t reader, uint32_t reg) const;
  uint32_t weigh(uint32_t root, const std::vector<std::vector<uint32_t>>& users);
  bool is_part_of_any_reader(uint32_t pc) const;
  bool has_several_readers(uint32_t pc, const std::vector<uint32_t>& users) const;
  bool go_with_readers(uint32_t pc, const std::vector<uint32_t>& readers);
  bool can_move(uint32_t pc) const;
  bool can_have(uint32_t pc, uint32_t reg) const;
  bool is_leaf(uint32_t pc) const;
  uint32_t find_copies(uint32_t pc, const std::vector<uint32_t>& users) const;
  uint32_t find_place(uint32_t pc, const std::vector<uint32_t>& users);
  uint32_t common(uint32_t, uint32_t);
  uint32_t last(uint32_t flow_block) const;
  uint32_t before(uint32_t block) const;

  const Function& f_;
  const Dataflow& flow_;
  const Ssa& ssa_;
  const Blocks& blocks_;
  const std::vector<char>& is_variable_;
  std::vector<uint32_t> writes_, writer_;  // by register: how many instructions write it, and the last one
  std::vector<uint32_t> up_, depth_;       // by block: the immediate dominator, how many there are
  std::vector<uint32_t> flow_block_;       // by block
  std::vector<char> in_loop_;              // by block of the data flow
  std::vector<Result> results_;            // by pc
  std::vector<std::vector<uint32_t>> made_here_;  // by pc: who made what it reads, if it is of the same block
  std::vector<char> can_move_;                    // by pc
  std::vector<uint32_t> place_, root_, weight_;
  std::vector<char> reads_routine_;  // by pc: the instruction, or what would move with it
  std::vector<uint32_t> copies_;     // by pc
  uint32_t steps_ = 1u << 24;        // up the dominators that are left: a bound for hostile texts
};

}  // namespace fp4lab::emu
