// The Hopper kernels: rungs, plans from knobs, and launching one. rung.h is how they are used; the schedule
// that a plan holds is sm90/plan.h, what the kernels read is sm90/work.h.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fp4lab/rung.h"
#include "fp4lab/sm90/plan.h"

namespace fp4lab::sm90 {

constexpr std::string_view kArch = "sm_90a";
constexpr const char* kRepackEntry = "repack_weights";  // that every kernel file has beside its own

std::span<const Rung> rungs();
std::span<const KnobInfo> knob_table();

// The rung's plan for this case. Fails on a knob or value that there is not; a plan that cannot be is
// returned with its reasons.
Plan plan_for(const Rung& rung, const Case& c, const std::vector<std::string>& knobs);
std::vector<Reason> reasons(const Rung& rung, const Plan& plan, const Case& c);
std::string plan_line(const Plan& plan);
// What each knob came to be; one that is still to be chosen (-1, 0) is what was asked for.
std::string knob_value(const Plan& plan, std::string_view name);
Placement placement(const Plan& plan, const Case& c, int sms);
std::unique_ptr<Launch> prepare(const Device& device, const Plan& plan, const DeviceProblem& problem,
                                const Module& module, const std::string& entry);

}  // namespace fp4lab::sm90
