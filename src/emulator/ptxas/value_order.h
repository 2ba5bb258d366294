// In which order a compiler takes the values that the operands of an instruction hold: ptxas 13.0's, as it
// orders the operands of f64 sums, products and extremes. See value_order.cpp for the rule.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "emulator/ptx/token.h"
#include "emulator/ptxas/constant_places.h"
#include "emulator/ptxas/copies.h"
#include "emulator/ptxas/counted_loop.h"
#include "emulator/ptxas/halves.h"
#include "emulator/ptxas/known.h"
#include "emulator/ptxas/sinking.h"
#include "emulator/ptxas/ssa.h"

namespace fp4lab::emu {

// Copies, and what becomes a part of the instruction that reads it.
bool comes_with_source(const Instr&, const Source&);

class ValueOrder {
 public:
  // `nounroll`: see optimise.h. `are_renamed`: a loop with branches inside has become straight. All values
  // have registers of their own then, and only where they meet are variables.
  ValueOrder(const Function&, const Dataflow&, const Known&, const std::vector<const Token*>& nounroll,
             bool are_renamed);

  // Operands of one instruction, by slot.
  bool comes_later(uint32_t pc, unsigned slot, unsigned than) const;
  // Copies count as what they copy; and what repeats an instruction as what that one made.
  bool are_copies_of_one(uint32_t pc, unsigned slot, unsigned other) const;
  bool same(uint32_t pc, unsigned slot, unsigned other) const;
  // An extreme of two equal operands is known as one of them then, by those behind it in its block.
  void became_copy(uint32_t pc, unsigned slot);
  // Of an atomic sum: what is kept as halves, and no variable, what a store has put elsewhere, constants and
  // what lies in banks.
  bool comes_behind_memory(uint32_t pc, unsigned slot) const;
  // What is computed later than where it stands, see sinking.h.
  const std::vector<Sinking::Reading>& sunk_readings() const { return sunk_readings_; }

 private:
  struct Rank {
    enum class Class : uint8_t { known, variable, copied, met, sunk, joined, routine, stored, constant };
    Class of = Class::known;
    int64_t block = 0, at = 0;
    auto operator<=>(const Rank&) const = default;
  };
  // Constants, as Rank::block.
  static constexpr int64_t kInConst = 0, kAlsoStored = 1, kInRegister = 2, kParameter = 3, kStored = 4,
                           kInInstruction = 5;
  // Values that a register holds by turns, because they meet somewhere.
  struct Web {
    Rank rank;
    bool is_variable = false;  // there are several
    int whole = 0;             // voices for the whole, less those for halves
  };
  struct Held {
    Rank rank;
    // The value, kVariable with it if it is read as a variable; or kConstant and a row, kUnknown and the
    // slot.
    uint64_t is = 0;
    uint64_t copied = 0;        // the same, before what is equal is joined
    uint32_t uniform_uses = 0;  // see value_uniform.cpp
    bool is_variable = false;
  };
  // What a store puts into memory, or a load that has become part of another one.
  struct Stored {
    uint32_t at;
    uint32_t nth;         // of a vector
    const Operand* word;  // none if the store is guarded, and of a load
  };
  // By what they are made of: values that are unlike all before them.
  using Made =
      std::map<std::pair<std::vector<std::string_view>, std::vector<uint64_t>>, std::vector<uint32_t>>;
  static constexpr uint64_t kConstant = uint64_t(1) << 32, kUnknown = uint64_t(1) << 33;
  // What a block reads of a register that others write too is not the value that it holds.
  static constexpr uint64_t kVariable = uint64_t(1) << 35;
  static uint64_t value_of(uint64_t is) { return is & ~kVariable; }

  // Steps within a block: of an instruction, more than it has registers (tcgen05.ld and wgmma).
  static constexpr int64_t kStep = 1024;
  // Of an operand.
  static uint64_t place(uint32_t pc, unsigned slot) { return uint64_t(pc) * kMaxOperands + slot; }

  std::vector<uint32_t> registers_asked_for() const;
  void find_blocks(const Known&);
  uint32_t block_of(const Ssa::Value&) const;
  uint32_t place_of(const Ssa::Value&) const;
  void find_text_blocks();
  uint32_t text_block_of(const Ssa::Value&) const;
  void find_only();
  void find_only_loads();
  void find_webs();
  void rank_webs();
  std::vector<char> webs_that_cross();
  uint32_t web_of(uint32_t value);
  bool is_selection(uint32_t value) const;
  Makes made_as(uint32_t value) const;
  bool is_f64(uint32_t value);
  enum class Through : uint8_t { copies, signs };  // both, if signs
  bool is_seen_through(uint32_t value, uint32_t block, Through = Through::signs);
  std::pair<uint32_t, uint32_t> behind(uint32_t copy, Through = Through::signs);
  uint32_t source_of(uint32_t value, uint32_t block, Through = Through::signs);
  bool is_variable_in(uint32_t value, uint32_t block);
  bool is_met_inside(uint32_t pc) const;
  bool leads_into_loop(uint32_t pc, const Known&) const;
  void count_uses(const Known&);
  uint32_t equal_for_votes(uint32_t v) const;
  bool is_repeated_load(uint32_t pc) const;
  bool is_counted_copy(uint32_t pc) const;
  std::vector<char> copies_of_their_own();
  enum class Carry : uint8_t { unread, alone, beside_result };  // of a sum or product: who reads it
  std::vector<Carry> carries_read() const;
  std::vector<char> values_with_readers() const;
  bool is_unwanted_reciprocal(uint32_t pc) const;
  void count_operands(uint32_t pc, Carry);
  void count_use(uint32_t value, uint32_t pc, unsigned slot, int whole, Through, Carry);
  int voices_of_rounds(uint32_t value, uint32_t pc) const;
  void sum_voices();
  int whole_until(uint32_t value, uint32_t stretch) const;
  int definition(uint32_t value);
  bool is_joined(uint32_t value) const;
  Held held(uint32_t pc, unsigned slot);
  uint32_t shown_to(uint32_t value, uint32_t pc);
  bool is_uniform(uint32_t pc, const Operand&);
  bool is_uniform(uint32_t pc, uint32_t reg);
  bool loads_uniform(uint32_t pc);
  bool is_bank(uint32_t value) const;
  bool computes_uniform(uint32_t pc);
  void find_signs_in_vector(const Known&);
  void find_uniform(const Known&);
  void count_uniform_uses();
  bool changes_places(uint32_t pc, const Held& first, const Held& second) const;
  bool is_ranked_later(uint32_t pc, unsigned slot, unsigned than) const;
  uint64_t copied_from(uint32_t value);
  bool is_copy(uint32_t pc) const;
  uint64_t shown_by(uint32_t value);
  uint64_t shown_by(uint32_t pc, uint32_t reg);
  bool may_repeat(uint32_t pc) const;
  std::pair<uint64_t, uint64_t> address(uint32_t pc, const Operand&);
  std::vector<uint64_t> in_memory(uint32_t pc, const Operand& at, uint32_t state);
  std::optional<std::vector<uint64_t>> ingredients(uint32_t pc, const Known&);
  uint64_t nth_result(uint32_t value) const;
  enum class Rounds : uint8_t { apart, joined };
  bool is_left_apart(uint32_t pc, uint32_t other, Rounds) const;
  void find_equals(const Known&);
  void find_repeated_copies();
  void join_rounds(const Known&);
  void join_equals(const Known&, Rounds);
  struct Load {
    uint32_t value, state;
    std::vector<std::string_view> operation;
  };
  struct Address {
    uint32_t base;  // the value; Ssa::kNone = none
    uint64_t offset;
  };
  struct Walk {
    std::vector<uint32_t> path;  // values on the way
    unsigned steps = 0;
  };
  unsigned zeros_of(uint32_t value, const Known&, Walk&);
  unsigned zeros_made_by(uint32_t pc, const Known&, Walk&);
  Address address_behind_sums(uint32_t pc, const Operand&, const Known&);
  struct Access {
    Address at;
    unsigned bytes;
  };
  // What shows how addresses are aligned.
  struct Vectors {
    std::vector<char> wanted;  // by value: something reads it
    std::vector<Access> at;
  };
  std::vector<char> wanted_values(const Known&);
  std::vector<Access> vector_accesses(const Known&, const std::vector<char>& wanted);
  Vectors vectors_in_memory(const Known&);
  bool is_aligned(const Address&, unsigned bytes, const Vectors&, const Known&);
  bool is_vector_of_words(uint32_t pc, const Operand& data, const Operand& at, const Vectors&, const Known&);
  void find_pairs(const std::vector<Load>&, const Vectors&, const Known&);
  void forward_store(uint32_t pc, uint32_t state, const Made&, const Vectors&, const Known&);
  uint64_t shown_behind_stores(uint32_t value);
  std::vector<std::vector<uint32_t>> readers_of_results(bool joined);
  void find_sunk();
  void find_straight_loops();
  void find_round_behind_test(uint32_t begin, uint32_t end);
  uint32_t straight_loop_at(uint32_t pc) const;
  uint32_t any_straight_loop_at(uint32_t pc) const;
  void find_rounds();
  std::vector<char> values_of_the_round_before();
  bool has_left_rounds(uint32_t value, uint32_t pc) const;
  std::optional<uint32_t> comes_from_round_before(uint32_t value, uint32_t pc) const;
  std::optional<Rank> constant_addend(uint32_t pc) const;
  bool takes_constant_behind(uint32_t pc) const;
  uint32_t first_of_equals(uint32_t pc) const;
  // Of a routine.
  struct Call {
    uint32_t result;       // the value
    bool is_local = true;  // its own block alone reads it
    bool is_used = false;  // not just by the next call of the routine
  };
  // What several rounds make of the same.
  struct Invariant {
    uint32_t first;  // the value that the first of them makes
    bool is_of_variable = false;
    bool is_of_first_block = false;  // it stands there as well
  };
  std::map<Named, uint32_t> first_copies();
  void find_invariants();
  std::vector<std::vector<Call>> calls_of_routines();
  void find_called_quotients(const Known&);
  // Roots and reciprocals of constants, to the nearest: what becomes of the code.
  enum class Root : uint8_t { inline_code, only_call, several_calls, returned_constant };
  void find_constant_roots(const Known&);
  bool is_constant_root(uint32_t pc, Root) const;
  void find_extended_shifts(const Known&);
  void find_shared_results();
  std::map<uint32_t, std::vector<ConstantPlaces::Use>> constant_uses(const Known&) const;
  void find_constant_places(const Known&);
  std::optional<unsigned> second_constant(uint32_t pc) const;
  uint64_t without_sign(uint64_t factor) const;
  std::optional<ConstantPlaces::Use> constant_use(uint32_t pc, const Known&) const;
  std::optional<Rank> shared_result(const Ssa::Value&) const;
  Rank rank(uint32_t value, uint32_t pc, unsigned slot);
  Rank rank_of_constant(uint64_t bits, uint32_t reader) const;
  Rank rank_of_constant(const Operand&, uint32_t reader) const;
  // A constant of the text, not of a bank.
  static bool is_written(const Rank& constant) {
    return constant.block == kAlsoStored || constant.block == kInRegister || constant.block == kInInstruction;
  }
  Rank made_at(const Ssa::Value&, uint32_t reader) const;
  Rank rank_of_stored(uint32_t load, const Stored&);
  static Rank rank_of_last(const Web&);
  Rank rank_of_variable(uint32_t value, uint32_t pc, unsigned slot);
  Rank joined(uint32_t value, uint32_t pc, unsigned slot, bool is_part);

  const Function& f_;
  const Dataflow& flow_;
  const bool are_renamed_;
  const Known::Stores& stored_constants_;
  const std::vector<CountedLoop> unrolled_;
  Ssa ssa_;
  Sinking::Blocks places_;  // where sinking.h computes something
  Sinking::Blocks
      blocks_;  // the same, but that fences end none: another block sees of a variable not the value
  std::vector<uint32_t> calls_before_;                   // by pc: how many the text has before it
  std::vector<uint32_t> stretch_reads_, stretch_makes_;  // as blocks_ has them; they end at ends_stretch, too
  std::vector<uint32_t> text_reads_, text_makes_;        // as blocks_ has them, but by the blocks of the text
  std::vector<uint32_t> parent_;                         // of a value, towards its web's name
  std::vector<char> meets_;                              // values that others are merged from
  std::vector<uint32_t> only_;  // of what several ways bring as copies of one value: that value
  std::unordered_map<uint32_t, uint32_t> made_;  // by pc, of one result
  std::unordered_map<uint32_t, bool> is_f64_;    // by value, once it was asked for
  std::vector<uint32_t> equal_;  // the value that an equal instruction made before it, or the value itself
  std::unordered_map<uint32_t, Stored> forwarded_;  // by value, of loads
  // By value, so that chains of copies are walked once: what it shows, and where (behind); what it copies.
  std::vector<std::pair<uint32_t, uint32_t>> behind_[2];  // by Through
  std::vector<uint64_t> copied_;                          // kUnknown: not walked yet
  std::vector<int> whole_;                                // of a value, as Web::whole
  // By value: made of constants and banks alone; of those in uniform registers, how many sums and products
  // read them.
  std::vector<char> is_computed_;
  std::vector<uint32_t> uniform_uses_;
  std::vector<char> has_readers_;                 // by value
  std::unordered_set<uint32_t> signs_in_vector_;  // by pc: copysign of constants in registers of each thread
  struct Voice {
    uint32_t stretch;
    int whole, with_later = 0;  // the reader's; and those behind it
  };
  std::vector<std::vector<Voice>> voices_;  // of readers that whole_ counts, by stretch
  struct Reader {
    uint64_t place;
    bool is_of_value;  // not of the variable that it is part of
  };
  std::vector<std::vector<Reader>> readers_;  // of a value as a whole, in the text's order
  struct Sunk {
    uint32_t block = Ssa::kNone, weight = 0, root = 0;  // the block that computes it; kNone = its own
    uint32_t copies = 0;                                // see Sinking
  };
  std::vector<Sunk> sunk_;  // by pc
  std::vector<Sinking::Reading> sunk_readings_;
  std::vector<std::pair<uint32_t, uint32_t>> straight_loops_;  // the first and last instruction of each
  std::vector<uint32_t> last_round_;                           // of each: where it begins
  struct TestedAtBegin {
    uint32_t begin, last_round, end;  // the first instruction, that of the last round, and the last one
  };
  std::vector<TestedAtBegin> tested_at_begin_;  // other loops that have become straight
  std::vector<uint32_t> leaves_;        // of a value: the straight loop that it comes out of; kNone = none
  std::vector<char> is_read_behind_;    // by value: behind that loop
  std::vector<char> is_of_all_rounds_;  // by value of a last round: the rounds before made the same
  std::vector<char> is_copied_;         // by pc
  std::unordered_map<uint32_t, Invariant> invariants_;  // by value
  std::unordered_set<uint32_t> called_quotients_;       // to the nearest, by pc
  std::unordered_map<uint32_t, Root> constant_roots_;   // by pc
  std::unordered_set<uint32_t> extended_shifts_;        // see find_extended_shifts, by pc
  std::unordered_set<uint32_t> lead_into_loops_;   // by pc: several ways of its code meet at a loop's head
  std::unordered_map<uint32_t, uint32_t> shared_;  // by pc of a call: the first call; kNone = all are late
  std::vector<Web> webs_;                          // by name
  std::unordered_map<uint64_t, Held> held_;        // by pc and slot
  std::unordered_map<uint64_t, uint64_t> late_copies_;  // by value, see became_copy
  std::map<uint32_t, ConstantPlaces> constant_places_;  // by how many calls there are before
};

}  // namespace fp4lab::emu
