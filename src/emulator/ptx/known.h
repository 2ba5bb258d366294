// What the text of a function shows about operands: which instruction made them, which bits they have and
// whether they are the same in every thread, because only constants went into them.
#pragma once

#include <array>
#include <optional>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/dataflow.h"
#include "emulator/ptx/rewrite.h"

namespace fp4lab::emu {

class Known {
 public:
  static constexpr unsigned kSlots = 6;  // operands 1 to 5

  Known(const Rewriter&, const Dataflow&);

  // The only instruction that can have made an operand: the last of the block if it is unguarded, or the only
  // one of the function. Dataflow::kNone otherwise.
  uint32_t maker(uint32_t pc, unsigned slot) const { return makers_[pc][slot]; }
  // How many operands hold what an instruction made; more than one also where that is not known.
  uint32_t uses(uint32_t pc) const { return uses_[pc]; }
  // Of a constant.
  std::optional<uint64_t> bits_of_row(const Operand&) const;
  // As far as copies lead there.
  std::optional<uint64_t> bits(uint32_t pc, unsigned slot) const;
  // Only within straight-line code, which subroutines (exact division and roots) and warp collectives end,
  // also where nobody wants their results.
  bool is_constant(uint32_t pc, unsigned slot) const;
  // What an instruction makes counts as constant from now on, in operands behind it.
  void mark_constant(uint32_t pc) { constant_[pc] = 1; }

 private:
  void find_makers(const Dataflow&);
  void find_constants(const Dataflow&);

  const Function& f_;
  std::unordered_map<uint32_t, uint64_t> rows_;  // of constants whose bits are known, by offset
  std::vector<std::array<uint32_t, kSlots>> makers_;
  std::vector<uint32_t> uses_;
  std::vector<uint32_t> stretch_;  // which straight-line code an instruction stands in
  std::vector<char> constant_;
};

}  // namespace fp4lab::emu
