// fp4lab kernels: the ladders of rungs and the knobs of their plans.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/table.h"
#include "fp4lab/error.h"
#include "fp4lab/machine.h"
#include "fp4lab/rung.h"

namespace fp4lab::cli {
namespace {

// What ptxas makes of each rung with the plan that it takes for the case of its operation.
int report(const std::string& group, const std::string& dual) {
  const Case cases[] = {find_case(group), find_case(dual)};
  const auto case_of = [&](Op op) -> const Case& { return cases[op == Op::kDual]; };
  for (const Op op : {Op::kGroup, Op::kDual})
    if (op_of(case_of(op).operation) != op)
      fail("case {} is a {} GEMM", case_of(op).name, operation_name(case_of(op).operation));
  std::vector<const Rung*> compiled;
  std::vector<Candidate> candidates;
  std::vector<jit::Job> jobs;
  for (const Rung* rung : rungs()) {
    candidates.push_back(candidate_for(*rung, case_of(rung->op), {}));
    require_legal(candidates.back(), case_of(rung->op));
    compiled.push_back(rung);
    jobs.push_back(job_of(candidates.back()));
  }
  Table table({"arch", "op", "kernel", "case", ">registers", ">shared bytes", ">stack", ">spilled"});
  bool failed = false;
  const std::vector<jit::Outcome> outcomes = jit::compile_all(jobs);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Rung& rung = *compiled[i];
    const Case& c = case_of(rung.op);
    if (!outcomes[i].artifact) fail("{}: {}", rung.file(), outcomes[i].error);
    const jit::KernelReport& k = outcomes[i].artifact->kernel(rung.entry());
    const int spilled = k.spill_stores + k.spill_loads;
    failed |= spilled || k.stack_frame;
    table.add({std::string(rung.arch), rung.op == Op::kDual ? "dual" : "group", std::string(rung.name),
               c.name, fmt::format("{}", k.registers),
               fmt::format("{}", placement(candidates[i], c, machine_for(rung.arch).sms).shared_bytes),
               fmt::format("{}", k.stack_frame), fmt::format("{}", spilled)});
  }
  fmt::print("{}\nby {}\n", table.text(), outcomes.front().artifact->compiler);
  if (failed) fmt::print("a stack or spills: local memory, which no rung should need\n");
  return failed ? 1 : 0;
}

const Command kCommand{
    "kernels", "list the rungs and the knobs", [](Arguments& app) {
      struct Options {
        bool report = false;
        std::string group = "g8k7168", dual = "dual-256-4096-7168";
      };
      auto o = std::make_shared<Options>();
      app.add_flag("--report", o->report,
                   "compile every rung and print its registers, shared memory, spills");
      app.add_option("--group", o->group, "with --report: the case of the group GEMM").capture_default_str();
      app.add_option("--dual", o->dual, "with --report: the case of the dual GEMM").capture_default_str();
      return [o] {
        if (o->report) return report(o->group, o->dual);
        Table list({"arch", "kernel", "op", "changes", "idea"});
        for (const Rung* r : rungs())
          list.add({std::string(r->arch), std::string(r->name), r->op == Op::kDual ? "dual" : "group",
                    r->parent.empty() ? "-" : std::string(r->parent), std::string(r->idea)});
        Table knobs({"arch", "knob", "values", "meaning"});
        for (const std::string_view arch : architectures())
          for (const KnobInfo& k : knob_table(arch))
            knobs.add(
                {std::string(arch), std::string(k.name), std::string(k.values), std::string(k.meaning)});
        fmt::print("{}\nknobs (run --set NAME=VALUE):\n{}", list.text(), knobs.text());
        return 0;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
