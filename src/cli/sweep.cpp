// fp4lab sweep: many plans of a case, each compiled, run and verified.
#include "fp4lab/sweep.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/table.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::string operation, case_name, kernels = "default", device = "auto", arch, distribution, json,
                                    sort = "instructions";
  std::map<std::string, std::string> axes;
  uint64_t seed = 1;
  bool resume = false;
};

std::vector<const Rung*> chosen(std::string_view arch, Op op, const std::string& names) {
  if (names == "all") return rungs(arch, op);
  std::vector<const Rung*> chosen;
  for (const std::string& name : parse_axis("--kernel", names).values)
    chosen.push_back(&find_rung(arch, op, name));
  return chosen;
}

struct Row {
  RunResult result;
  Placement work;
};

int run(const Options& o) {
  const Case c = find_case(o.case_name);
  if (operation_name(c.operation) != o.operation)
    fail("case {} is a {} GEMM; 'sweep {}' was asked for", c.name, operation_name(c.operation), o.operation);
  if (o.resume && o.json.empty()) fail("--resume needs --json FILE, the file whose points are to be skipped");
  const std::map<std::string, double (*)(const Row&)> columns{
      {"instructions",
       [](const Row& r) { return r.result.emulated ? double(r.result.emulated->warp_instructions) : 0.0; }},
      {"bytes", [](const Row& r) { return r.result.emulated ? double(r.result.emulated->tma_bytes) : 0.0; }},
      {"waves", [](const Row& r) { return r.work.waves; }},
      {"seconds", [](const Row& r) { return r.result.seconds; }}};
  if (!columns.contains(o.sort)) fail("--sort {}: instructions, bytes, waves or seconds", o.sort);

  const Device device = open_for_kernels(o.device, o.arch);
  const std::string_view arch = arch_of(device);
  std::vector<Axis> axes;
  for (const auto& [knob, values] : o.axes) axes.push_back(parse_axis(knob, values));
  SweepPoints points = sweep_points(c, chosen(arch, op_of(c.operation), o.kernels), axes);
  fmt::print("{} points, {} legal\n", points.total, points.legal.size());
  for (const auto& [rule, count] : points.dropped)
    fmt::print("  {} dropped by rule '{}', for instance {}\n", count, rule, points.example[rule]);

  const Distribution distribution =
      o.distribution.empty() ? task_distribution(c.operation) : find_distribution(o.distribution);
  RecordFile json = o.json.empty() ? RecordFile() : RecordFile(o.json, o.resume);
  const size_t legal = points.legal.size();
  std::erase_if(points.legal, [&](const Candidate& p) {
    RunResult key;
    key.case_name = c.name, key.kernel = p.rung->name, key.plan = plan_line(p), key.device = device.name();
    key.distribution = distribution, key.seed = o.seed;
    return json.present().contains(point_key(record_of(key)));
  });
  if (legal != points.legal.size())
    fmt::print("{} points are in {} already\n", legal - points.legal.size(), o.json);

  std::vector<jit::Job> jobs;
  for (const Candidate& p : points.legal) jobs.push_back(job_of(p));
  {
    Progress progress("compile", jobs.size());
    jit::compile_all(jobs, 0,
                     [&](size_t done, size_t, size_t, const jit::Outcome&) { progress.update(done, ""); });
  }
  std::vector<Row> rows;
  if (!points.legal.empty()) {
    Trial trial(device, c, distribution, o.seed);
    Progress progress("sweep", points.legal.size());
    for (size_t i = 0; i < points.legal.size(); ++i) {
      progress.update(i, plan_line(points.legal[i]));
      rows.push_back(
          {run_trial(device, trial, points.legal[i]), placement(points.legal[i], c, device.sms())});
      json.add(record_of(rows.back().result));
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    if (a.result.passed() != b.result.passed()) return a.result.passed();
    return columns.at(o.sort)(a) < columns.at(o.sort)(b);
  });
  Table table({"kernel", "plan", ">grid", ">waves", ">SMs busy", ">rows used", ">instructions", ">TMA MB",
               ">MMAs", ">seconds", "result"});
  size_t failed = 0;
  for (const auto& [r, w] : rows) {
    failed += !r.passed();
    table.add({r.kernel, r.plan, fmt::format("{}", r.grid), fmt::format("{:.2f}", w.waves),
               fmt::format("{:.0f} %", w.busy * 100), fmt::format("{:.0f} %", w.rows_used * 100),
               r.emulated ? fmt::format("{:.2f} M", double(r.emulated->warp_instructions) / 1e6) : "-",
               r.emulated ? fmt::format("{:.1f}", double(r.emulated->tma_bytes) / 1e6) : "-",
               r.emulated ? fmt::format("{}", r.emulated->mma_count) : "-", fmt::format("{:.2f}", r.seconds),
               r.passed() ? "PASS" : "FAIL"});
  }
  if (!table.empty()) fmt::print("\n{}\n", table.text());
  for (const auto& [r, w] : rows)
    if (!r.passed())
      fmt::print("FAIL {} {}: {}\n", r.kernel, r.plan, r.error.empty() ? r.exact.describe() : r.error);
  if (device.is_emulator())
    fmt::print("Counts by the emulator; its seconds say nothing about a GPU's time.\n");
  return failed ? 1 : 0;
}

const Command kCommand{
    "sweep", "run and verify every legal combination of rungs and knobs", [](CLI::App& app) {
      auto o = std::make_shared<Options>();
      app.add_option("operation", o->operation, "group, dual or gemm")->required();
      app.add_option("--case", o->case_name, "a case or a shape")->required();
      app.add_option("--kernel", o->kernels, "rungs, separated by commas; 'all'; 'default': the top rung")
          ->capture_default_str();
      app.add_option("--device", o->device, "auto, emulator or cuda")->capture_default_str();
      app.add_option("--arch", o->arch,
                     "sm_100a or sm_90a; default: what the device runs, sm_100a on the emulator");
      app.add_option("--seed", o->seed, "of the input numbers")->capture_default_str();
      app.add_option("--dist", o->distribution,
                     "task-group, task-dual, full or moderate; default: what the task uses");
      app.add_option("--json", o->json, "write each point as a line of JSON when it is done");
      app.add_flag("--resume", o->resume, "skip the points that --json's file has already");
      app.add_option("--sort", o->sort, "instructions, bytes, waves or seconds")->capture_default_str();
      std::map<std::string, std::string> help;  // a name may be a knob of several architectures
      for (const std::string_view arch : architectures())
        for (const KnobInfo& knob : knob_table(arch)) {
          std::string& text = help[std::string(knob.name)];
          if (!text.empty()) text += "; ";
          text += fmt::format("{}: {} ({})", arch, knob.meaning, knob.values);
        }
      for (const auto& [knob, text] : help) {
        std::string name = knob;
        std::replace(name.begin(), name.end(), '_', '-');
        app.add_option_function<std::string>(
               "--" + name, [o, knob](const std::string& values) { o->axes[knob] = values; },
               text + "; several as 1..6 or 1,2,4")
            ->group("Knobs");
      }
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
