// Small PTX programs whose order is right, and their broken twins: tests/check. The files say
// themselves how they are launched and which lines matter; tests/check/README.md describes the comments.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fp4lab/device.h"

namespace fp4lab {

struct CheckTwin {
  std::string name;      // of the edges that go together; empty for a single line
  int line = 0;          // the (first) line that is left out or replaced
  std::string was, now;  // its text, without the comment; `now` is empty when it is left out
  std::string expected;  // in the report
  std::string kind;      // the class that it must be of; empty: any
  bool note = false;     // a note, not an error
  std::string ptx;
};

struct CheckProgram {
  std::filesystem::path path;
  std::string title;  // the first comment that is no setting
  std::string ptx;
  std::string arch;  // from .target
  unsigned block = 32, grid = 1, cluster = 1, dynamic_shared = 0;
  std::string map;  // swizzle of a tensor map over `in`, passed as third parameter; empty: none
  std::vector<CheckTwin> twins;
};

/// Throws with the line when a comment cannot be understood.
CheckProgram read_check_program(const std::filesystem::path& path);

struct CheckOutcome {
  bool ok = true;        // the launch went well: no fault, no error of the order checker
  std::string report;    // of the emulator; empty when ok
  std::string notes;     // of the order checker
  std::string findings;  // JSON, see fp4lab_emulator_findings
};

/// Runs `ptx` (the program's own or a twin's) once, under the schedule of this seed, with the order checker.
/// The emulator only. PTX that does not load throws.
CheckOutcome run_check_program(const Device& device, const CheckProgram& program, const std::string& ptx,
                               std::uint64_t seed);

}  // namespace fp4lab
