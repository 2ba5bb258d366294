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
  std::string source;        // of the CUDA text, or empty
  std::exception_ptr other;  // not a Fault: the emulator's own trouble, thrown on
};

// The complete text of a fault in a warp's current instruction, or in an asynchronous operation.
std::string fault_report(const Fault&, const Grid&, const Warp*, const AsyncOp*);
// The class name that begins a report: "deadlock", "illegal-address", ...
const char* kind_text(FaultKind);
// What was tolerated, of each class the first one, and how many more there are.
std::string notes_text(const std::vector<struct Tolerated>&, bool errors);
// The PTX line of that instruction, 0 when there is none; its CUDA position, or nothing.
uint32_t fault_line(const Grid&, const Warp*, const AsyncOp*);
std::string fault_source(const Grid&, const Warp*, const AsyncOp*);

}  // namespace fp4lab::emu
