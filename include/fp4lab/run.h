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
#include "fp4lab/rung.h"

namespace fp4lab {

// A case with its numbers, its exact reference and its operands on the device: shared by every kernel that
// computes it.
struct Trial {
  Problem problem;
  std::vector<std::vector<std::uint16_t>> want;  // exact: the infinitely precise sums, rounded once
  // tcgen05.mma's own rounding: what an unsplit Blackwell kernel gives. Empty for other devices: wgmma
  // rounds in its own way.
  std::vector<std::vector<std::uint16_t>> tensor_core;
  DeviceProblem on_device;

  Trial(const Device& device, const Case& c, Distribution distribution, std::uint64_t seed);
};

struct RunResult {
  std::string case_name, arch, kernel, plan, device;
  // Where a file runs in a rung's place (then `kernel` is the file's name): the rung, the path, text_hash().
  std::string like, file, file_hash;
  std::vector<std::pair<std::string, std::string>> knobs;  // of the plan, see knob_values
  Placement work;                                          // on this device
  Distribution distribution;
  std::uint64_t seed = 0;
  unsigned grid = 0;
  double jit_ms = 0;
  bool jit_cached = false;
  double seconds = 0;  // the launch, from call to end
  // What all launches of the run did together; absent on hardware.
  std::optional<fp4lab_emulator_stats> emulated;
  std::string fidelity;    // on the emulator: which executed instructions are exact, measured, modelled
  Comparison exact;        // against the exact sums: this decides
  Comparison tensor_core;  // against the tensor core's rounding, for information; empty on Hopper
  double roofline_us = 0;  // of the B200 or H200 that the kernel is for, computed
  std::string error;       // why it did not finish; empty when it did
  std::string findings;  // on the emulator: faults, findings and notes as JSON, see fp4lab_emulator_findings
  std::string notes;     // the order checker's, see check_order; empty when there are none
  bool passed() const { return error.empty() && exact.count > 0 && exact.passed(); }
};

// From now on the emulator checks the order of all accesses: a kernel that is right by luck of the schedule
// does not pass (see fp4lab_emulator_check). Throws on hardware.
void check_order(const Device& device);

// Attaches one of the emulator's watchers (see fp4lab_emulator_observe) to the launches that follow. Throws
// on hardware, and with the reason when there is no such watcher.
void observe(const Device& device, const std::string& what);
// What they saw of the last launch; empty without one.
std::string observed(const Device& device);
// What they were to look for and have not met in any launch; empty when all was met.
std::string unseen(const Device& device);

// Compiles (or reads the PTX), launches once on poisoned output, reads back and compares. What goes wrong
// with the kernel itself (it does not compile, faults, deadlocks) is in RunResult::error; a plan that is not
// legal throws. PTX made for another plan (see kPtxPlanMark) is refused: it would address shared memory that
// it has not got.
RunResult run_trial(const Device& device, Trial& trial, const Candidate& candidate);

// The same under each of so many schedules of the emulator, 0, 1, ..., until one fails: RunResult::error then
// begins with it. One: under the schedule that is set.
RunResult run_trial(const Device& device, Trial& trial, const Candidate& candidate, std::uint64_t schedules);

// The same with PTX text in the compiled kernel's place; `label` names it in messages.
RunResult run_ptx(const Device& device, Trial& trial, const Candidate& candidate, const std::string& ptx,
                  const std::string& label);

}  // namespace fp4lab
