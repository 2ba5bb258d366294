// The options by which run, sweep and bench are told what to compute, and what they mean.
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

// The case of that name; fails where it is not one of `operation`, which `command` was asked for.
Case find_case_of(const std::string& name, const std::string& operation, const char* command);

// --kernel: "all", or names separated by commas. Fails with the list of rungs.
std::vector<const Rung*> chosen_rungs(std::string_view arch, Op, const std::string& names);

}  // namespace fp4lab::cli
