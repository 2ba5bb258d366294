// abs and neg that the compiler folds into what reads them: a selection of f32 (selp, slct, or a guard's)
// takes the change of the sign's bit alone, where the instruction would make a NaN canonical; two negations
// are none, also where one is of a pack and the other of a half of it; fma.oob sees the NaN that a sign was
// taken of.
#pragma once

#include <array>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

class Signs {
 public:
  Signs(Rewriter&, const Dataflow&, const Known&);
  void fold(uint32_t pc);
  // Replaces what the later instructions had to be compared with; no instruction moves.
  void apply();

 private:
  uint32_t maker(uint32_t pc, unsigned slot) const;
  uint32_t maker(uint32_t pc, unsigned slot, uint32_t left_by) const;
  bool are_equal_signs(uint32_t a, uint32_t b) const;
  void make_bitwise(uint32_t pc);
  bool fold_constant_nan(uint32_t pc);
  std::optional<Operand> changed_sign(uint32_t made_at, unsigned depth = 0);
  std::optional<Operand> changed_halves(uint32_t pc, unsigned slot, Type, unsigned depth = 0);
  void fold_two_negations(uint32_t pc);
  void fold_negated_halves(uint32_t pc);
  Operand negated_half(uint32_t pc, unsigned part);

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const Known& known_;
  std::unordered_map<uint32_t, uint32_t> found_;      // by guarded instruction: who made what its target held
  std::vector<std::pair<uint32_t, Operand>> undone_;  // negations of negations, and what is left
  struct Halves {
    uint32_t pc;
    std::array<Operand, 2> left;  // in lower halves; none: the half is negated once
  };
  std::vector<Halves> undone_halves_;
};

}  // namespace fp4lab::emu
