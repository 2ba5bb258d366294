// Which value each read of a register sees: static single assignment form, pruned, of some of a function's
// registers. Instructions whose results nobody reads make no values.
#pragma once

#include <unordered_map>
#include <vector>

#include "emulator/ptxas/dataflow.h"

namespace fp4lab::emu {

class Ssa {
 public:
  struct Value {
    enum class Kind : uint8_t {
      unknown,  // what the register holds before anything is written to it
      made,     // by the instruction `at`
      merged,   // of the operands, where several ways meet: at the begin of the block, `at`
      kept,     // by the guarded instruction `at`: the operands are what it found and what it made
    };
    Kind kind;
    uint32_t block, at, reg;
    std::vector<uint32_t> operands;  // other values
  };
  static constexpr uint32_t kNone = Dataflow::kNone;

  // Several ways leave these instructions for a block, though the text shows one: what they write is merged
  // there.
  struct Stretch {
    std::vector<uint32_t> pcs;
    uint32_t out;
  };
  // Of the registers with these numbers of the data flow.
  Ssa(const Function&, const Dataflow&, std::vector<uint32_t> registers, const std::vector<Stretch>& = {});

  // Nothing was found out, because it would take too much memory.
  bool is_too_big() const { return is_too_big_; }
  static bool is_too_big(size_t blocks, size_t registers) { return blocks * registers > (size_t(1) << 24); }
  const std::vector<Value>& values() const { return values_; }
  bool knows(uint32_t reg) const { return index_.contains(reg); }
  // The value that an instruction reads in a register; kNone if it does not, or nobody asked for the
  // register.
  uint32_t read(uint32_t pc, uint32_t reg) const;
  // Every way to the block comes through the other.
  bool dominates(uint32_t other, uint32_t block) const;
  // Those that some way leads to, in reverse post-order.
  const std::vector<uint32_t>& order() const { return order_; }
  // The last block on every way to one; kNone if there is none.
  uint32_t dominator(uint32_t block) const { return up_[block] == block ? kNone : up_[block]; }

 private:
  void number_blocks();
  void place_merges(const std::vector<Stretch>&);
  void name_values();
  uint32_t add(Value);
  uint32_t index_of(uint32_t reg) const;
  size_t cell(uint32_t block, uint32_t index) const { return size_t(block) * registers_.size() + index; }

  const Function& f_;
  const Dataflow& flow_;
  std::vector<uint32_t> registers_;
  std::unordered_map<uint32_t, uint32_t> index_;  // into registers_
  std::vector<uint32_t> order_, up_;              // blocks in reverse post-order; immediate dominators
  std::vector<uint32_t> place_, below_;           // of a block among all; how many it dominates, itself too
  std::vector<uint32_t> merged_, end_;            // values at a block's begin, if it merges, and end; by cell
  std::vector<Value> values_;
  std::unordered_map<uint64_t, uint32_t> reads_;  // by pc and register
  bool is_too_big_ = false;
};

}  // namespace fp4lab::emu
