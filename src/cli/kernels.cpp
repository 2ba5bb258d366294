// fp4lab kernels: the ladders of rungs and the knobs of their plans.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/table.h"
#include "fp4lab/error.h"
#include "fp4lab/machine.h"
#include "fp4lab/machine_code.h"
#include "fp4lab/rung.h"
#include "fp4lab/sm100.h"

namespace fp4lab::cli {
namespace {

struct Options {
  bool report = false;
  std::string group = "g8k7168", dual = "dual-256-4096-7168", kernel = "all";
  std::vector<std::string> knobs;
  TableFormat format;
};

std::string counts(const auto& map, const char* unit) {
  std::string text;
  for (const auto& [key, count] : map)
    text += fmt::format("{}{}{} x {}", text.empty() ? "" : ", ", key, unit, count);
  return text.empty() ? "-" : text;
}

// The machine code of a Blackwell kernel as cells of the table.
std::vector<std::string> machine_code_cells(const Rung& rung, const jit::Artifact& artifact) {
  const std::string file = rung.file().substr(std::string_view("ptx/sm100/").size());
  const MachineCode code = read_machine_code(jit::disassemble(artifact.cubin), artifact.source, file,
                                             rung.op == Op::kDual ? 2 : 1);
  const auto stage = [&](int MachineCode::Stage::*part) {
    return code.stage ? fmt::format("{}", (*code.stage).*part) : "-";
  };
  return {fmt::format("{}", code.instructions),  stage(&MachineCode::Stage::to_first_copy),
          stage(&MachineCode::Stage::to_commit), code.epilogue ? fmt::format("{:.0f}", *code.epilogue) : "-",
          counts(code.global_stores, " B"),      counts(code.gpu_fences, "")};
}

// What ptxas makes of each rung with the plan that it takes for the case of its operation.
int report(const Options& o) {
  const Case cases[] = {find_case(o.group), find_case(o.dual)};
  const auto case_of = [&](Op op) -> const Case& { return cases[op == Op::kDual]; };
  for (const Op op : {Op::kGroup, Op::kDual})
    if (op_of(case_of(op).operation) != op)
      fail("case {} is a {} GEMM", case_of(op).name, operation_name(case_of(op).operation));
  std::vector<const Rung*> compiled;
  std::vector<Candidate> candidates;
  std::vector<jit::Job> jobs;
  for (const Rung* rung : rungs()) {
    if (!o.knobs.empty() && rung->arch != sm100::kArch) continue;  // Hopper's plans have other knobs
    if (o.kernel != "all" && rung->name != o.kernel && rung->name.substr(0, rung->name.find('_')) != o.kernel)
      continue;
    candidates.push_back(candidate_for(*rung, case_of(rung->op), o.knobs));
    require_legal(candidates.back(), case_of(rung->op));
    compiled.push_back(rung);
    jobs.push_back(job_of(candidates.back()));
  }
  if (jobs.empty()) fail("no kernel '{}'; fp4lab kernels lists them", o.kernel);
  Table table({"arch", "op", "kernel", "case", ">registers", ">shared bytes", ">stack", ">spilled"});
  Table machine_code({"op", "kernel", ">instructions", ">wait to copy", ">wait to commit", ">epilogue",
                      "global stores", "fences at GPU scope", "plan"});
  const bool disassembles = !jit::tool_path("nvdisasm").empty();
  bool failed = false;
  const std::vector<jit::Outcome> outcomes = jit::compile_all(jobs);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Rung& rung = *compiled[i];
    const Case& c = case_of(rung.op);
    if (!outcomes[i].artifact) fail("{}: {}", rung.file(), outcomes[i].error);
    const jit::KernelReport& k = outcomes[i].artifact->kernel(rung.entry());
    const int spilled = k.spill_stores + k.spill_loads;
    failed |= spilled || k.stack_frame;
    const std::string op = rung.op == Op::kDual ? "dual" : "group";
    table.add({std::string(rung.arch), op, std::string(rung.name), c.name, fmt::format("{}", k.registers),
               fmt::format("{}", placement(candidates[i], c, machine_for(rung.arch).sms).shared_bytes),
               fmt::format("{}", k.stack_frame), fmt::format("{}", spilled)});
    if (!disassembles || rung.arch != sm100::kArch) continue;
    std::vector<std::string> cells = machine_code_cells(rung, *outcomes[i].artifact);
    cells.insert(cells.begin(), {op, std::string(rung.name)});
    cells.push_back(plan_line(candidates[i]));
    machine_code.add(std::move(cells));
  }
  fmt::print("{}\nby {}\n", o.format.text(table), outcomes.front().artifact->compiler);
  if (!machine_code.empty())
    fmt::print(
        "\n{}\nInstructions of the machine code: of the kernel; of the thread that multiplies, from the wait "
        "for a full "
        "stage to its first\ncopy of scales and to its commit; of a warp of the epilogue, for 16 columns of "
        "its 32 "
        "lanes of TMEM (of each product).\nStores by the bytes of a thread, fences by role.\n",
        o.format.text(machine_code));
  else if (!disassembles)
    fmt::print(
        "no counts of the SASS: nvdisasm not found (it comes with the CUDA toolkit and the Python package "
        "nvidia-cuda-nvdisasm)\n");
  if (failed) fmt::print("stack or spills: a rung uses local memory\n");
  return failed ? 1 : 0;
}

const Command kCommand{
    "kernels", "list the rungs (kernels, one idea each) and the knobs of a plan", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_flag("--report", o->report,
                   "compile every rung and print registers, shared memory, spills, and counts of its SASS");
      app.add_option("--group", o->group, "with --report: the case of the group GEMM").capture_default_str();
      app.add_option("--dual", o->dual, "with --report: the case of the dual GEMM").capture_default_str();
      app.add_option("--kernel", o->kernel, "with --report: one rung, v2 or its full name")
          .capture_default_str();
      app.add_option("--set", o->knobs, "with --report: set a knob of the plan, NAME=VALUE");
      o->format.declare(app);
      app.examples(
          {"fp4lab kernels", "fp4lab kernels --report --group group:100/128/1024 --dual dual:256/128/512"});
      return [o] {
        if (o->report) return report(*o);
        Table list({"arch", "kernel", "op", "changes", "idea"});
        for (const Rung* r : rungs())
          list.add({std::string(r->arch),
                    std::string(r->name) + (r->alias.empty() ? "" : fmt::format(" ({})", r->alias)),
                    r->op == Op::kDual ? "dual" : "group", r->parent.empty() ? "-" : std::string(r->parent),
                    std::string(r->idea)});
        Table knobs({"arch", "knob", "values", "meaning"});
        for (const std::string_view arch : architectures())
          for (const KnobInfo& k : knob_table(arch))
            knobs.add(
                {std::string(arch), std::string(k.name), std::string(k.values), std::string(k.meaning)});
        fmt::print("{}\nknobs (--set NAME=VALUE):\n{}", o->format.text(list), o->format.text(knobs));
        return 0;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
