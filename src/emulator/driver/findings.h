// The findings of a launch in machine-readable form.
#pragma once

#include <string>
#include <vector>

#include "emulator/core/machine.h"
#include "emulator/watch/order.h"

namespace fp4lab::emu::driver {

// A JSON array: the fault first, then the tolerated faults (notes), then the order checker's errors and
// notes. Each has "severity" (error or note), "kind", "what", "kernel" and "text" (the report). Findings of
// the order checker also have "place", "count", "needs", "belongs" (lines) and the two accesses, "first" and
// "then": "does", "who", "ptx", "line", "source", "cuda".
std::string findings_json(const LaunchResult&, const std::string& kernel,
                          const std::vector<OrderChecker::Finding>&);

}  // namespace fp4lab::emu::driver
