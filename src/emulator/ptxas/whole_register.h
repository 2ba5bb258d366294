// What else the register holds in which ptxas 13.0 keeps a 16-bit value. Loads (but with their sign), most
// conversions, and neg and abs of floats leave zeros above it, sums and products of f16 and bf16 the value
// once more, and integer instructions what they make of the whole registers of their operands, as
// instructions of 32 bits do. For what is taken out of wider registers see unpacked_word.h.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/ptxas/rewrite.h"
#include "emulator/ptxas/ssa.h"
#include "emulator/ptxas/unpacked_word.h"

namespace fp4lab::emu {

class WholeRegisters {
 public:
  WholeRegisters(Rewriter&, const Dataflow&, const Known&);

  struct Found {
    Operand whole;            // of 32 bits
    uint32_t at;              // `whole` is computed before it: what made the value, or what asks
    bool is_guarded = false;  // so is what computes it
  };
  // What the guarded instruction at pc leaves in its destination's register where its guard is false. nullopt
  // where that is the value with zeros above it, and where it depends on the allocation of registers.
  // `copies`: what is stored or converted, too, has been moved there; a move of what is twice in its register
  // moves one half alone.
  // `has_other_arm`: it was put there under the opposite guard.
  std::optional<Found> found_by(uint32_t pc, bool copies, bool has_other_arm);

 private:
  enum class Constant { extends_sign, extends_zeros, stands_twice };

  std::optional<Operand> whole(uint32_t value, uint32_t reader, unsigned depth);
  std::optional<Operand> whole_of_unguarded(uint32_t value, uint32_t reader, unsigned depth);
  std::optional<Operand> whole_of_guarded(uint32_t value, uint32_t reader, unsigned depth);
  bool is_of_constants(uint32_t pc) const;
  std::optional<Operand> made_whole(uint32_t pc, unsigned depth);
  Operand operand(uint32_t pc, unsigned slot, Constant, unsigned depth);
  Operand difference(uint32_t pc, unsigned depth);
  Operand extended(uint32_t pc, unsigned slot);
  Operand computed(uint32_t pc, Rewriter::Tokens, std::vector<Operand> sources);
  Operand repeated(uint32_t pc);
  Operand twice(uint32_t pc);
  bool is_read_elsewhere(uint32_t value, uint32_t reader) const;

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const Known& known_;
  Ssa ssa_;
  UnpackedWords words_;
  std::unordered_map<uint32_t, uint32_t> old_;                   // by guarded instruction: a value
  std::unordered_map<uint32_t, std::vector<uint32_t>> readers_;  // by value, but for stores and conversions
  std::unordered_set<uint32_t> stored_;                          // values that these read
};

}  // namespace fp4lab::emu
