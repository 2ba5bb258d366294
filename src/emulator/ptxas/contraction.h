// mul and add (or sub) that do not say how they round become one fma (PTX ISA 9.7.3.3: such an "add may be
// optimized aggressively"), where ptxas 13.0 makes one: see notes/design/ptxas.md and
// tests/ptx/contraction.ptx.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/ptxas/sinking.h"
#include "emulator/ptxas/summed_product.h"

namespace fp4lab::emu {

class Contraction {
 public:
  // Finds them. `sunk`: see sinking.h.
  Contraction(Rewriter&, const Dataflow&, const Known&, const std::vector<Sinking::Reading>& sunk);
  bool takes_product(uint32_t sum) const { return fusions_[sum].product != kNone; }
  bool is_taken(uint32_t product) const;
  void apply();

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  struct Fusion {
    uint32_t product = kNone;
    bool second = false, negated = false;
  };

  Shape shape_of(uint32_t pc) const { return emu::shape_of(f_.code[pc], f_.source[pc]); }
  bool is_fence(uint32_t pc) const;
  void find_mentions();
  uint32_t next_mention(uint32_t reg, uint32_t pc) const;  // behind pc
  void find_products();
  std::optional<SummedProduct> used_in_sums(uint32_t block, uint32_t product) const;
  void find_sunk_products(const std::vector<Sinking::Reading>& sunk);
  std::optional<SummedProduct> used_in_sunk_sums(std::span<const Sinking::Reading> place,
                                                 uint32_t product) const;
  void choose_products();
  bool is_free(const SummedProduct&) const;
  void fuse(uint32_t sum);
  std::optional<bool> difference_from_twice(uint32_t sum, const Operand& other, bool negate_product,
                                            bool negate_other) const;
  bool may_change(const Operand&, uint32_t product, uint32_t sum) const;
  std::pair<Operand, Operand> factors(uint32_t product, uint32_t sum);
  const std::pair<Operand, Operand>& quotient_of(uint32_t pc);

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const Known& known_;
  std::vector<uint32_t> part_;  // by pc: how many instructions before it end one of ptxas's blocks
  std::vector<std::vector<uint32_t>> mentions_;  // by register: who reads or writes it
  std::vector<std::vector<uint32_t>> writes_;    // by register: who writes it
  std::vector<SummedProduct> products_;
  std::vector<uint32_t> block_;                                          // by pc
  std::vector<Fusion> fusions_;                                          // by the sum's pc
  std::unordered_map<uint32_t, std::pair<Operand, Operand>> quotients_;  // their factors, by pc
};

}  // namespace fp4lab::emu
