// What fp4lab mutate breaks: a kernel of this project with a case, or a program that brings its own kernels.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fp4lab/rung.h"

namespace fp4lab::cli {

// What one run showed. Errors and notes are the checkers', by what they are about (kind and PTX lines; the
// rest depends on the schedule), with their text.
struct Sighting {
  std::map<std::string, std::string> errors, notes;
  std::string wrong;    // how the result differs; empty when it is right
  std::string refused;  // the text could not be loaded: no PTX any more
};

class MutationSubject {
 public:
  struct Text {
    std::string name, ptx;   // name: as reports call it
    std::set<int> executed;  // PTX lines, in the runs of the original so far
  };
  virtual ~MutationSubject() = default;
  virtual const std::string& name() const = 0;
  // The module texts; complete once the original has run.
  virtual const std::vector<Text>& texts() const = 0;
  // Runs with the order checker under one schedule. `text`: which module is replaced by `ptx`, null for none.
  virtual Sighting run(const Text* text, const std::string& ptx, uint64_t seed) = 0;
};

std::unique_ptr<MutationSubject> kernel_subject(const Case&, const Candidate&, Distribution);
// Runs the program as `fp4lab emulate --check` does, once for each mutant and schedule. Its exit status
// decides whether the result is right, and what it writes to stdout where that is the same under every
// schedule.
std::unique_ptr<MutationSubject> program_subject(const std::vector<std::string>& command);

}  // namespace fp4lab::cli
