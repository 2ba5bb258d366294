// The Blackwell kernels: the ladder of rungs, the plan each rung takes for a case, and launching one. rung.h
// is how they are used.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fp4lab/rung.h"

namespace fp4lab::sm100 {

constexpr std::string_view kArch = "sm_100a";

struct Rung : fp4lab::Rung {
  Plan (*plan)(const Case&);                          // a good plan for this case
  void (*limits)(const Plan&, std::vector<Reason>&);  // what the file's static assertions demand
};
std::span<const Rung> rungs();
const Rung& find_rung(Op op, std::string_view name);

// The rung's plan for this case, complete: operation and group capacity included.
Plan default_plan(const Rung& rung, const Case& c);
// The same with knobs set; see candidate_for.
Plan plan_for(const Rung& rung, const Case& c, const std::vector<std::string>& knobs);
// Everything that forbids this plan for this rung and case: rules of the machine, of the rung, of the sizes.
std::vector<Reason> reasons(const Rung& rung, const Plan& plan, const Case& c);

// Options that turn the rung's file into this plan's kernel (architecture and include paths are the JIT's).
std::vector<std::string> compile_options(const Plan& plan);

// Indices of the groups in the order of a launch that takes all.
std::vector<int> group_order(const Plan& plan, const std::vector<Shape>& shapes);

Placement placement(const Plan& plan, const Case& c, int sms);
// One launch or one per group, as the plan says.
std::unique_ptr<Launch> prepare(const Device& device, const Plan& plan, const DeviceProblem& problem,
                                const Module& module, const std::string& entry);

}  // namespace fp4lab::sm100
