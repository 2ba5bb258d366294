// What the core needs of the engines above it; defined in engine/.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "emulator/core/machine.h"

namespace fp4lab::emu {

// What in a wait can be the cause of a deadlock rather than its consequence.
struct Blame {
  std::string cause;               // in words; empty: nothing
  std::vector<std::string> lines;  // the PTX lines concerned, each with its role
  // How sure: 1000 where bytes do not match or an expected thread has exited; 600 for a wait that makes no
  // sense; 200 where another CTA's barrier was arrived on instead; 150 before a first product; 100 where some
  // threads have arrived and none is known to be missing; 0 where it may be a consequence.
  int weight = 0;
  std::vector<std::pair<uint32_t, uint32_t>>
      others;  // CTA rank and warp of those that arrived in earlier phases only
};

namespace hooks {

// What a parked group waits for, with the counts of its barriers.
std::string describe_wait(const Warp&, const Wait&);
// Which threads should end that wait and where they are now: lines without indentation, each ending in a
// newline. Empty if there is nothing to say.
std::string describe_missing(const Warp&, const Wait&);
Blame blame_of(const Warp&, const Wait&);

// Of a read of shared memory that nobody had written: who has written there now, `warp` of the CTA `by` by
// the instruction `at` (null: not known) or its operation, and what the reader did in place of waiting for
// it. Lines with a newline in front; `warp` ~0: nobody has come to write there.
std::string late_writer(const Warp& reader, const Cta&, uint32_t offset, const AsyncOp::Counted&,
                        const Instr* at, uint32_t function, const Cta& by, unsigned warp);

// Carries out the tcgen05.ld's that the warp has under way and makes their registers defined. False: there
// are none.
bool finish_loads(Warp&);

// For a pending wgmma accumulator: makes it defined if the products that write it are done, else parks the
// group until they are and throws Reschedule. False: the register is no such accumulator.
bool await_products(Warp&, const Operand&);

}  // namespace hooks

}  // namespace fp4lab::emu
