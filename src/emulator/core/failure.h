// A fault and its place, kept by a cluster until the round ends.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "emulator/core/error.h"

namespace fp4lab::emu {

class Warp;
struct AsyncOp;
class Grid;

struct Failure {
  FaultKind kind{};
  std::string report;
  uint32_t line = 0;         // of the PTX, 0 = not known
  std::exception_ptr other;  // not a Fault but an internal error of the emulator, rethrown
};

// The complete text of a fault in a warp's current instruction, or in an asynchronous operation.
std::string fault_report(const Fault&, const Grid&, const Warp*, const AsyncOp*);
// The class name that begins a report: "deadlock", "illegal-address", ...
const char* kind_text(FaultKind);
// The tolerated faults: the first of each class, and the number of further ones.
std::string notes_text(const std::vector<struct Tolerated>&);
// The PTX line of that instruction, 0 for none.
uint32_t fault_line(const Grid&, const Warp*, const AsyncOp*);

}  // namespace fp4lab::emu
