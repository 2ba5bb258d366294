// fp4lab sweep: many plans of a case, each compiled, run and verified.
#include "fp4lab/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/run_table.h"
#include "cli/workload.h"
#include "fp4lab/bench.h"
#include "fp4lab/error.h"
#include "fp4lab/model.h"
#include "fp4lab/record.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::string operation, kernels = "default", sort;
  std::vector<std::string> case_names;
  Target target;
  Numbers numbers;
  Conditions conditions;
  KernelFile file;
  Output output;
  TableFormat format;
  std::map<std::string, std::optional<std::string>> axes;  // by knob
  int sets = 4;
  TimingOptions timing{.repeats = 15};
  unsigned best = 0;  // points of a case that the model holds for the fastest; 0: all
};

struct Item {
  size_t case_index;
  Candidate candidate;
};
struct Work {
  std::vector<Case> cases;
  std::vector<Item> items;
  std::vector<std::string> points;  // of the items
  std::vector<std::string> swept;   // knobs
};

// The legal points of this shard; says how many there are of each sort. Fails when none is.
Work points_to_run(const Options& o, const Device& device) {
  const std::string_view arch = arch_of(device);
  Work work;
  work.cases = chosen_cases(o.case_names, o.operation, "sweep");
  std::vector<Axis> axes;
  for (const auto& [knob, values] : o.axes)
    if (values) axes.push_back(parse_axis(knob, *values));
  for (const Axis& axis : axes)
    if (axis.values.size() > 1) work.swept.push_back(axis.knob);
  for (const std::string& knob : o.conditions.knobs) {
    const size_t equal = std::min(knob.find('='), knob.size());
    if (equal == knob.size()) fail("--set {}: knob=value is wanted", knob);
    axes.push_back({knob.substr(0, equal), {knob.substr(equal + 1)}});
  }
  const Shard shard = o.output.shard();
  size_t total = 0, legal = 0;
  std::map<std::string, std::pair<size_t, std::string>> dropped;
  for (size_t i = 0; i < work.cases.size(); ++i) {
    const Case& c = work.cases[i];
    SweepPoints points = sweep_points(c, chosen_rungs(arch, op_of(c.operation), o.kernels, o.file), axes);
    total += points.total;
    for (const auto& [rule, count] : points.dropped) {
      auto& [sum, example] = dropped[rule];
      sum += count;
      if (example.empty()) example = points.example[rule];
    }
    if (o.best) sort_by_prediction(points.legal, c, o.best);
    for (Candidate& candidate : points.legal) {
      if (!shard.takes(legal++)) continue;
      o.file.put_into(candidate);
      work.points.push_back(point_of_run("sweep", device, c, candidate, o.numbers.of(c.operation),
                                         o.numbers.seed, o.conditions.text()));
      work.items.push_back({i, std::move(candidate)});
    }
  }
  std::FILE* const out = o.format.csv ? stderr : stdout;
  fmt::print(out, "{} points, {} legal{}\n", total, legal,
             shard.count > 1 ? fmt::format(", {} of them in shard {}", work.items.size(), shard.text()) : "");
  for (const auto& [rule, what] : dropped)
    fmt::print(
        out, "{}",
        fitted(fmt::format("  {} dropped by rule '{}', for instance {}\n", what.first, rule, what.second)));
  if (!legal) {
    std::fflush(stdout);
    fail("no point of this sweep is legal: nothing to run");
  }
  return work;
}

void compile(const Work& work, const Store& store) {
  std::vector<jit::Job> jobs;
  for (size_t i = 0; i < work.items.size(); ++i)
    if (!store.contains(work.points[i])) jobs.push_back(job_of(work.items[i].candidate));
  Progress progress("compile", jobs.size());
  jit::compile_all(jobs, 0,
                   [&](size_t done, size_t, size_t, const jit::Outcome&) { progress.update(done, ""); });
}

// What a case needs on the device; on a GPU also what times it.
struct Bench {
  Trial trial;
  std::optional<InputSets> sets;

  Bench(const Options& o, const Device& device, const Case& c)
      : trial(device, c, o.numbers.of(c.operation), o.numbers.seed) {
    if (!device.is_emulator()) sets.emplace(device, c, o.numbers.of(c.operation), o.numbers.seed, o.sets);
  }
};

// Each point verified, on a GPU timed, and recorded at once.
void measure(const Options& o, const Device& device, const Work& work, Store& store) {
  std::optional<Timer> timer;
  std::optional<Nvml> nvml;
  if (!device.is_emulator()) timer.emplace(device, o.timing), nvml.emplace(device);
  std::unique_ptr<Bench> bench;
  size_t bench_case = work.cases.size(), done = 0;
  Progress progress("sweep", work.items.size());
  work_through(store, work.points, [&](size_t i) {
    const auto& [case_index, candidate] = work.items[i];
    progress.update(done++, plan_line(candidate));
    if (bench_case != case_index) {
      bench.reset();  // frees the last case's memory first
      bench = std::make_unique<Bench>(o, device, work.cases[case_index]);
      bench_case = case_index;
    }
    nlohmann::json record = record_of(run_trial(device, bench->trial, candidate, o.conditions.schedules));
    if (timer && record.value("passed", false)) {
      const nlohmann::json time =
          record_of(measure_kernel(*timer, *nvml, *bench->sets, candidate, LaunchChoice::kBest));
      for (const char* field :
           {"us", "samples_us", "calls_per_sample", "launch", "gpu", "weights", "sets", "flops", "error"})
        if (time.contains(field)) record[field] = time[field];
      if (record.contains("error")) record["passed"] = false;
    }
    record["predicted"] = record_of(predict(candidate, work.cases[case_index]));
    record["type"] = "sweep", record["swept"] = work.swept;
    const bool good = record.value("passed", false);
    store.add(std::move(record), work.points[i]);
    // A kernel that faulted spoils a GPU's context: no later point could be told from it.
    if (timer && !good) device.synchronize();
  });
}

// For what machine and clock, and how sure: as the first record has it.
std::string predicted_for(const Records& records) {
  if (records.empty() || !records[0].contains("predicted")) return "";
  const nlohmann::json& p = records[0]["predicted"];
  return fmt::format("predicted us: for {} at {:.0f} MHz, the first one {:.2f} to {:.2f} (80 %), {}.",
                     p.value("machine", "?"), p.value("sm_mhz", 0.0), p.value("interval_low_us", 0.0),
                     p.value("interval_high_us", 0.0), p.value("validation", "?"));
}

int run(const Options& o) {
  const Device device = open_for_kernels(o.target.device, o.target.arch);
  Records none;
  sort_records(none, o.sort);  // refuses what is not known
  if (o.sort == "time" && device.is_emulator())
    fail("--sort time: only a GPU has times; the device is {}", device.name());
  o.conditions.prepare(device);
  const Work work = points_to_run(o, device);
  Store store = o.output.open(device, {o.file.path});
  const size_t present = records_at(store.records(), work.points).size();
  if (present) fmt::print(stderr, "{} points are in {} already\n", present, store.path());
  const auto print_rows = [&] {
    Records records = records_at(store.records(), work.points);
    sort_records(records, o.sort);
    if (!records.empty()) {
      const SweepTable sweep = sweep_table(records, o.format.csv);
      fmt::print("{}{}{}", o.format.csv ? "" : "\n" + o.format.folded(sweep.common),
                 o.format.text(sweep.table), o.format.csv ? "" : "\n");
    }
    return records;
  };
  {
    const OnInterrupt interrupt([&] {
      const size_t done = print_rows().size();
      fmt::print("{} of {} points done{}\n", done, work.items.size(),
                 store.path().empty() ? "" : fmt::format("; --resume goes on with {}", store.path()));
    });
    try {
      compile(work, store);
      measure(o, device, work, store);
    } catch (...) {
      print_rows();  // what was computed is not lost
      throw;
    }
  }
  const Records records = print_rows();
  std::FILE* const out = o.format.csv ? stderr : stdout;
  fmt::print(out, "{}", run_remarks(records));
  if (device.is_emulator())
    fmt::print(out, "{}",
               fitted("Counts by the emulator, all launches of a point together. They are no time, and rank "
                      "nothing. " +
                      predicted_for(records) + "\n"));
  else
    fmt::print(
        out,
        "us: median per call of {} samples, each over {} input sets after a flush of the L2; every point "
        "verified before and after.\n",
        o.timing.repeats, o.sets);
  return std::ranges::all_of(records, passed) ? 0 : 1;
}

const Command kCommand{
    "sweep", "run and verify (on a GPU also time) every legal combination of rungs and knobs",
    [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("operation", o->operation, "group, dual or gemm").required();
      add_list(app, "--case", o->case_names, "cases and shapes, repeated or separated by commas").required();
      const Argument kernel =
          app.add_option("--kernel", o->kernels, "rungs, separated by commas; 'all'; 'default': the top rung")
              .capture_default_str();
      o->file.declare(app, kernel);
      o->conditions.declare(app);
      o->target.declare(app);
      o->numbers.declare(app);
      o->output.declare(app, true);
      o->format.declare(app);
      app.add_option(
          "--sort", o->sort,
          "time (the default on a GPU), predicted, order (of the knobs), instructions, bytes, waves or "
          "seconds");
      app.add_option("--best", o->best,
                     "of each case only the N points that the model predicts to be fastest")
          .capture_default_str();
      app.add_option("--repeats", o->timing.repeats, "on a GPU: samples of each time")
          .whole_number(1, 1'000'000)
          .capture_default_str();
      app.add_option("--sets", o->sets, "on a GPU: sets of inputs, in rotation")
          .whole_number(1, 1000)
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
        app.add_option(name == knob ? "--" + name : "--" + name + ",--" + knob, o->axes[knob],
                       text + "; several as 1..6 or 1,2,4")
            .group("Knobs");
      }
      app.examples({"fp4lab sweep group --case g2k1536 --kernel v2,v5 --stages 1..6 --json s.json",
                    "fp4lab sweep group --case g2k1536,g2k4096 --kernel v2 --set block_k=512 --stages 2,3",
                    "fp4lab sweep group --case g2k1536 --kernel-file my.cu --like v2 --stages 1..6",
                    "fp4lab sweep group --case g2k1536 --kernel all --json s.json --shard 1/4",
                    "fp4lab sweep group --case g2k1536 --kernel v2,v5 --stages 1..6 --json s.json --resume"});
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
