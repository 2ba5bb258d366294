// A plan as text: for the compiler (-DFP4LAB_PLAN=...), for people, and from the command line.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fp4lab/plan.h"

namespace fp4lab {

// One row per knob of Plan, in the order of Plan::visit_knobs.
struct KnobInfo {
  std::string_view name;
  std::string_view values;  // what set_knob takes
  std::string_view meaning;
};
std::span<const KnobInfo> knob_table();

// The value of -DFP4LAB_PLAN: every kernel knob as a designated initialiser, for instance
// "{.op=Op::kGroup,.swap=0,...}". Two plans give the same text exactly when they compile to the same kernel.
std::string plan_define(const Plan& plan);

// One line for logs, tables and records: "128x128x256 cta_group=1 stages=4 ..."; knobs at their default are
// left out.
std::string plan_line(const Plan& plan);

// Sets one knob from text ("stages", "4"; "schedule", "static"). Fails with the knob's values, or the list of
// knobs.
void set_knob(Plan& plan, std::string_view name, std::string_view value);
// Same for "stages=4".
void set_knob(Plan& plan, std::string_view assignment);
// The knob's value as set_knob takes it.
std::string knob_value(const Plan& plan, std::string_view name);

}  // namespace fp4lab
