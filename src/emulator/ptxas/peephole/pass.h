// One pass over a function: what its rules ask about operands, and what they change.
#pragma once

#include <bit>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/behind_copies.h"
#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/known.h"
#include "emulator/ptxas/peephole/logic.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu::peephole {

inline float float_of(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
inline bool is_nan32(uint64_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }
inline bool is_nan64(uint64_t bits) { return (bits & ~(uint64_t(1) << 63)) > 0x7ff0000000000000; }
inline uint64_t quiet32(uint64_t bits) { return is_nan32(bits) ? bits | 0x400000 : bits; }
inline uint64_t flushed32(uint64_t bits) { return bits & 0x7f800000 ? bits : bits & 0x80000000; }

class Pass {
 public:
  Pass(Rewriter& w, const Dataflow& flow, Known& known) : w(w), f(w.f), flow(flow), known(known) {}

  Rewriter& w;
  Function& f;
  const Dataflow& flow;
  Known& known;

  const Source& source(uint32_t pc) const { return f.source[pc]; }
  Operand& operand(uint32_t pc, unsigned slot) const { return f.code[pc].op[slot]; }
  std::optional<uint64_t> bits(uint32_t pc, unsigned slot) const { return known.bits(pc, slot); }
  // The unguarded instruction that made an operand; copies on the way count as none but for what is wanted.
  std::optional<uint32_t> behind_copies(uint32_t pc, unsigned slot, std::string_view wanted = {}) const;
  // The same if it has this mnemonic.
  std::optional<uint32_t> made_by(uint32_t pc, unsigned slot, std::string_view mnemonic) const;
  // And if the compiler lets the instruction at pc read its operands too.
  std::optional<uint32_t> open_maker(uint32_t pc, unsigned slot, std::string_view mnemonic) const {
    const auto from = made_by(pc, slot, mnemonic);
    return from && known.may_read_for(pc, *from) ? from : std::nullopt;
  }
  bool same_register(uint32_t pc, unsigned a, unsigned b) const;
  // One register, or copies of one value.
  bool same_operands(uint32_t pc, unsigned a, unsigned b) const {
    return same_register(pc, a, b) || same_copies(pc, a, pc, b);
  }
  bool is_copy(uint32_t pc) const { return emu::is_copy(f.code[pc], source(pc)); }
  // What instructions with the same maker read in one register.
  bool same_value(uint32_t pc, unsigned slot, uint32_t other, unsigned of_other) const;
  // The same behind copies.
  bool same_copies(uint32_t pc, unsigned slot, uint32_t other, unsigned of_other) const;
  // A register holds the same at two places of which the first comes before the second.
  bool holds_same(uint32_t first, unsigned slot, uint32_t second, unsigned of_second) const;
  struct Reader {
    uint32_t pc;
    unsigned slot;
    uint32_t element;  // which one of a vector it is; kNone if the operand is none
  };
  // The operands, and elements of vectors, that hold what an instruction made before the pass.
  const std::vector<Reader>& readers(uint32_t pc);
  // What an operand holds at pc, for a later instruction.
  Operand kept(uint32_t pc, unsigned slot);

  void insert(uint32_t pc, Rewriter::Tokens, std::vector<Operand>);
  // The rules of one instruction end here.
  void replace(uint32_t pc, Rewriter::Tokens, std::vector<Operand> sources);
  void become(uint32_t pc, uint64_t value, Type);
  void become_copy(uint32_t pc, const Operand& of, Type);
  // Of an operand, so that what reads the copy sees who made it.
  void become_copy_of(uint32_t pc, unsigned slot, Type);
  void set_operand(uint32_t pc, unsigned slot, uint64_t value);
  void set_operand(const Reader&, uint64_t value);
  // Nothing is known about the instruction's operands behind it.
  void exchange(uint32_t pc, unsigned slot, unsigned other);

  // Those that go back in the text.
  const std::vector<uint32_t>& branches_back();
  // How many membar and fence stand before pc.
  uint32_t fences_before(uint32_t pc);
  // Whether the compiler looks at pairs once more (folded_again.cpp).
  bool is_folded_again() const;
  std::unordered_map<uint32_t, bool> takes_extreme;       // what three_way.cpp has found out
  std::unordered_map<uint32_t, TableLogic> merged_logic;  // what logic.cpp has made with a free place
  std::unordered_set<uint32_t> dropped_absolutes;         // what pack.cpp has made copies
  std::unordered_set<uint64_t> asked_extremes;            // whose predicate a comparison asks: extreme.cpp
  std::unordered_set<uint32_t> asked_logic;               // and logic.cpp
  std::unordered_map<uint32_t, bool> truths_of_all;       // whether all who read one fold it: truth.cpp
  std::unordered_set<uint64_t> computed_factors;  // of products that are constants now: arithmetic.cpp

  bool has_replaced(uint32_t pc) const { return replaced_ == pc; }
  bool has_changed() const { return changed_; }

 private:
  // Of a move that an instruction becomes: a guard's selection of f32 stays one, which may take signs
  // (signs.h).
  std::string_view moved_type(uint32_t pc, Type) const;

  uint32_t replaced_ = Dataflow::kNone;
  bool changed_ = false;
  std::vector<uint32_t> fences_;
  std::optional<std::vector<uint32_t>> branches_back_;
  std::unordered_map<uint32_t, std::vector<Reader>> readers_;  // by maker; empty until asked for
  mutable std::optional<bool> folded_again_;
};

}  // namespace fp4lab::emu::peephole
