// One instruction on 2048 tuples of operands: special values, small numbers and random bits. The results are
// hashed; tests/emulator/data/sweep_h200.txt has the hashes of an H200, which the emulator must reproduce.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fp4lab/driver.h"

namespace fp4lab::sweep {

constexpr unsigned kTuples = 2048;

// A line of the data file: "OPCODE DST SRC... [HASH]". A type is b16, b32, b64, or pred for a destination; a
// source that is not a type is used literally ("0x96"). `OPCODE!`: no NaN operands, for results whose payload
// follows no known rule.
struct Form {
  std::string opcode, destination;
  std::vector<std::string> sources;
  bool numbers_only = false;
  uint64_t hash = 0;  // 0: none
  std::string text() const;
};

Form parse_form(const std::string& line);
std::vector<Form> forms_of(const std::string& file);

// The module that runs the form for one tuple per thread, and what it reads.
std::string module_text(const Form&);
std::vector<std::byte> operands_of(const Form&);

// The results, 8 bytes each.
std::vector<uint64_t> run_on_emulator(const Form&);
std::vector<uint64_t> run_on_driver(const Form&, Driver&);
uint64_t hash_of(const std::vector<uint64_t>& results);

// "tuple 7: operands 0x.. 0x..: result 0x..", for messages.
std::string describe(const Form&, unsigned tuple, uint64_t result);

}  // namespace fp4lab::sweep
