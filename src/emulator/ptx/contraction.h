// mul and add (or sub) that do not say how they round become one fma (PTX ISA 9.7.3.3: such an "add may be
// optimized aggressively"), where ptxas 13.0 makes one: see the conformance record and
// tests/ptx/contraction.ptx.
#pragma once

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/ptx/dataflow.h"
#include "emulator/ptx/rewrite.h"

namespace fp4lab::emu {

class Contraction {
 public:
  Contraction(Rewriter&, const Dataflow&);  // finds them
  bool takes_product(uint32_t sum) const { return fusions_[sum].product != kNone; }
  void apply();

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  enum class Shape : uint8_t { other, product, sum, copy, negation };
  // A product that sums of the same block take, all of those that use it.
  struct Product {
    uint32_t pc;
    struct Use {
      uint32_t pc;
      bool second, negated;  // which operand of the sum; whether it is the product's negation
    };
    std::vector<Use> uses;
  };

  struct Fusion {
    uint32_t product = kNone;
    bool second = false, negated = false;
  };

  Shape shape_of(uint32_t pc) const;
  bool ends_block(const Instr&, const Source&) const;
  void find_products(uint32_t block);
  std::optional<Product> used_in_sums(uint32_t block, uint32_t product) const;
  void choose_products();
  bool is_free(const Product&) const;
  void fuse(uint32_t sum);
  std::pair<Operand, Operand> factors(uint32_t product, uint32_t sum);
  const std::pair<Operand, Operand>& quotient_of(uint32_t pc);

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  std::vector<Product> products_;
  std::vector<Fusion> fusions_;                                          // by the sum's pc
  std::unordered_map<uint32_t, std::pair<Operand, Operand>> quotients_;  // their factors, by pc
};

// An unguarded neg without .ftz that products go through. (Of bf16x2 ptxas negates with an fma of its own.)
bool is_negation(const Instr&, const Source&);

}  // namespace fp4lab::emu
