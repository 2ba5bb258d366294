// What the text of a function shows about operands: which instruction made them, which bits they have and
// whether they are the same in every thread, because only constants went into them.
#pragma once

#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/evaluate.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// Of a float, or of one of a pair.
bool is_nan(uint64_t bits, Type);

class ReachingWrites;

class Known {
 public:
  static constexpr unsigned kSlots = 6;  // operands 1 to 5

  Known(const Rewriter& w, const Dataflow& flow) : Known(w, flow, flow) {}
  // `blocks`: the same as the compiler sees it when it looks at pairs, without idle loops and with unwanted
  // routines.
  Known(const Rewriter&, const Dataflow& flow, const Dataflow& blocks);

  // The unguarded instruction that made an operand on every way that leads here, if the compiler sees both.
  // Dataflow::kNone if there are several, or none.
  uint32_t maker(uint32_t pc, unsigned slot) const {
    const uint32_t from = makers_[pc][slot];
    return from == Dataflow::kNone || sees(pc, from) ? from : Dataflow::kNone;
  }
  uint32_t maker_of_element(uint32_t pc, uint32_t element) const {
    const uint32_t from = element_makers_[element];
    return from == Dataflow::kNone || sees(pc, from) ? from : Dataflow::kNone;
  }
  // The same whether the compiler sees both or not: enough for what instructions read from a bank.
  uint32_t only_maker(uint32_t pc, unsigned slot) const { return makers_[pc][slot]; }
  // The same of the guard of an instruction.
  uint32_t guard_maker(uint32_t pc) const { return guard_makers_[pc]; }
  // Whether the compiler makes something of an instruction and the one that made its operand.
  bool sees(uint32_t pc, uint32_t maker) const { return !meets_[maker] || block_[maker] == block_[pc]; }
  // Whether an operand met another value behind branches before it is read.
  bool is_variable(uint32_t pc, unsigned slot) const { return merged_[pc] >> slot & 1; }
  // Whether what an instruction made meets another value behind branches.
  bool becomes_variable(uint32_t pc) const { return meets_[pc]; }
  bool is_in_block(uint32_t a, uint32_t b) const { return block_[a] == block_[b]; }
  // Whether the compiler lets the instruction at pc read what another one before it has read: in another
  // block not if what made one of its operands meets another value behind branches.
  bool may_read_for(uint32_t pc, uint32_t other) const;
  // How many operands hold what an instruction made; more than one also where that is not known.
  uint32_t uses(uint32_t pc) const { return uses_[pc]; }
  // Of a constant, and of what was computed from constants alone. Not of NaNs that arithmetic makes: there
  // the compiler has its own ways.
  std::optional<uint64_t> bits(uint32_t pc, unsigned slot) const;
  // Of a vector's element.
  std::optional<uint64_t> bits_of_element(uint32_t pc, uint32_t index) const;
  // Of what an instruction makes.
  std::optional<uint64_t> result(uint32_t pc) const { return bits(f_.code[pc].op[0], pc, pc + 1); }
  // Where in the CTA's shared memory the variable lies whose address is an operand.
  std::optional<uint64_t> shared_address(const Operand&) const;
  // Of the instruction's guard: whether it always holds, or never.
  std::optional<bool> guard(uint32_t pc) const;
  // Whether the guard is decided by a constant that a register holds by turns with other values and another
  // block reads, or one that logic of 64 bits makes, say: the compiler knows such constants later.
  bool is_decided_late(uint32_t pc) const;
  bool is_constant(uint32_t pc, unsigned slot) const;
  // The same within straight-line code.
  bool is_constant_here(uint32_t pc, unsigned slot) const;
  bool is_result_constant(uint32_t pc) const { return constant_[pc]; }
  // Of 64 bits, that registers hold which are stored as a whole.
  using Stores = std::unordered_map<uint64_t, std::vector<uint32_t>>;  // where, in the text's order
  const Stores& stored_constants() const { return stored_; }
  // Beside another 64 bits, as a vector: where first.
  const std::unordered_map<uint64_t, uint32_t>& constants_stored_in_pairs() const { return stored_in_pairs_; }
  // Whether an instruction of f64 other than the one at pc, and none that repeats it, reads a constant.
  bool has_other_reader(uint64_t bits, uint32_t pc) const;
  // Whether a constant of f64 is in a register that the instruction at pc shares with a store, or with
  // another instruction of f64 if its lower half is not 0: with one before it, or just behind it in the same
  // block.
  bool shares_register(uint64_t bits, uint32_t pc) const;
  // An operand is made within straight-line code, and so is all that a constant or a copy was made of.
  bool comes_from_here(uint32_t pc, unsigned slot) const;
  // What comes of a comparison, by set or setp, of a value with itself or with a constant NaN: the same for
  // all values, not combined with a predicate, and not of pairs.
  std::optional<bool> outcome(uint32_t pc) const;
  // With .ftz abs and neg are computed of no constants but those that the straight-line code itself makes.
  bool leaves_sign(uint32_t pc) const;
  // What an instruction makes counts as constant from now on, in operands behind it.
  void mark_constant(uint32_t pc) { constant_[pc] = 1; }
  // A rule has replaced an instruction: nothing is known about its operands.
  void forget(uint32_t pc) {
    makers_[pc].fill(Dataflow::kNone);
    moved_.clear();
  }
  // But for who made what is its first operand now.
  void learn(uint32_t pc, uint32_t maker) { makers_[pc][1] = maker; }

 private:
  void find_makers(const Dataflow&, const ReachingWrites&);
  void find_meetings(const Dataflow&, const ReachingWrites&);
  void find_blocks(const Dataflow&);
  void find_stretches(const Dataflow&);
  void find_made_here(const Dataflow&);
  void find_constants(const Dataflow&);
  void find_stored(const Dataflow&);
  void find_readers(const Dataflow&);
  void find_values(const Rewriter&, const Dataflow&);
  void compute_values(const Rewriter&, const Dataflow&);
  void forget_left();
  bool takes_canonical_nan(uint32_t pc) const;
  template <class F>
  bool reads_only(uint32_t pc, F&& fits) const;
  bool is_row(const Operand&) const;
  bool are_opposite(uint32_t pc, unsigned a, unsigned b) const;
  std::optional<uint64_t> decided(uint32_t pc) const;
  bool is_constant(const Operand&, uint32_t maker, uint32_t pc) const;
  std::optional<uint64_t> bits_of_row(const Operand&) const;
  std::optional<uint64_t> bits(const Operand&, uint32_t maker, uint32_t pc) const;

  const Function& f_;
  std::unordered_map<uint32_t, uint64_t> rows_;    // of constants whose bits are known, by offset
  std::unordered_map<uint32_t, uint64_t> shared_;  // of addresses in shared memory
  std::vector<std::array<uint32_t, kSlots>> makers_;
  std::vector<uint8_t> merged_;           // a bit for each slot whose value met another behind branches
  std::vector<uint32_t> element_makers_;  // by index in the function's vectors
  std::vector<uint32_t> guard_makers_;
  std::vector<uint32_t> uses_;
  std::vector<char> meets_;        // what it made becomes a variable
  std::vector<uint32_t> block_;    // which basic block an instruction stands in
  std::vector<uint32_t> stretch_;  // which straight-line code an instruction stands in
  std::vector<char> made_here_, constant_;
  Stores stored_;
  std::vector<uint32_t> left_before_;  // by pc: how many instructions that are no copies and not dead
  std::unordered_map<uint64_t, uint32_t> stored_in_pairs_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> readers_;  // of constants, instructions of f64
  std::unordered_map<uint32_t, uint32_t> repeated_;              // by those that repeat one of them
  std::vector<char> makes_nan_;  // arithmetic of constants that the compiler leaves to execute
  Values values_;
  mutable std::unordered_map<uint32_t, std::optional<uint64_t>>
      moved_;  // by moves that were asked: their sources
};

}  // namespace fp4lab::emu
