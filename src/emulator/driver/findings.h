// The findings of a launch in machine-readable form.
#pragma once

#include <string>
#include <vector>

#include "emulator/core/machine.h"
#include "emulator/watch/order.h"

namespace fp4lab::emu::driver {

// A JSON array, the fault first, then what was tolerated, then the order checker's errors and notes. All have
// the same keys:
//   severity  "error" or "note"
//   kind      the class (notes/checkers.md)
//   what      in a sentence
//   kernel    its name in the PTX
//   place     the bytes, columns or mbarrier that it is about; "" for faults, whose `what` says it
//   count     how often it was seen in this launch
//   line      of the PTX: of `then` if there are two accesses
//   first     where: {does, who, ptx ("file:line"), line, source (that line), cuda ("file:line, called at
//   ...")}; null where
//             no instruction is to blame (a deadlock)
//   then      the second access, or null
//   needs     what would order the two; "" for faults
//   belongs   the lines between which that would stand
//   text      what a person reads
std::string findings_json(const LaunchResult&, const Module&, const std::string& kernel,
                          const std::vector<OrderChecker::Finding>&);

}  // namespace fp4lab::emu::driver
