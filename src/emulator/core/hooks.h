// What the core asks of the engines, which stand above it: defined in engine/.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "emulator/core/machine.h"

namespace fp4lab::emu {

// What of a wait can be the cause of a deadlock rather than its consequence.
struct Blame {
  std::string cause;               // in words; empty: none of it
  std::vector<std::string> lines;  // the PTX lines that it is about, each with what it has to do with it
  // How sure: 1000 where bytes do not match or who was to come has exited, 600 a wait that cannot be meant,
  // 200 where another CTA's barrier was arrived on instead, 150 before a first product, 100 where some have
  // come and nobody is known to be missing, 0 when it may be a consequence of others.
  int weight = 0;
  std::vector<std::pair<uint32_t, uint32_t>>
      others;  // CTA rank and warp of those who came before and do not now
};

namespace hooks {

// What a parked group waits for, with values: barriers with their counts.
std::string describe_wait(const Warp&, const Wait&);
// Who was to end that wait, and where those are now: lines without indentation, each with a newline; empty
// where there is nothing to tell.
std::string describe_missing(const Warp&, const Wait&);
Blame blame_of(const Warp&, const Wait&);

// Carries out the tcgen05.ld's that the warp has under way and makes their registers defined. False: there
// are none.
bool finish_loads(Warp&);

// Of an accumulator of wgmma that is on its way: makes it defined when the products that write it are done,
// else parks the group until they are, and throws Reschedule. False: the register is none.
bool await_products(Warp&, const Operand&);

}  // namespace hooks

}  // namespace fp4lab::emu
