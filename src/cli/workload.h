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

// --kernel-file and --like: a file from anywhere in a rung's place, with that rung's plan, limits and launch.
struct KernelFile {
  std::string path, like;

  // `kernel`: the command's --kernel, which says the same in another way.
  void declare(Arguments&, const Argument& kernel);
  bool given() const { return !path.empty(); }
  // Fails where there is no such file or rung, and where the rung is not named and the file does not tell.
  const Rung& rung(std::string_view arch, Op op) const;
  // The candidate is to be of rung(). Without a file it stays as it is.
  void put_into(Candidate&) const;
};

// --case of commands that take several: names and shapes, repeated or separated by commas; "all" (full
// sizes), "correctness". Each case once. Fails where one is not of `operation` ("all": any).
std::vector<Case> chosen_cases(const std::vector<std::string>& names, const std::string& operation,
                               const char* command);

// --kernel: "all", or names separated by commas, each rung once. Fails with the list of rungs. Where there is
// a kernel file the rung that it is like.
std::vector<const Rung*> chosen_rungs(std::string_view arch, Op op, const std::string& names,
                                      const KernelFile& file = {});

// Of commands that look at one kernel with one case: "OPERATION --case CASE --kernel KERNEL", and for short
// "KERNEL CASE", in either order; without a kernel the top one. In the kernel's place a file of one's own, or
// edited PTX: that runs as the rung and plan that it was made of, unless they are named.
struct OneKernel {
  std::vector<std::string> words;
  std::string case_name, kernel, ptx, arch = std::string(architectures()[0]);
  std::vector<std::string> knobs;
  KernelFile file;

  // `positional`: what the words are, in --help.
  void declare(Arguments&, const char* positional = "group, dual or gemm; or, for short: KERNEL CASE");
  void declare_ptx(Arguments&);  // of commands that run it
  Case the_case() const;
  Candidate choose(const Case&) const;  // not checked for legality
};

}  // namespace fp4lab::cli
