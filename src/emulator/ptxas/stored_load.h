// Loops that store what they have loaded from the same memory: where the lanes of a warp go different numbers
// of rounds, ptxas 13.0 leaves them one loop, however few their instructions are (sm_90a).
#pragma once

#include <vector>

#include "emulator/ptxas/dataflow.h"

namespace fp4lab::emu {

// Whether, within one round of the loop [begin, end), a store depends on a load before it of the same state
// space, or of one of which either is generic: by what it stores, by its address, by its guard or by a branch
// before it. Also if the two addresses are known to differ, and for ld.global.nc; not through the address of
// another load. A store by a register that each round moves on by a number does not count.
bool stores_what_it_loaded(const Function&, const Dataflow&, uint32_t begin, uint32_t end);
// Whether the lanes of a warp differ in what an instruction makes, of whatever they agree on.
bool makes_lanes_differ(const Dataflow&, const Source&, uint32_t pc);
// A shfl.idx in which one number of a lane is one lane of the warp, as ptxas sees it: with the constant 0x1f.
bool asks_one_lane(const Instr&, const Source&);
// Whether they agree in it whatever they differ on.
bool makes_lanes_agree(const Instr&, const Source&);
// Where the lanes of a warp go different ways.
class PartingLanes {
 public:
  PartingLanes(const Function&, const Dataflow&);
  // Whether they may differ in the predicate of the branch at pc. What shfl gives back from one lane by
  // number, and what the lanes vote, is the same in all.
  bool part_at(uint32_t pc) const;
  bool may_differ(uint32_t reg) const { return differ_[reg] != 0; }
  // What a load of generic memory brings: where lanes put different values into local or generic memory, that
  // may be one of those, whatever its address.
  bool may_differ_in_memory() const { return differ_[memory()] != 0; }
  static bool reads_generic(const Source&);

 private:
  uint32_t memory() const { return static_cast<uint32_t>(flow_.registers()); }

  const Dataflow& flow_;
  // By register, and behind them of memory and of the carry: the lanes may, in any of the values it holds.
  std::vector<char> differ_;
};

}  // namespace fp4lab::emu
