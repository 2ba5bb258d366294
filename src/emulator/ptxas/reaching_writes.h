// Which instruction made what another one reads in a register.
#pragma once

#include <unordered_map>
#include <vector>

#include "emulator/ptxas/ssa.h"

namespace fp4lab::emu {

class ReachingWrites {
 public:
  ReachingWrites(const Function&, const Dataflow&);

  // The unguarded instruction whose result a register holds on every way to pc, before pc writes it. kNone if
  // there are several, or none, or no register.
  uint32_t maker(uint32_t pc, uint32_t reg) const;
  // By instruction: whether what it made meets another value behind branches, in the compiler's eyes.
  // ptxas 13.0 then makes nothing of the two instructions in another block: there the register is a variable.
  // Constants alone go on (observed).
  std::vector<char> meets() const;
  // Whether the value that pc reads in a register is one that met another behind branches: a variable.
  bool is_merged(uint32_t pc, uint32_t reg) const;
  // By instruction: how many operands hold what it made; more than one also where ways meet behind it.
  std::vector<uint32_t> uses() const;

 private:
  static constexpr uint32_t kNone = Dataflow::kNone;

  uint32_t made_by(uint32_t value) const;
  uint32_t found_by(uint32_t pc, uint32_t reg) const;
  bool is_selection(const Ssa::Value&) const;

  const Function& f_;
  const Dataflow& flow_;
  std::vector<uint32_t> only_;                                 // by register: its writer, if there is one
  Ssa ssa_;                                                    // of registers that several instructions write
  std::unordered_map<uint32_t, std::vector<uint32_t>> found_;  // by guarded instruction: values of registers
};

}  // namespace fp4lab::emu
