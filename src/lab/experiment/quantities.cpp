// What can be computed of a plan and a case before anything runs.
#include <algorithm>

#include "fp4lab/error.h"
#include "fp4lab/experiment.h"
#include "fp4lab/machine.h"
#include "fp4lab/model.h"

namespace fp4lab {
namespace {

struct Source {
  const Candidate& candidate;
  const Case& c;
  const Machine& machine;
  Placement placed;
  Prediction predicted;
};

double share(const Prediction& p, std::initializer_list<std::string_view> names) {
  double us = 0;
  for (const Term& t : p.terms)
    if (std::ranges::find(names, t.name) != names.end()) us += t.us;
  return us / p.us;
}
const Machine& named(std::string_view name) { return *std::ranges::find(machines(), name, &Machine::name); }
Roofline roof(const Source& s, std::string_view machine) { return roofline(work_of(s.c), named(machine)); }

// "predicted_": by the model. "rounds_", "task_": with the constants that the contest's theorist, the task
// had.
struct Quantity {
  const char* name;
  double (*of)(const Source&);
} constexpr kQuantities[] = {
    {"tiles", [](const Source& s) { return double(s.placed.tiles); }},
    {"ctas", [](const Source& s) { return double(s.placed.ctas); }},
    {"machine_sms", [](const Source& s) { return double(s.machine.sms); }},
    {"machine_tb_per_s", [](const Source& s) { return s.machine.bytes_per_second / 1e12; }},
    {"machine_pflop_per_s", [](const Source& s) { return s.machine.flops_per_second / 1e15; }},
    {"sms_busy", [](const Source& s) { return s.placed.busy * s.machine.sms; }},
    {"sms_busy_share", [](const Source& s) { return s.placed.busy; }},
    {"waves", [](const Source& s) { return s.placed.waves; }},
    {"padding_share", [](const Source& s) { return 1 - s.placed.rows_used; }},
    {"stages", [](const Source& s) { return double(s.placed.stages); }},
    {"mb_in_flight",
     [](const Source& s) { return s.placed.bytes_in_flight * s.placed.busy * s.machine.sms / 1e6; }},
    {"mb_moved_at_least", [](const Source& s) { return work_of(s.c).bytes / 1e6; }},
    {"compute_us", [](const Source& s) { return roofline(work_of(s.c), s.machine).compute_us; }},
    {"memory_us", [](const Source& s) { return roofline(work_of(s.c), s.machine).memory_us; }},
    {"compute_over_memory",
     [](const Source& s) {
       const Roofline r = roofline(work_of(s.c), s.machine);
       return r.compute_us / r.memory_us;
     }},
    {"rounds_compute_us", [](const Source& s) { return roof(s, "rounds").compute_us; }},
    {"rounds_memory_us", [](const Source& s) { return roof(s, "rounds").memory_us; }},
    {"task_compute_us", [](const Source& s) { return roof(s, "task").compute_us; }},
    {"task_memory_us", [](const Source& s) { return roof(s, "task").memory_us; }},
    {"predicted_us", [](const Source& s) { return s.predicted.us; }},
    {"predicted_mb_dram", [](const Source& s) { return s.predicted.dram_bytes / 1e6; }},
    {"predicted_epilogue_share",
     [](const Source& s) {
       return share(s.predicted, {"between tiles", "end"});
     }},
    {"predicted_start_share",
     [](const Source& s) {
       return share(s.predicted, {"start", "set-up", "first fill"});
     }},
};

}  // namespace

std::vector<std::string> quantity_names() {
  std::vector<std::string> names;
  for (const Quantity& q : kQuantities) names.push_back(q.name);
  return names;
}

std::map<std::string, double> quantities(const Arm& arm, const Case& c) {
  const Candidate candidate = candidate_of(arm, c);
  require_legal(candidate, c);
  const Machine& machine = machine_for(candidate.rung->arch);
  const Source source{candidate, c, machine, placement(candidate, c, machine.sms), predict(candidate, c)};
  std::map<std::string, double> values;
  for (const Quantity& q : kQuantities) values[q.name] = q.of(source);
  return values;
}

}  // namespace fp4lab
