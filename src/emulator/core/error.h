// Faults inside a kernel, and errors in PTX text.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace fp4lab::emu {

class Cta;
struct Instr;
struct Module;

// The class of a fault. Its name begins the report, and it decides the CUresult of the launch and of every
// later call (the error is sticky). faults.def lists both with a description.
enum class FaultKind : uint8_t {
#define FAULT(kind, name, result, what) kind,
#include "emulator/core/faults.def"
#undef FAULT
};

// Thrown by instruction bodies and engines, which only state the problem with its values. The frame that
// catches it (Warp::step, Cluster::complete) adds the place.
struct Fault : std::runtime_error {
  FaultKind kind;
  unsigned lane;  // the first lane concerned, kLanes if the whole warp
  Fault(FaultKind k, unsigned lane, const std::string& text)
      : std::runtime_error(text), kind(k), lane(lane) {}

  // Where it is tolerated: an error all the same under Schedule::checked.
  bool serious = false;
  // Of a read of shared memory that nobody had written: where. Who writes there later is what the reader
  // should have waited for (Cluster::ask).
  const Cta* unwritten_in = nullptr;
  uint32_t unwritten = 0;
  Fault&& at(const Cta& cta, uint32_t offset) && {
    unwritten_in = &cta, unwritten = offset;
    return std::move(*this);
  }
};

template <class... Args>
[[noreturn]] void fault(FaultKind kind, unsigned lane, fmt::format_string<Args...> text, Args&&... args) {
  throw Fault(kind, lane, fmt::format(text, std::forward<Args>(args)...));
}

// A PTX text that cannot be loaded (syntax, unknown instruction, unknown symbol). `what()` is complete:
// "file:line:column: message", the line, a caret below it, and the manual's section where one is known.
struct PtxError : std::runtime_error {
  uint32_t line, column;
  PtxError(const Module&, uint32_t line, uint32_t column, const std::string& text);
};

}  // namespace fp4lab::emu
