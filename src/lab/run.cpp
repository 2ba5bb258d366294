#include "fp4lab/run.h"

#include <algorithm>
#include <chrono>
#include <fstream>

#include "fp4lab/machine.h"
#include "fp4lab/reference.h"
#include "lab/comparison_sum.h"

namespace fp4lab {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Since the emulator was opened; a plan may be several launches, so a run's counts are a difference.
std::optional<fp4lab_emulator_stats> emulated(const Device& device) {
  const auto totals =
      reinterpret_cast<decltype(&fp4lab_emulator_totals)>(device.driver().symbol("fp4lab_emulator_totals"));
  if (!totals) return {};
  fp4lab_emulator_stats stats;
  totals(&stats);
  return stats;
}

std::optional<fp4lab_emulator_stats> emulated_since(const Device& device,
                                                    const std::optional<fp4lab_emulator_stats>& before) {
  std::optional<fp4lab_emulator_stats> now = emulated(device);
  if (!now || !before) return {};
  now->launches -= before->launches;
  now->warp_instructions -= before->warp_instructions;
  now->async_ops -= before->async_ops;
  now->tma_bytes -= before->tma_bytes;
  now->mma_count -= before->mma_count;
  now->seconds -= before->seconds;
  return now;
}

std::string fidelity(const Device& device) {
  const auto line = reinterpret_cast<decltype(&fp4lab_emulator_fidelity)>(
      device.driver().symbol("fp4lab_emulator_fidelity"));
  return line ? line() : "";
}

}  // namespace

Trial::Trial(const Device& device, const Case& c, Distribution distribution, std::uint64_t seed)
    : problem(make_problem(c, distribution, seed)),
      want(reference(problem, {.rounding = Rounding::kExact})),
      tensor_core(device.runs("sm_100a") ? reference(problem, {.rounding = Rounding::kTensorCore})
                                         : std::vector<std::vector<std::uint16_t>>()),
      on_device(device, problem) {}

void observe(const Device& device, const std::string& what) {
  const auto attach =
      reinterpret_cast<decltype(&fp4lab_emulator_observe)>(device.driver().symbol("fp4lab_emulator_observe"));
  if (!attach) fail("{}: the emulator can look into a run, {} cannot", what, device.name());
  if (attach(what.c_str()))
    fail("{}", reinterpret_cast<decltype(&fp4lab_emulator_report)>(
                   device.driver().symbol("fp4lab_emulator_report"))());
}

std::string observed(const Device& device) {
  const auto seen = reinterpret_cast<decltype(&fp4lab_emulator_observed)>(
      device.driver().symbol("fp4lab_emulator_observed"));
  return seen ? seen() : "";
}

std::string unseen(const Device& device) {
  const auto text =
      reinterpret_cast<decltype(&fp4lab_emulator_unseen)>(device.driver().symbol("fp4lab_emulator_unseen"));
  return text ? text() : "";
}

void check_order(const Device& device) {
  const auto check =
      reinterpret_cast<decltype(&fp4lab_emulator_check)>(device.driver().symbol("fp4lab_emulator_check"));
  if (!check) fail("the order of accesses can be checked on the emulator only, not on {}", device.name());
  check(1);
}

namespace {

RunResult blank(const Device& device, const Trial& trial, const Candidate& candidate) {
  const Case& c = trial.problem.spec;
  require_legal(candidate, c);
  RunResult result;
  result.case_name = c.name;
  result.arch = candidate.rung->arch;
  result.kernel = kernel_name(candidate);
  if (const auto& file = candidate.ptx.empty() ? candidate.source : candidate.ptx; !file.empty())
    result.like = candidate.rung->name, result.file = file.string(), result.file_hash = text_hash(candidate);
  result.plan = plan_line(candidate);
  result.knobs = knob_values(candidate);
  result.work = placement(candidate, c, device.sms());
  result.device = device.name();
  result.distribution = trial.problem.distribution;
  result.seed = trial.problem.seed;
  result.roofline_us = roofline(work_of(c), machine_for(candidate.rung->arch)).time_us();
  return result;
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void require_plan(const Candidate& candidate, const std::string& ptx) {
  const std::string made_for = plan_marked(ptx);
  if (!made_for.empty() && made_for != plan_line(candidate))
    fail(
        "{}: this PTX was made for the plan\n  {}\nand this run's plan is\n  {}\nA plan's numbers are "
        "constants in the PTX: use the case and the knobs (--set) that it was made with, or dump it anew. "
        "Without the line '{}...' it runs as it is.",
        candidate.ptx.string(), made_for, plan_line(candidate), kPtxPlanMark);
}

// On the emulator a fault is an answer: the next run must not inherit it.
void forgive(const Device& device) {
  if (auto forgive = reinterpret_cast<decltype(&fp4lab_emulator_forgive)>(
          device.driver().symbol("fp4lab_emulator_forgive")))
    forgive();
}

void read_findings(const Device& device, RunResult& result) {
  if (const auto findings = reinterpret_cast<decltype(&fp4lab_emulator_findings)>(
          device.driver().symbol("fp4lab_emulator_findings")))
    result.findings = findings();
}

// Launches on poisoned output, reads back and compares.
void launch_and_check(const Device& device, Trial& trial, const Candidate& candidate, const Module& module,
                      RunResult& result) {
  const Case& c = trial.problem.spec;
  trial.on_device.poison();
  const auto launch = prepare(device, candidate, trial.on_device, module);
  result.grid = launch->grid();
  const auto before = emulated(device);
  const auto start = std::chrono::steady_clock::now();
  launch->run();
  device.synchronize();
  result.seconds = seconds_since(start);
  result.emulated = emulated_since(device, before);
  result.fidelity = fidelity(device);
  read_findings(device, result);
  if (const auto notes =
          reinterpret_cast<decltype(&fp4lab_emulator_notes)>(device.driver().symbol("fp4lab_emulator_notes")))
    result.notes = notes();
  for (size_t g = 0; g < c.shapes.size(); ++g) {
    const auto got = trial.on_device.output(g);
    const Shape& s = c.shapes[g];
    Comparison exact = compare_half(got, trial.want[g], s.m, s.n);
    if (!exact.passed())  // only then is the bound worth its time
      exact = compare_half(got, trial.want[g], s.m, s.n, {},
                           accumulation_bound(c.operation, trial.problem.groups[g]));
    add(result.exact, exact);
    if (!trial.tensor_core.empty())
      add(result.tensor_core, compare_half(got, trial.tensor_core[g], s.m, s.n));
  }
}

}  // namespace

RunResult run_trial(const Device& device, Trial& trial, const Candidate& candidate) {
  RunResult result = blank(device, trial, candidate);
  try {
    if (!candidate.ptx.empty()) {
      const std::string text = text_of(candidate.ptx);
      require_plan(candidate, text);
      if (device.is_emulator())
        Module(device, text, candidate.ptx.string());  // its messages come before those of ptxas
    }
    const auto artifact = artifact_of(candidate);
    result.jit_ms = artifact->seconds * 1e3;
    result.jit_cached = artifact->from_cache;
    launch_and_check(device, trial, candidate, load(device, *artifact), result);
  } catch (const Error& e) {
    result.error = e.what();
    read_findings(device, result);
    forgive(device);
  }
  return result;
}

RunResult run_trial(const Device& device, Trial& trial, const Candidate& candidate, std::uint64_t schedules) {
  if (schedules <= 1) return run_trial(device, trial, candidate);
  const auto set_schedule =
      reinterpret_cast<decltype(&fp4lab_emulator_seed)>(device.driver().symbol("fp4lab_emulator_seed"));
  if (!set_schedule) fail("{} schedules: only the emulator can choose one, not {}", schedules, device.name());
  RunResult r;
  for (std::uint64_t schedule = 0; schedule < schedules; ++schedule) {
    set_schedule(schedule);
    r = run_trial(device, trial, candidate);
    if (r.passed()) continue;
    r.error = fmt::format("under schedule {}: {}", schedule, r.error.empty() ? r.exact.describe() : r.error);
    break;
  }
  return r;
}

RunResult run_ptx(const Device& device, Trial& trial, const Candidate& candidate, const std::string& ptx,
                  const std::string& label) {
  RunResult result = blank(device, trial, candidate);
  try {
    launch_and_check(device, trial, candidate, Module(device, ptx, label), result);
  } catch (const Error& e) {
    result.error = e.what();
    read_findings(device, result);
    forgive(device);
  }
  return result;
}

}  // namespace fp4lab
