// Where ptxas 13.0 takes a wider register apart, or the vector that it loaded, a 16-bit value that is a lower
// half stays in the word that it stands in: the name of the half is the word's register. Unless a load brings
// it and nothing else of what that brings is read, since then two bytes are loaded, above which are zeros; or
// the word is a constant, whose halves are constants of their own. The upper halves (but for those of narrow
// loads that are taken for lower ones) are moved, each into whatever the register allocator left in its
// register.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "emulator/ptxas/known.h"
#include "emulator/ptxas/rewrite.h"
#include "emulator/ptxas/ssa.h"

namespace fp4lab::emu {

class UnpackedWords {
 public:
  UnpackedWords(Rewriter&, const Dataflow&, const Ssa&, const Known&);

  // The registers that the form must know: what moves, loads and conversions to 16 bits have to do with.
  static std::vector<uint32_t> registers(const Function&, const Dataflow&);

  // The word of a 16-bit value, computed before the unguarded instruction that makes the value. nullopt where
  // that has zeros above it, or what depends on the allocation of registers.
  std::optional<Operand> word(uint32_t value);

 private:
  std::optional<Operand> loaded(const Ssa::Value&);
  std::optional<Operand> mistaken(const Ssa::Value& upper);
  Operand taken(uint32_t pc, const Operand& from, unsigned n);
  bool may_be_half(uint32_t value, unsigned low, unsigned depth) const;
  bool is_only_read(uint32_t value, unsigned low, unsigned depth) const;
  bool is_only_read_by(uint32_t pc, unsigned low, unsigned depth) const;
  bool brings_more(uint32_t pc, uint32_t reg) const;
  bool is_used(uint32_t pc, const Operand& element) const;
  uint32_t made(uint32_t pc, const Operand&) const;
  uint32_t read(uint32_t pc) const { return ssa_.read(pc, flow_.number_of(f_.code[pc].op[1])); }
  unsigned part_of(uint32_t pc, uint32_t reg) const;

  Rewriter& w_;
  const Function& f_;
  const Dataflow& flow_;
  const Ssa& ssa_;
  const Known& known_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> made_;       // by pc and register: a value
  std::unordered_map<uint32_t, std::vector<uint32_t>> readers_;  // by value; kNone: it meets others
};

}  // namespace fp4lab::emu
