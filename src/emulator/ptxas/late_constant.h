// shfl.sync of a constant is a move to ptxas 13.0, but only once it has folded constants and pairs (seen in
// its machine code; tests/ptx/late_constant.ptx). What it does to constant operands of matrix products it
// does to these too. And where a product of e4m3 or e5m2 unpacks the upper half of a constant that comes so
// late, it takes the word behind that one in the function's table of literals.
#pragma once

#include <optional>
#include <vector>

#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

// The constants that a function's text writes, each once, in the order in which they are met first. Not among
// them are those that ptxas needs to expand instructions, but for those of products and barriers.
class Literals {
 public:
  explicit Literals(const Function&);
  std::optional<uint32_t> behind(uint32_t word) const;

 private:
  void add(const Function&, const Operand&);
  void add_word(uint32_t);
  void add_pair(uint64_t);

  std::vector<uint32_t> words_;
};

// Whether there are shuffles and products.
bool may_shuffle_constants(const Function&);
// `literals`: of the text as it was written.
void move_shuffled_constants(Rewriter&, const Known&, const Literals& literals);

}  // namespace fp4lab::emu
