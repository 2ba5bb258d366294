// fp4lab sweep: many plans of a case, each compiled, run and verified.
#include "fp4lab/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/workload.h"
#include "fp4lab/bench.h"
#include "fp4lab/error.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::string operation, case_name, kernels = "default", json, sort;
  Target target;
  Numbers numbers;
  std::map<std::string, std::optional<std::string>> axes;  // by knob
  int sets = 4;
  TimingOptions timing{.repeats = 15};
  bool resume = false;
};

struct Row {
  RunResult result;
  Placement work;
  std::optional<Measurement> time;  // on a GPU
  double us() const {
    return time && time->timing.us.count ? time->timing.us.median : std::numeric_limits<double>::infinity();
  }
};

// What a GPU needs beside the run that verifies.
struct Clock {
  Timer timer;
  Nvml nvml;
  InputSets sets;
};

// Times a point that has passed; what goes wrong then is the point's error.
void time_point(const Clock& clock, const Candidate& point, Row& row) {
  if (!row.result.passed()) return;
  row.time = measure_kernel(clock.timer, clock.nvml, clock.sets, point, LaunchChoice::kBest);
  row.result.error = row.time->error;
}

nlohmann::json record_of(const Row& row) {
  nlohmann::json record = fp4lab::record_of(row.result);
  if (!row.time) return record;
  const nlohmann::json time = fp4lab::record_of(*row.time);
  for (const char* field : {"us", "samples_us", "calls_per_sample", "launch", "gpu", "weights", "sets"})
    if (time.contains(field)) record[field] = time[field];
  return record;
}

using Column = double (*)(const Row&);

Column column_of(const Options& o, const Device& device) {
  static const std::map<std::string, Column> columns{
      {"instructions",
       [](const Row& r) { return r.result.emulated ? double(r.result.emulated->warp_instructions) : 0.0; }},
      {"bytes", [](const Row& r) { return r.result.emulated ? double(r.result.emulated->tma_bytes) : 0.0; }},
      {"waves", [](const Row& r) { return r.work.waves; }},
      {"seconds", [](const Row& r) { return r.result.seconds; }},
      {"time", [](const Row& r) { return r.us(); }}};
  if (!o.sort.empty() && !columns.contains(o.sort))
    fail("--sort {}: time, instructions, bytes, waves or seconds", o.sort);
  if (o.sort == "time" && device.is_emulator())
    fail("--sort time: only a GPU has times; the device is {}", device.name());
  return columns.at(!o.sort.empty() ? o.sort : device.is_emulator() ? "instructions" : "time");
}

// The legal points that the record file does not have yet; says how many there are of each sort.
std::vector<Candidate> points_to_run(const Options& o, const Device& device, const Case& c,
                                     Distribution distribution, const RecordFile& json) {
  const std::string_view arch = arch_of(device);
  std::vector<Axis> axes;
  for (const auto& [knob, values] : o.axes)
    if (values) axes.push_back(parse_axis(knob, *values));
  SweepPoints points = sweep_points(c, chosen_rungs(arch, op_of(c.operation), o.kernels), axes);
  fmt::print("{} points, {} legal\n", points.total, points.legal.size());
  for (const auto& [rule, count] : points.dropped)
    fmt::print("  {} dropped by rule '{}', for instance {}\n", count, rule, points.example[rule]);
  const size_t present = std::erase_if(points.legal, [&](const Candidate& p) {
    RunResult key;
    key.case_name = c.name, key.kernel = p.rung->name, key.plan = plan_line(p), key.device = device.name();
    key.distribution = distribution, key.seed = o.numbers.seed;
    return json.present().contains(point_key(fp4lab::record_of(key)));
  });
  if (present) fmt::print("{} points are in {} already\n", present, o.json);
  return std::move(points.legal);
}

void compile(const std::vector<Candidate>& points) {
  std::vector<jit::Job> jobs;
  for (const Candidate& p : points) jobs.push_back(job_of(p));
  Progress progress("compile", jobs.size());
  jit::compile_all(jobs, 0,
                   [&](size_t done, size_t, size_t, const jit::Outcome&) { progress.update(done, ""); });
}

// Each point verified, on a GPU timed, and recorded at once.
std::vector<Row> measure(const Options& o, const Device& device, const Case& c, Distribution distribution,
                         const std::vector<Candidate>& points, RecordFile& json) {
  std::vector<Row> rows;
  if (points.empty()) return rows;
  Trial trial(device, c, distribution, o.numbers.seed);
  std::optional<Clock> clock;
  if (!device.is_emulator())
    clock.emplace(Timer(device, o.timing), Nvml(device),
                  InputSets(device, c, distribution, o.numbers.seed, o.sets));
  Progress progress("sweep", points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    progress.update(i, plan_line(points[i]));
    rows.push_back({run_trial(device, trial, points[i]), placement(points[i], c, device.sms()), {}});
    if (clock) time_point(*clock, points[i], rows.back());
    json.add(record_of(rows.back()));
    // A kernel that faulted spoils a GPU's context: no later point could be told from it.
    if (clock && !rows.back().result.passed()) device.synchronize();
  }
  return rows;
}

Table table_of(const std::vector<Row>& rows, const Case& c, bool gpu) {
  std::vector<std::string> headings{"kernel", "plan", ">grid", ">waves", ">SMs busy", ">rows used"};
  const std::vector<std::string> measured{">us", ">p10-p90", ">TFLOP/s", "launch", "SM MHz"};
  const std::vector<std::string> counted{">instructions", ">TMA MB", ">MMAs", ">seconds"};
  headings.insert(headings.end(), (gpu ? measured : counted).begin(), (gpu ? measured : counted).end());
  headings.push_back("result");
  Table table(headings);
  for (const auto& [r, w, time] : rows) {
    std::vector<std::string> cells{r.kernel,
                                   r.plan,
                                   fmt::format("{}", r.grid),
                                   fmt::format("{:.2f}", w.waves),
                                   fmt::format("{:.0f} %", w.busy * 100),
                                   fmt::format("{:.0f} %", w.rows_used * 100)};
    if (gpu && time && time->timing.us.count) {
      const Spread& us = time->timing.us;
      const GpuSpan& state = time->gpu;
      cells.insert(cells.end(),
                   {fmt::format("{:.2f}", us.median), fmt::format("{:.2f}-{:.2f}", us.p10, us.p90),
                    fmt::format("{:.0f}", c.flops() / us.median / 1e6), time->launch,
                    state.readings ? fmt::format("{}-{}", state.sm_mhz_min, state.sm_mhz_max) : "-"});
    } else if (gpu) {
      cells.insert(cells.end(), measured.size(), "-");
    } else {
      cells.insert(
          cells.end(),
          {r.emulated ? fmt::format("{:.2f} M", double(r.emulated->warp_instructions) / 1e6) : "-",
           r.emulated ? fmt::format("{:.1f}", double(r.emulated->tma_bytes) / 1e6) : "-",
           r.emulated ? fmt::format("{}", r.emulated->mma_count) : "-", fmt::format("{:.2f}", r.seconds)});
    }
    cells.push_back(r.passed() ? "PASS" : "FAIL");
    table.add(std::move(cells));
  }
  return table;
}

int run(const Options& o) {
  const Case c = find_case_of(o.case_name, o.operation, "sweep");
  if (o.resume && o.json.empty()) fail("--resume needs --json FILE, the file whose points are to be skipped");
  const Device device = open_for_kernels(o.target.device, o.target.arch);
  const Column column = column_of(o, device);
  const Distribution distribution = o.numbers.of(c.operation);
  RecordFile json = o.json.empty() ? RecordFile() : RecordFile(o.json, o.resume);
  const std::vector<Candidate> points = points_to_run(o, device, c, distribution, json);
  compile(points);
  std::vector<Row> rows = measure(o, device, c, distribution, points, json);
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    if (a.result.passed() != b.result.passed()) return a.result.passed();
    return column(a) < column(b);
  });
  if (const Table table = table_of(rows, c, !device.is_emulator()); !table.empty())
    fmt::print("\n{}\n", table.text());
  bool failed = false;
  for (const Row& row : rows)
    if (const RunResult& r = row.result; !r.passed()) {
      fmt::print("FAIL {} {}: {}\n", r.kernel, r.plan, r.error.empty() ? r.exact.describe() : r.error);
      failed = true;
    }
  if (device.is_emulator())
    fmt::print("Counts by the emulator; its seconds say nothing about a GPU's time.\n");
  else
    fmt::print(
        "us: median per call of {} samples, each over {} input sets after a flush of the L2; every point "
        "verified before and after.\n",
        o.timing.repeats, o.sets);
  return failed ? 1 : 0;
}

const Command kCommand{
    "sweep", "run and verify (on a GPU also time) every legal combination of rungs and knobs",
    [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("operation", o->operation, "group, dual or gemm").required();
      app.add_option("--case", o->case_name, "a case or a shape").required();
      app.add_option("--kernel", o->kernels, "rungs, separated by commas; 'all'; 'default': the top rung")
          .capture_default_str();
      o->target.declare(app);
      o->numbers.declare(app);
      app.add_option("--json", o->json, "write each point as a line of JSON when it is done");
      app.add_flag("--resume", o->resume, "skip the points that --json's file has already");
      app.add_option("--sort", o->sort,
                     "time (the default on a GPU), instructions (on the emulator), bytes, waves or seconds");
      app.add_option("--repeats", o->timing.repeats, "on a GPU: samples of each time")
          .whole_number_from(1)
          .capture_default_str();
      app.add_option("--sets", o->sets, "on a GPU: sets of inputs, in rotation")
          .whole_number_from(1)
          .capture_default_str();
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
        app.add_option("--" + name, o->axes[knob], text + "; several as 1..6 or 1,2,4").group("Knobs");
      }
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
