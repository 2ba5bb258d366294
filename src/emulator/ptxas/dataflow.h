// What the instructions of one function read and write, register by register, and which of their results
// anyone reads: what a compiler knows before it rewrites code.
#pragma once

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/core/ir.h"
#include "emulator/isa/table.h"
#include "emulator/ptx/dominators.h"
#include "emulator/ptx/flow.h"

namespace fp4lab::emu {

// The predicate that guards an instruction, as an operand.
Operand guard_of(const Instr&);

// The offsets of rows that nothing writes.
struct ConstantRows : std::unordered_set<uint32_t> {
  std::unordered_set<uint32_t> of_lanes;  // those in which the lanes of a warp differ: %tid and the like
};

class Dataflow {
 public:
  // rows[pc] is the table's row of code[pc]; `constants` are the offsets of rows that nothing writes. `idle`:
  // branches that are taken for none. Calls of routines (see routine.h) count as wanted though nobody reads
  // their results, as they do for the compiler for a while, or only if somebody does.
  enum class Calls { when_wanted, always };
  Dataflow(const Module&, const Function&, std::span<const Entry* const> rows, const ConstantRows& constants,
           std::span<const uint32_t> idle = {}, Calls calls = Calls::when_wanted);

  struct Block {
    uint32_t begin = 0, end = 0;
    std::vector<uint32_t> successors, predecessors;
  };
  // Registers by number; a guard is among the reads.
  struct Access {
    std::vector<uint32_t> reads, writes;
  };
  static constexpr uint32_t kNone = 0xffffffff;

  // Nothing was found out about the results, because it would take too much memory.
  bool is_too_big() const { return is_too_big(blocks_.size(), numbers_.size()); }
  static bool is_too_big(size_t blocks, size_t registers) { return blocks * registers > (size_t(1) << 27); }
  const std::vector<Block>& blocks() const { return blocks_; }
  uint32_t block_of(uint32_t pc) const;  // its number
  const Access& access(uint32_t pc) const { return access_[pc]; }
  // It reads a special register in which the lanes of a warp differ.
  bool asks_lane(uint32_t pc) const { return asks_lane_[pc]; }
  // Nobody reads what it makes, and it does nothing else.
  bool is_dead(uint32_t pc) const { return dead_[pc]; }
  // It only makes values out of values, or loads.
  bool is_pure(uint32_t pc) const;
  // ptxas 13.0 makes branches of it, so that its basic block ends here (observed).
  bool becomes_branch(uint32_t pc) const;
  // Because it is guarded and does more than compute, whether somebody wants it or not.
  bool branches_under_guard(uint32_t pc) const;
  // A load that machine code has none for, because instructions read constant banks themselves: of a kernel's
  // parameter, or at a fixed address of .const memory.
  bool is_in_bank(uint32_t pc) const;
  // Whether something may read a register before anything has written it.
  bool lives_at_entry(uint32_t reg) const { return has(live_in_, reg); }
  bool lives_behind(uint32_t block, uint32_t reg) const { return has(live_out_[block], reg); }
  bool any_lives_before(uint32_t block, std::span<const uint32_t> regs) const;
  size_t registers() const { return numbers_.size(); }
  // Of a register of any type; kNone for constants and what else is no register.
  uint32_t number_of(const Operand&) const;
  uint32_t number_of_base(const Operand& address) const;

 private:
  void collect(uint32_t pc, const Entry& row);
  void add(const Operand&, Access&, bool read, bool write);
  uint32_t number(uint64_t key);
  static uint64_t key_of(const Operand&);
  bool remove_idle_branches();
  bool is_idle(uint32_t pc) const;
  void remove_branch(uint32_t pc);
  void find_blocks();
  using RegisterSet = std::vector<uint64_t>;  // a bit each
  static bool has(const RegisterSet& set, uint32_t reg) { return set[reg / 64] >> reg % 64 & 1; }
  void find_live();
  bool is_pure_but_for_carry(uint32_t pc) const;
  bool is_kept(uint32_t pc) const;
  bool is_copy_of_itself(uint32_t pc) const;
  bool visit_backwards(uint32_t pc, RegisterSet& live) const;

  const Function& f_;
  const ConstantRows& constants_;
  const Calls calls_;
  uint32_t carry_ = kNone;   // the number of the flag, if anything reads it
  std::vector<Flow> flows_;  // by pc
  std::unordered_map<uint64_t, uint32_t> numbers_;
  std::vector<Block> blocks_;
  std::vector<Access> access_;
  std::vector<char> asks_lane_;
  std::vector<RegisterSet> live_out_;  // by block
  RegisterSet live_in_;                // of the function
  std::vector<char> dead_;
};

// Of its blocks, from the first one.
Dominators dominators_of(const Dataflow&);

}  // namespace fp4lab::emu
