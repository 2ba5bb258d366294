// What is known of a kernel and a case without a GPU: compiled, verified on the emulator, looked into.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/table.h"
#include "fp4lab/jit.h"
#include "fp4lab/run.h"

namespace fp4lab::cli {

struct Look {
  Candidate candidate;
  jit::ArtifactPtr artifact;  // null when it does not compile
  RunResult run;
  nlohmann::json profile;  // see emulator/watch/profile.h; null when it was not asked for or the run failed

  std::string trouble() const;  // why its output does not count; empty when it is right
};

// On the emulator; the plan must be legal for the trial's case. What is wrong with the kernel is in the run.
Look look_at(const Device& emulator, Trial& trial, const Candidate& candidate, bool profile);

// Why a kernel waits: the source line that the kernel's author wrote, and the mbarrier that it names.
struct Wait {
  double share = 0;         // of the role's steps
  std::string what, where;  // "full_barrier", "v2_warp_specialized.cu:78"
};
// The role's, those of one source line together, the longest first.
std::vector<Wait> waits_of(const nlohmann::json& role);

// Counts side by side: one column for each look, and with two the ratio.
Table counts_table(const std::vector<const Look*>& looks, const std::vector<std::string>& names);
// What became more or less: "registers of a thread 90 -> 88 (-2.2 %)"; empty where all counts are equal.
std::vector<std::string> changed_counts(const Look& before, const Look& after);
nlohmann::json record_of(const Look& look);

}  // namespace fp4lab::cli
