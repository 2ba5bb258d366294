// Tests that are PTX programs: tests/ptx/*.ptx, each with its inputs and the words it must give. The format
// is described in tests/ptx/README.md. A program runs on the emulator always, and on hardware through the
// driver table where there is some.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "emulator/core/machine.h"
#include "fp4lab/driver.h"

namespace fp4lab::ptx_test {

// One expected word of the output buffer.
struct Word {
  uint32_t offset = 0, bytes = 4;
  uint64_t bits = 0;
  uint64_t within = 0;  // allowed distance of the bit patterns, for instructions that are not exact
  uint32_t line = 0;    // of the program
};

struct Case {
  std::string name, entry;
  emu::Dim3 grid, block, cluster;
  uint32_t shared = 0;
  std::vector<std::byte> in;
  std::vector<Word> out;
  uint32_t out_bytes = 0;
  std::string fault;   // text that the report of the failed run must contain
  std::string refuse;  // text that the refusal to load must contain
};

struct Program {
  std::filesystem::path path;
  std::string text;
  int target = 0;           // compute capability that the instructions need: 90 or 100, from .target
  bool hardware = true;     // false: says something about the emulator alone
  bool contracted = false;  // compiled with optimisation, so that products and sums become fma
  std::vector<Case> cases;  // at least one
};

// Throws fp4lab::Error with the file's line for what is malformed.
Program read_program(const std::filesystem::path&);
std::vector<std::filesystem::path> all_programs();  // of tests/ptx, sorted

struct Outcome {
  std::vector<std::string> failures;  // in words, with the program's line; empty = passed
  emu::Statistics statistics;
};

Outcome run_on_emulator(const Program&, const Case&, uint64_t seed = 0);
// The same through the driver API: real hardware, or the emulator's library.
Outcome run_on_driver(const Program&, const Case&, Driver&);

}  // namespace fp4lab::ptx_test
