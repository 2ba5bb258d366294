// Where memory may have changed, as ptxas 13.0 sees it: between two places of one state a load gives the same
// again.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/ssa.h"

namespace fp4lab::emu {

// An instruction may reach local memory, for all that ptxas knows, though it does not say so.
bool may_be_generic(const Source&);

class MemoryStates {
 public:
  MemoryStates(const Function&, const Dataflow&, const Ssa&);

  // The state of what a load reads, by name. Names of different spaces say nothing about one another.
  uint32_t before(uint32_t load) const { return before_[load]; }
  // The state of what a store changes, once it has.
  uint32_t behind(uint32_t store) const { return static_cast<uint32_t>(begins_afresh_.size()) + store; }

 private:
  // What stores tell apart; a generic address may be in any of them.
  enum Kind : uint8_t { global, shared, local, generic, kKinds, unchanged = kKinds };

  static Kind kind_of(const Source&);
  // A bit for each kind that an instruction may change.
  static unsigned changes(const Dataflow&, const Source&, uint32_t pc);
  void walk(Kind, const Function&, const Dataflow&, const std::vector<uint32_t>& order);

  std::vector<uint32_t> before_;     // by pc, of loads; 0 if nothing changes what they read
  std::vector<uint8_t> changes_;     // by pc
  std::vector<char> begins_afresh_;  // by block: heads of loops of several blocks, and what follows loops
};

}  // namespace fp4lab::emu
