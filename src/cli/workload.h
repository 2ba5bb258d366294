// The options by which commands are told what to compute, and what they mean: OPERATION --case CASE --kernel
// KERNEL.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "fp4lab/problem.h"
#include "fp4lab/rung.h"

namespace fp4lab::cli {

// --dist and --seed.
struct Numbers {
  std::string distribution;  // empty: what the task uses
  uint64_t seed = 1;

  void declare(Arguments&);
  Distribution of(Operation) const;  // fails with the list of names
};

// --device and --arch.
struct Target {
  std::string device = "auto", arch;

  void declare(Arguments&);
};

// --set, on the emulator --check and --schedules: how a kernel is run.
struct Conditions {
  std::vector<std::string> knobs;
  bool check = false;
  uint64_t schedules = 1;

  void declare(Arguments&);
  // Turns the order checker on. Fails when a GPU is asked for what only the emulator can.
  void prepare(const Device&) const;
  std::string text() const;  // for point_of_run; empty: nothing special
};

// An option that may be repeated and takes one value each time.
Argument add_list(Arguments&, const std::string& name, std::vector<std::string>& values,
                  const std::string& help);

// --case of commands that take several: names and shapes, repeated or separated by commas; "all" (full
// sizes), "correctness". Each case once. Fails where one is not of `operation` ("all": any).
std::vector<Case> chosen_cases(const std::vector<std::string>& names, const std::string& operation,
                               const char* command);

// --kernel: "all", or names separated by commas, each rung once. Fails with the list of rungs.
std::vector<const Rung*> chosen_rungs(std::string_view arch, Op op, const std::string& names);

// Of commands that look at one kernel with one case: "OPERATION --case CASE --kernel KERNEL", and for short
// "KERNEL CASE", in either order; without a kernel the top one.
struct OneKernel {
  std::vector<std::string> words;
  std::string case_name, kernel, arch = std::string(architectures()[0]);
  std::vector<std::string> knobs;

  // `positional`: what the words are, in --help.
  void declare(Arguments&, const char* positional = "group, dual or gemm; or, for short: KERNEL CASE");
  Case the_case() const;
  Candidate choose(const Case&) const;  // not checked for legality
};

}  // namespace fp4lab::cli
