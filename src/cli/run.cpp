// fp4lab run: kernels compute cases on a device and are checked against the CPU reference.
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/run_table.h"
#include "cli/table.h"
#include "cli/workload.h"
#include "fp4lab/bench.h"
#include "fp4lab/error.h"
#include "fp4lab/record.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::string operation, kernel = "default", ptx, trace, watch;
  std::vector<std::string> case_names;
  Target target;
  Numbers numbers;
  Conditions conditions;
  KernelFile file;
  Output output;
  TableFormat format;
  unsigned stop_line = 0;
  bool verbose = false;
};

struct Item {
  size_t case_index;
  Candidate candidate;
};
struct Work {
  std::vector<Case> cases;
  std::vector<Item> items;
  std::vector<std::string> points;   // of the items
  std::vector<std::string> skipped;  // of all rungs, those that cannot compute the case
};

Work chosen_work(const Options& o, const Device& device) {
  const std::string_view arch = arch_of(device);
  Work work;
  work.cases =
      chosen_cases(o.case_names.empty() ? std::vector<std::string>{"all"} : o.case_names, o.operation, "run");
  for (size_t i = 0; i < work.cases.size(); ++i) {
    const Case& c = work.cases[i];
    for (const Rung* rung : chosen_rungs(arch, op_of(c.operation), o.kernel, o.file)) {
      Candidate made = candidate_for(*rung, c, o.conditions.knobs);
      made.ptx = o.ptx;
      o.file.put_into(made);
      if (o.kernel == "all") {
        if (const auto forbidden = reasons(made, c); !forbidden.empty()) {
          work.skipped.push_back(fmt::format("{} {}: {}", c.name, rung->name, forbidden.front().text));
          continue;
        }
      }
      require_legal(made, c);
      work.points.push_back(point_of_run("run", device, c, made, o.numbers.of(c.operation), o.numbers.seed,
                                         o.conditions.text()));
      work.items.push_back({i, std::move(made)});
    }
  }
  if (work.items.empty()) {
    for (const std::string& why : work.skipped) fmt::print(stderr, "not run: {}\n", why);
    fail("none of these kernels can run any of these cases with these knobs");
  }
  if (!o.ptx.empty() && work.items.size() != 1)
    fail("--ptx {}: an edited kernel is for one case and one rung: name them with --case and --kernel",
         o.ptx);
  return work;
}

// Compiles all kernels while the first inputs and references are made; run_trial finds the outcome, good or
// bad, in the cache again.
class Compiling {
 public:
  Compiling(const std::vector<Item>& items, const std::vector<std::string>& points, const Store& store) {
    for (size_t i = 0; i < items.size(); ++i)
      if (items[i].candidate.ptx.empty() && !store.contains(points[i]))
        index_[points[i]] = jobs_.size(), jobs_.push_back(job_of(items[i].candidate));
    artifacts_.resize(jobs_.size());
    thread_ = std::jthread([this] {
      jit::compile_all(jobs_, 0, [this](size_t, size_t, size_t index, const jit::Outcome& outcome) {
        std::lock_guard lock(mutex_);
        artifacts_[index] = outcome.artifact;
      });
    });
  }

  // What this run compiled a moment ago is in the cache by now, which is not what a user calls cached.
  void correct(const std::string& point, RunResult& r) {
    std::lock_guard lock(mutex_);
    const auto at = index_.find(point);
    if (at == index_.end() || !artifacts_[at->second]) return;
    const jit::Artifact& artifact = *artifacts_[at->second];
    r.jit_cached = r.jit_cached && artifact.from_cache;
    if (!artifact.from_cache) r.jit_ms = artifact.seconds * 1e3;
  }

 private:
  std::vector<jit::Job> jobs_;
  std::map<std::string, size_t> index_;
  std::mutex mutex_;
  std::vector<jit::ArtifactPtr> artifacts_;
  std::jthread thread_;  // last: it is joined before the rest goes
};

void run_all(const Options& o, const Device& device, const Work& work, Store& store) {
  Compiling compiling(work.items, work.points, store);
  Progress progress("run", work.items.size());
  std::optional<Nvml> nvml;
  if (!device.is_emulator()) nvml.emplace(device);
  std::unique_ptr<Trial> trial;
  size_t trial_case = work.cases.size(), done = 0;
  work_through(store, work.points, [&](size_t i) {
    const auto& [case_index, candidate] = work.items[i];
    const Case& c = work.cases[case_index];
    progress.update(done++, fmt::format("{} {}", c.name, kernel_name(candidate)));
    if (trial_case != case_index) {
      trial.reset();  // frees the last case's memory first
      trial = std::make_unique<Trial>(device, c, o.numbers.of(c.operation), o.numbers.seed);
      trial_case = case_index;
    }
    RunResult r = run_trial(device, *trial, candidate, o.conditions.schedules);
    compiling.correct(work.points[i], r);
    nlohmann::json record = record_of(r);
    if (nvml && nvml->present()) record["gpu"] = record_of(span_of({nvml->read()}));
    store.add(std::move(record), work.points[i]);
  });
}

// False: what was to be looked at did not happen.
bool print_observations(const Options& o, const Device& device) {
  if (const std::string seen = observed(device); !seen.empty()) fmt::print("\nThe last launch:\n{}\n", seen);
  if (!o.trace.empty()) fmt::print("Trace of the launches: {} (open it in ui.perfetto.dev)\n", o.trace);
  const std::string missed = unseen(device);
  if (!missed.empty()) fmt::print(stderr, "fp4lab: {}\n", missed);
  return missed.empty();
}

int run(const Options& o) {
  if (!o.ptx.empty() && !std::ifstream(o.ptx)) fail("--ptx {}: {}", o.ptx, std::strerror(errno));
  const Device device = open_for_kernels(o.target.device, o.target.arch);
  const Work work = chosen_work(o, device);
  o.conditions.prepare(device);
  refuse_overwriting(o.trace, "--trace", {o.ptx, o.file.path});
  Store store = o.output.open(device, {o.ptx, o.file.path});
  if (!o.trace.empty()) observe(device, "trace=" + o.trace);
  if (o.stop_line) observe(device, fmt::format("stop-at={}", o.stop_line));
  if (!o.watch.empty()) observe(device, "watch=" + o.watch);

  const auto print_table = [&](const Records& records) {
    if (const Table table = run_table(records); !table.empty()) fmt::print("{}", o.format.text(table));
  };
  const auto start = std::chrono::steady_clock::now();
  {
    const OnInterrupt interrupt([&] {
      const Records done = records_at(store.records(), work.points);
      print_table(done);
      fmt::print("\n{}{} of {} done\n", run_remarks(done), done.size(), work.items.size());
    });
    try {
      run_all(o, device, work, store);
    } catch (...) {
      print_table(records_at(store.records(), work.points));  // what was computed is not lost
      throw;
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Records records = records_at(store.records(), work.points);
  print_table(records);
  if (!o.format.csv) fmt::print("\n");
  const auto failed = std::ranges::count_if(records, [](const auto& r) { return !passed(r); });
  std::FILE* const out = o.format.csv ? stderr : stdout;
  for (const std::string& why : work.skipped) fmt::print(out, "not run: {}\n", why);
  fmt::print(
      out, "{}{}", run_remarks(records),
      fitted(fmt::format("{} on {}: {} of {} passed{} in {:.1f} s{}.\n", o.operation, device.name(),
                         records.size() - failed, work.items.size(),
                         o.conditions.text().empty() ? "" : fmt::format(", each {}", o.conditions.text()),
                         seconds, device.is_emulator() ? " of host time, not GPU time" : "")));
  const bool seen = print_observations(o, device);
  if (o.verbose) {
    fmt::print(out, "Errors are against the exact sums, rounded once to fp16; tolerance {:g} + {:g} x.\n",
               Tolerance{}.atol, Tolerance{}.rtol);
    if (!records.empty() && records.back().contains("emulated"))
      fmt::print(out, "Fidelity of the last launch: {}\n", records.back()["emulated"].value("fidelity", ""));
  }
  return failed ? 1 : seen ? 0 : 2;
}

const Command kCommand{
    "run", "run kernels and check every output against the CPU reference", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("operation", o->operation, "group, dual or gemm").required();
      add_list(app, "--case", o->case_names,
               "cases (see 'fp4lab cases') and shapes M/N/K, e.g. group:96,128/256/512, repeated or "
               "separated by commas; 'all': the full-size cases (default); 'correctness'");
      const Argument kernel =
          app.add_option("--kernel", o->kernel,
                         "rungs (see 'fp4lab kernels'), separated by commas; 'all'; 'default': the top rung")
              .capture_default_str();
      o->file.declare(app, kernel);
      o->conditions.declare(app);
      o->target.declare(app);
      o->numbers.declare(app);
      o->output.declare(app);
      app.add_option(
          "--trace", o->trace,
          "emulator: write a trace of warps, copies, tensor core and barriers (open it in Perfetto)");
      app.add_option("--stop-at", o->stop_line,
                     "emulator: print registers, mbarriers and the shared memory that operands point to, "
                     "when a warp first reaches this PTX line (of 'fp4lab ptx')")
          .whole_number(1, std::numeric_limits<unsigned>::max());
      app.add_option("--watch", o->watch,
                     "emulator: print every access to this shared address or variable, and every event of an "
                     "mbarrier there");
      app.add_option("--ptx", o->ptx, "run this PTX file in place of the compiled kernel");
      o->format.declare(app);
      app.add_flag("-v,--verbose", o->verbose,
                   "also print the tolerance, and which executed instructions are bit-exact");
      app.examples({"fp4lab run group --case g2k1536 --kernel v2,v5",
                    "fp4lab run dual --dist full --schedules 20",
                    "fp4lab run group --case group:40,128/256/512 --kernel all --check --json r.json",
                    "fp4lab run group --case g2k1536 --kernel-file my.cu --like v2 --check",
                    "fp4lab run group --case g2k1536 --kernel v2 --ptx k.ptx --stop-at 465"});
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
