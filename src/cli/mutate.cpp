// fp4lab mutate: does the emulator notice? One synchronisation line of a kernel at a time is removed or
// altered.
#include "fp4lab/mutate.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "fp4lab/run.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::string kernel, case_name, arch = std::string(architectures()[0]), distribution = "moderate", rule;
  std::vector<std::string> knobs;
  uint64_t seeds = 20;
  bool verbose = false;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The emulator's own first line: behind the call that failed and the launch's numbers, which are indented.
std::string complaint(const std::string& error) {
  for (size_t at = error.find('\n'); at != std::string::npos; at = error.find('\n', at + 1))
    if (at + 1 < error.size() && error[at + 1] != ' ') return first_line(error.substr(at + 1));
  return first_line(error);
}

// What the notes are about: kind and the two lines; the rest depends on the schedule.
std::set<std::string> notes_of(const RunResult& r) {
  std::set<std::string> notes;
  if (r.findings.empty()) return notes;
  for (const auto& f : nlohmann::json::parse(r.findings))
    if (f.contains("first"))
      notes.insert(fmt::format("{} {} {}", f.at("kind").get<std::string>(),
                               f.at("first").at("line").get<int>(), f.at("then").at("line").get<int>()));
  return notes;
}

int run(const Options& o) {
  const Case c = find_case(o.case_name);
  const Rung& rung = find_rung(o.arch, op_of(c.operation), o.kernel);
  const Candidate candidate = candidate_for(rung, c, o.knobs);
  require_legal(candidate, c);
  const auto artifact = jit::compile(job_of(candidate));
  const std::vector<Mutant> all = mutants(artifact->ptx);

  const Device device = Device::open("emulator", o.arch);
  const auto seed =
      reinterpret_cast<decltype(&fp4lab_emulator_seed)>(device.driver().symbol("fp4lab_emulator_seed"));
  check_order(device);
  Trial trial(device, c, find_distribution(o.distribution), 1);
  const RunResult whole = run_ptx(device, trial, candidate, artifact->ptx, fmt::format("{}.ptx", rung.name));
  if (!whole.passed()) fail("{} does not pass unchanged: {}", rung.name, whole.error);
  // What the checker notes about the kernel as it is.
  std::set<std::string> own_notes = notes_of(whole);
  // A mutant of a line that this case never executes shows nothing.
  observe(device, "lines");
  for (uint64_t s = 0; s < 5; ++s) {
    seed(s);
    own_notes.merge(
        notes_of(run_ptx(device, trial, candidate, artifact->ptx, fmt::format("{}.ptx", rung.name))));
  }
  std::set<int> executed;
  std::istringstream lines(observed(device));
  for (int line; lines >> line;) executed.insert(line);
  reinterpret_cast<decltype(&fp4lab_emulator_observe)>(device.driver().symbol("fp4lab_emulator_observe"))(
      nullptr);
  struct Count {
    size_t reported = 0, wrong = 0, noted = 0, survived = 0;
  };
  std::map<std::string, Count> counts;
  std::vector<std::string> survivors;
  Table details({">line", "rule", "outcome", ">seed", "what was said"});
  Progress progress("mutate", all.size());
  size_t done = 0, idle = 0;
  for (const Mutant& m : all) {
    progress.update(done++, m.rule);
    if (!o.rule.empty() && m.rule.find(o.rule) == std::string::npos) continue;
    if (!executed.contains(m.line)) {
      ++idle;
      continue;
    }
    Count& count = counts[m.rule];
    std::string outcome = "survived", said;
    uint64_t s = 0;
    for (; s < o.seeds && outcome == "survived"; ++s) {
      seed(s);
      const RunResult r = run_ptx(device, trial, candidate, m.ptx, fmt::format("{}.ptx", rung.name));
      if (!r.error.empty())
        outcome = "reported", said = complaint(r.error);
      else if (!r.passed())
        outcome = "wrong", said = first_line(r.exact.describe());
      else if (const auto notes = notes_of(r);
               !std::includes(own_notes.begin(), own_notes.end(), notes.begin(), notes.end()))
        outcome = "noted", said = first_line(r.notes);
    }
    (outcome == "reported" ? count.reported
     : outcome == "wrong"  ? count.wrong
     : outcome == "noted"  ? count.noted
                           : count.survived)++;
    if (outcome == "survived") survivors.push_back(fmt::format("{:5}  {}: {}", m.line, m.rule, m.before));
    details.add({fmt::format("{}", m.line), m.rule, outcome,
                 outcome == "survived" ? "-" : fmt::format("{}", s - 1), said.substr(0, 140)});
  }
  if (o.verbose) fmt::print("{}\n", details.text());
  Table table({"rule", ">mutants", ">reported", ">wrong result", ">noted", ">survived"});
  Count sum;
  for (const auto& [rule, n] : counts) {
    table.add({rule, fmt::format("{}", n.reported + n.wrong + n.noted + n.survived),
               fmt::format("{}", n.reported), fmt::format("{}", n.wrong), fmt::format("{}", n.noted),
               fmt::format("{}", n.survived)});
    sum.reported += n.reported, sum.wrong += n.wrong, sum.noted += n.noted, sum.survived += n.survived;
  }
  table.add({"all", fmt::format("{}", sum.reported + sum.wrong + sum.noted + sum.survived),
             fmt::format("{}", sum.reported), fmt::format("{}", sum.wrong), fmt::format("{}", sum.noted),
             fmt::format("{}", sum.survived)});
  fmt::print("{} {} on {}, {} seeds\n{}", rung.name, plan_line(candidate), c.name, o.seeds, table.text());
  if (idle) fmt::print("{} mutants of lines that this case does not execute are left out\n", idle);
  if (!survivors.empty()) fmt::print("\nsurvivors (equivalent to the original, or missed):\n");
  for (const std::string& s : survivors) fmt::print("{}\n", s);
  return 0;
}

const Command kCommand{
    "mutate", "remove or alter one synchronisation line at a time and see whether the emulator notices",
    [](CLI::App& app) {
      auto o = std::make_shared<Options>();
      app.add_option("kernel", o->kernel, "a rung")->required();
      app.add_option("case", o->case_name, "a small case or shape")->required();
      app.add_option("--seeds", o->seeds, "schedules to try before a mutant counts as a survivor")
          ->capture_default_str();
      app.add_option("--dist", o->distribution, "of the numbers")->capture_default_str();
      app.add_option("--rule", o->rule, "only rules whose name contains this");
      app.add_option("--arch", o->arch, "sm_100a or sm_90a")->capture_default_str();
      app.add_option("--set", o->knobs, "a knob of the plan, as stages=4; may be repeated");
      app.add_flag("-v,--verbose", o->verbose, "every mutant, and what was said of it");
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
