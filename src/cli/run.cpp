// fp4lab run: kernels compute cases on a device and are checked against the CPU reference.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/workload.h"
#include "fp4lab/error.h"
#include "fp4lab/record.h"
#include "fp4lab/sm100.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::string operation, case_name = "all", kernel = "default", json, ptx, trace, watch;
  Target target;
  Numbers numbers;
  std::vector<std::string> knobs;
  bool check = false;
  uint64_t schedules = 1;
  unsigned stop_line = 0;
};

std::vector<Case> chosen_cases(const Options& o) {
  if (o.case_name != "all" && o.case_name != "correctness")
    return {find_case_of(o.case_name, o.operation, "run")};
  std::vector<Case> chosen;
  bool known = false;
  for (const Case& c : cases()) {
    known |= operation_name(c.operation) == o.operation;
    if (operation_name(c.operation) == o.operation && c.full_size == (o.case_name == "all"))
      chosen.push_back(c);
  }
  if (!known) fail("no operation '{}': group, dual and gemm are known", o.operation);
  if (chosen.empty()) fail("there are no {} cases of {}", o.case_name, o.operation);
  return chosen;
}

std::string percent(int64_t part, int64_t whole) {
  if (!whole) return "-";
  // 100 % means all of them
  return part == whole ? "100 %"
                       : fmt::format("{:.2f} %", std::min(99.99, 100.0 * double(part) / double(whole)));
}

struct Item {
  size_t case_index;
  Candidate candidate;
};
struct Work {
  std::vector<Item> items;
  std::vector<std::string> skipped;  // of all rungs, those that cannot compute the case
};

Work chosen_work(const Options& o, const std::vector<Case>& list, std::string_view arch) {
  Work work;
  for (size_t i = 0; i < list.size(); ++i)
    for (const Rung* rung : chosen_rungs(arch, op_of(list[i].operation), o.kernel)) {
      Candidate made = candidate_for(*rung, list[i], o.knobs);
      made.ptx = o.ptx;
      if (o.kernel == "all") {
        if (const auto forbidden = reasons(made, list[i]); !forbidden.empty()) {
          work.skipped.push_back(fmt::format("{} {}: {}", list[i].name, rung->name, forbidden.front().text));
          continue;
        }
      }
      require_legal(made, list[i]);
      work.items.push_back({i, std::move(made)});
    }
  return work;
}

// Compiles all kernels while the first inputs and references are made; run_trial finds the outcome, good or
// bad, in the cache again.
class Compiling {
 public:
  explicit Compiling(const std::vector<Item>& items) {
    for (const Item& item : items)
      if (item.candidate.ptx.empty()) jobs_.push_back(job_of(item.candidate));
    artifacts_.resize(jobs_.size());
    thread_ = std::jthread([this] {
      jit::compile_all(jobs_, 0, [this](size_t, size_t, size_t index, const jit::Outcome& outcome) {
        std::lock_guard lock(mutex_);
        artifacts_[index] = outcome.artifact;
      });
    });
  }

  // What this run compiled a moment ago is in the cache by now, which is not what a user calls cached.
  void correct(size_t item, RunResult& r) {
    std::lock_guard lock(mutex_);
    if (item >= artifacts_.size() || !artifacts_[item]) return;
    r.jit_cached = r.jit_cached && artifacts_[item]->from_cache;
    if (!artifacts_[item]->from_cache) r.jit_ms = artifacts_[item]->seconds * 1e3;
  }

 private:
  std::vector<jit::Job> jobs_;
  std::mutex mutex_;
  std::vector<jit::ArtifactPtr> artifacts_;
  std::jthread thread_;  // last: it is joined before the rest goes
};

// The table, and what is said below it.
class Results {
 public:
  void add(const RunResult& r, const Case& c, std::string_view arch) {
    failed_ += !r.passed();
    fidelity_ = r.fidelity;
    const auto error = [&](double x) { return r.exact.count ? fmt::format("{:.2g}", x) : "-"; };
    table_.add({r.case_name, r.kernel, r.grid ? fmt::format("{}", r.grid) : "-",
                r.jit_cached ? "cached" : fmt::format("{:.0f}", r.jit_ms),
                r.emulated ? fmt::format("{:.2f} M", double(r.emulated->warp_instructions) / 1e6) : "-",
                fmt::format("{:.2f}", r.seconds), error(r.exact.max_abs), error(r.exact.max_rel),
                percent(r.exact.bit_equal, r.exact.count),
                percent(r.tensor_core.bit_equal, r.tensor_core.count), r.passed() ? "PASS" : "FAIL",
                c.speed_of_light_us && arch == sm100::kArch ? fmt::format("{:.3f}", *c.speed_of_light_us)
                                                            : fmt::format("{:.3f}*", r.roofline_us)});
    if (r.passed() && r.exact.by_slack)
      notes_.push_back(fmt::format(
          "{} {}: {} of {} elements lie beyond the tolerance of the exact sums, but within what fp32 "
          "accumulation may lose{}",
          r.case_name, r.kernel, r.exact.by_slack, r.exact.count,
          r.tensor_core.count ? fmt::format("; {} agree bit by bit with the tensor core's rounding",
                                            percent(r.tensor_core.bit_equal, r.tensor_core.count))
                              : ""));
    if (!r.notes.empty()) notes_.push_back(fmt::format("note, {} {}: {}", r.case_name, r.kernel, r.notes));
    if (!r.passed())
      troubles_.push_back(
          fmt::format("{} {}: {}", r.case_name, r.kernel, r.error.empty() ? r.exact.describe() : r.error));
  }

  void print_table() const {
    if (!table_.empty()) fmt::print("{}", table_.text());
  }
  void print_remarks(const std::vector<std::string>& skipped) const {
    for (const std::string& t : skipped) fmt::print("not run: {}\n", t);
    for (const std::string& t : notes_) fmt::print("{}\n", t);
    for (const std::string& t : troubles_) fmt::print("FAIL {}\n\n", t);
  }
  size_t failed() const { return failed_; }
  const std::string& fidelity() const { return fidelity_; }

 private:
  Table table_{{"case", "kernel", ">grid", ">JIT ms", ">instructions", ">seconds", ">max abs", ">max rel",
                ">bit-equal", ">as tensor core", "result", ">speed of light us"}};
  std::vector<std::string> troubles_, notes_;
  std::string fidelity_;
  size_t failed_ = 0;
};

using SetSchedule = decltype(&fp4lab_emulator_seed);

// The item under each schedule, until one fails.
RunResult run_item(const Options& o, const Device& device, Trial& trial, const Candidate& candidate,
                   SetSchedule set_schedule) {
  RunResult r;
  for (uint64_t schedule = 0; schedule < o.schedules; ++schedule) {
    if (o.schedules > 1) set_schedule(schedule);
    r = run_trial(device, trial, candidate);
    if (r.passed()) continue;
    if (o.schedules > 1)
      r.error =
          fmt::format("under schedule {}: {}", schedule, r.error.empty() ? r.exact.describe() : r.error);
    break;
  }
  return r;
}

void run_all(const Options& o, const Device& device, const std::vector<Case>& list, const Work& work,
             Results& results) {
  const auto set_schedule = reinterpret_cast<SetSchedule>(device.driver().symbol("fp4lab_emulator_seed"));
  if (o.schedules > 1 && !set_schedule)
    fail("--schedules {}: only the emulator can choose the schedule; the device is {}", o.schedules,
         device.name());
  RecordFile json = o.json.empty() ? RecordFile() : RecordFile(o.json, false);
  Compiling compiling(work.items);
  Progress progress("run", work.items.size());
  std::unique_ptr<Trial> trial;
  size_t trial_case = list.size();
  for (size_t i = 0; i < work.items.size(); ++i) {
    const auto& [case_index, candidate] = work.items[i];
    const Case& c = list[case_index];
    progress.update(i, fmt::format("{} {}", c.name, candidate.rung->name));
    if (trial_case != case_index) {
      trial.reset();  // frees the last case's memory first
      trial = std::make_unique<Trial>(device, c, o.numbers.of(c.operation), o.numbers.seed);
      trial_case = case_index;
    }
    RunResult r = run_item(o, device, *trial, candidate, set_schedule);
    compiling.correct(i, r);
    results.add(r, c, arch_of(device));
    json.add(record_of(r));  // when that fails, the table still has the row
  }
}

void print_observations(const Options& o, const Device& device) {
  if (const std::string seen = observed(device); !seen.empty())
    fmt::print("\nThe last launch:\n{}\n", seen);
  else if (o.stop_line || !o.watch.empty())
    fmt::print("The last launch: no warp came to {}.\n",
               o.stop_line ? fmt::format("PTX line {}", o.stop_line) : "anything watched as " + o.watch);
  if (!o.trace.empty()) fmt::print("Trace of the launches: {} (open it in ui.perfetto.dev)\n", o.trace);
}

int run(const Options& o) {
  const std::vector<Case> list = chosen_cases(o);
  if (!o.ptx.empty() && !std::ifstream(o.ptx)) fail("--ptx {}: {}", o.ptx, std::strerror(errno));
  const Device device = open_for_kernels(o.target.device, o.target.arch);
  const Work work = chosen_work(o, list, arch_of(device));
  if (!o.ptx.empty() && work.items.size() != 1)
    fail("--ptx {}: an edited kernel is for one case and one rung: name them with --case and --kernel",
         o.ptx);
  if (o.check) check_order(device);
  if (!o.trace.empty()) observe(device, "trace=" + o.trace);
  if (o.stop_line) observe(device, fmt::format("stop-at={}", o.stop_line));
  if (!o.watch.empty()) observe(device, "watch=" + o.watch);

  const auto start = std::chrono::steady_clock::now();
  Results results;
  try {
    run_all(o, device, list, work, results);
  } catch (...) {
    results.print_table();  // what was computed is not lost
    throw;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  results.print_table();
  fmt::print("\n");
  results.print_remarks(work.skipped);
  fmt::print(
      "{} on {}: {} of {} passed in {:.1f} s. Errors are against the exact sums, rounded once to fp16; "
      "tolerance {:g} + {:g} x.\n",
      o.operation, device.name(), work.items.size() - results.failed(), work.items.size(), seconds,
      Tolerance{}.atol, Tolerance{}.rtol);
  if (o.schedules > 1) fmt::print("Each under {} schedules.\n", o.schedules);
  print_observations(o, device);
  if (!results.fidelity().empty()) fmt::print("Fidelity of the last launch: {}\n", results.fidelity());
  if (device.is_emulator())
    fmt::print("The emulator checks what a kernel computes; its seconds say nothing about a GPU's time.\n");
  return results.failed() ? 1 : 0;
}

const Command kCommand{
    "run", "run kernels and check every output against the CPU reference", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("operation", o->operation, "group, dual or gemm").required();
      app.add_option("--case", o->case_name,
                     "a case (see 'fp4lab cases'), a shape such as group:96,128/256/512, 'all' (full sizes) "
                     "or 'correctness'")
          .capture_default_str();
      app.add_option("--kernel", o->kernel,
                     "rungs (see 'fp4lab kernels'), separated by commas; 'all'; 'default': the top rung")
          .capture_default_str();
      app.add_option("--set", o->knobs, "a knob of the plan, as stages=4; may be repeated");
      o->target.declare(app);
      o->numbers.declare(app);
      app.add_option("--schedules", o->schedules,
                     "on the emulator: run under this many schedules of the asynchronous operations")
          .whole_number_from(1)
          .capture_default_str();
      app.add_option("--json", o->json, "write each result as a line of JSON");
      app.add_option("--trace", o->trace,
                     "emulator: write what warps, copies, the tensor core and barriers do, for Perfetto");
      app.add_option("--stop-at", o->stop_line,
                     "emulator: registers, mbarriers and the shared memory that operands point to, when "
                     "warps first come to this PTX line");
      app.add_option(
          "--watch", o->watch,
          "emulator: every access to this shared address (or variable), every event of an mbarrier there");
      app.add_flag(
          "--check", o->check,
          "emulator: a run also fails when accesses are ordered by luck only (races, missing fences)");
      app.add_option("--ptx", o->ptx, "run this (edited) PTX in place of the compiled kernel");
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
