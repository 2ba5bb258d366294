// One experiment: a kernel computes a case on a device, and its output is checked against the CPU reference.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fp4lab/compare.h"
#include "fp4lab/device_problem.h"
#include "fp4lab/emulator.h"
#include "fp4lab/jit.h"
#include "fp4lab/problem.h"
#include "fp4lab/sm100.h"

namespace fp4lab {

// A case with its numbers, its exact reference and its operands on the device: shared by every kernel that
// computes it.
struct Trial {
  Problem problem;
  std::vector<std::vector<std::uint16_t>> want;  // exact: the infinitely precise sums, rounded once
  std::vector<std::vector<std::uint16_t>>
      tensor_core;  // the tensor core's own rounding: what an unsplit kernel gives
  DeviceProblem on_device;

  Trial(const Device& device, const Case& c, Distribution distribution, std::uint64_t seed);
};

struct Candidate {
  const sm100::Rung* rung;
  Plan plan;
  std::filesystem::path ptx;  // an edited PTX file to run in the kernel's place; empty for the compiled one
};

struct RunResult {
  std::string case_name, kernel, plan, device;
  Distribution distribution;
  std::uint64_t seed = 0;
  unsigned grid = 0;
  double jit_ms = 0;
  bool jit_cached = false;
  double seconds = 0;                             // the launch, from call to end
  std::optional<fp4lab_emulator_stats> emulated;  // absent on hardware
  std::string fidelity;    // on the emulator: which executed instructions are exact, bounded, modelled
  Comparison exact;        // against the exact sums: this decides
  Comparison tensor_core;  // against the tensor core's rounding, for information
  double roofline_us = 0;  // B200, computed
  std::string error;       // why it did not finish; empty when it did
  std::string notes;       // the order checker's, see check_order; empty when there are none
  bool passed() const { return error.empty() && exact.count > 0 && exact.passed(); }
};

// The rung's plan for the case with these knobs ("stages=4") in place of its own. A knob that follows another
// one follows it here too, unless it is named: scale buffers in TMEM go with the stages.
Candidate candidate_for(const sm100::Rung& rung, const Case& c, const std::vector<std::string>& knobs);

// From now on the emulator checks the order of all accesses: a kernel that is right by luck of the schedule
// does not pass (see fp4lab_emulator_check). Throws on hardware.
void check_order(const Device& device);

// The JIT job of a candidate (meaningless when it brings its own PTX).
jit::Job job_of(const Candidate& candidate);

// Compiles (or reads the PTX), launches once on poisoned output, reads back and compares. What goes wrong
// with the kernel itself (it does not compile, faults, deadlocks) is in RunResult::error; a plan that is not
// legal throws.
RunResult run_trial(const Device& device, Trial& trial, const Candidate& candidate);

// The same with PTX text in the compiled kernel's place; `label` names it in messages.
RunResult run_ptx(const Device& device, Trial& trial, const Candidate& candidate, const std::string& ptx,
                  const std::string& label);

}  // namespace fp4lab
