// Tests that are PTX programs: tests/ptx/*.ptx, each with its inputs and expected words. tests/ptx/README.md
// describes the format. A program always runs on the emulator, and on a GPU through the driver table if there
// is one.
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
  bool hardware = true;     // false: tests the emulator only
  bool contracted = false;  // compiled with optimisation, so that products and sums become fma
  std::vector<Case> cases;  // at least one
};

// Throws fp4lab::Error with the file's line for malformed input.
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
