// Runs a launch and reports on it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "emulator/core/place.h"
#include "emulator/driver/exchange.h"
#include "emulator/driver/findings.h"
#include "emulator/driver/launch.h"
#include "emulator/driver/stop.h"
#include "emulator/isa/opcode.h"
#include "fp4lab/error.h"

namespace fp4lab::emu::driver {

namespace {

void add(const Statistics& launch, double seconds) {
  State& s = state();
  s.all.warp_instructions += launch.warp_instructions;
  s.all.async_ops += launch.async_ops;
  s.all.tma_bytes += launch.tma_bytes;
  s.all.mma_count += launch.mma_count;
  s.all_seconds += seconds;
  if (!s.tell_fidelity) return;
  for (const auto& [op, count] : launch.by_opcode) {
    auto known = std::ranges::find(s.all.by_opcode, op, &std::pair<const Opcode*, uint64_t>::first);
    if (known == s.all.by_opcode.end())
      s.all.by_opcode.emplace_back(op, count);
    else
      known->second += count;
  }
}

void add_watchers(State& s, const CUfunc_st& f, Watchers& watchers) {
  if (is_observed(f))
    for (const auto& o : s.observers) watchers.add(*o);
  if (!s.check) return;
  if (!s.checker) s.checker = std::make_unique<OrderChecker>();
  watchers.add(*s.checker);
}

// Where the program goes on after findings, each is told once: by kernel, class and pair of CUDA lines.
bool is_news(State& s, const CUfunc_st& f, const OrderChecker::Finding& found) {
  const auto place = [](const OrderChecker::Party& p) { return p.cuda.empty() ? p.ptx : p.cuda; };
  return s.told_notes
      .emplace(f.function->name, fmt::format("{} {} {}", found.kind, place(found.first), place(found.then)))
      .second;
}

// Errors of the order checker are errors of the launch, or of the process where it goes on after them; its
// notes are told once for each kernel.
void add_order_findings(State& s, const CUfunc_st& f, LaunchResult& result) {
  s.notes += s.checker->report(false);
  for (const OrderChecker::FoldedNotes& n : s.checker->folded_notes())
    if (s.told_notes.emplace(f.function->name, n.kind).second)
      explain(CUDA_SUCCESS, fmt::format("note: {}\n  kernel {}\n  needs: {}", n.text,
                                        kernel_name(f.function->name), n.needs));
  if (s.goes_on) {
    for (const OrderChecker::Finding& found : s.checker->findings())
      if (found.error && is_news(s, f, found))
        explain(CUDA_SUCCESS,
                found.text() + (found.count > 1 ? fmt::format("\n    seen {} times", found.count) : ""));
    return;
  }
  if (!s.checker->errors()) return;
  const std::string found = s.checker->report(true);
  result.report = result.ok ? found : result.report + "\nand before that:\n" + found;
  if (result.ok) result.kind = FaultKind::misuse;
  result.ok = false;
}

// What a checked launch went on after.
void add_errors(State& s, const CUfunc_st& f, LaunchResult& result) {
  if (result.errors.empty()) return;
  if (s.goes_on) {
    for (const Tolerated& t : result.tolerated)
      if (t.error && s.told_notes.emplace(f.function->name, fmt::format("{} {}", int(t.kind), t.line)).second)
        explain(CUDA_SUCCESS, t.report + (t.count > 1 ? fmt::format("\n    seen {} times", t.count) : ""));
    return;
  }
  result.report = result.ok ? result.errors : result.errors + "and then:\n" + result.report;
  if (result.ok)
    for (const Tolerated& t : result.tolerated)
      if (t.error) {
        result.kind = t.kind, result.line = t.line;
        break;
      }
  result.ok = false;
}

// A program that launches a kernel often is told once.
void tell_notes(State& s, const CUfunc_st& f, const LaunchResult& result) {
  bool news = false;
  for (const Tolerated& t : result.tolerated)
    if (!t.error)
      news |= s.told_notes.emplace(f.function->name, fmt::format("{} {}", int(t.kind), t.line)).second;
  if (news) explain(CUDA_SUCCESS, "note: " + result.notes);
}

// A launch that may begin before the previous kernel has ended, and never waited for it. Kernels are
// serialised here, so nothing else would reveal it.
void tell_unwaited(State& s, const CUfunc_st& f) {
  const auto& functions = f.module->module->functions;
  for (size_t k = 0; k < functions.size(); ++k)
    for (size_t pc = 0; pc < functions[k].code.size(); ++pc)
      if (const Opcode* const opcode = functions[k].code[pc].opcode; s.last.by_pc[k][pc] && opcode &&
                                                                     opcode->name == "griddepcontrol" &&
                                                                     functions[k].source[pc].has("wait"))
        return;
  if (s.told_notes.emplace(f.function->name, "griddepcontrol").second)
    explain(CUDA_SUCCESS,
            fmt::format("note: kernel {} was launched with programmatic stream serialization and executed no "
                        "griddepcontrol.wait (cudaGridDependencySynchronize): on a GPU it may read what the "
                        "kernel before it has yet to write, or write what that one reads",
                        kernel_name(f.function->name)));
}

void keep(State& s, const CUfunc_st& f, LaunchResult& result) {
  static const std::vector<OrderChecker::Finding> no_findings;
  s.last = std::move(result.statistics);
  ++s.launches;
  s.findings = findings_json(result, *f.module->module, f.function->name,
                             s.check ? s.checker->findings() : no_findings);
  record_launch(f, s);
  if (s.tell_observed) tell_observed(f);
  add(s.last, s.last_seconds);
  s.notes = result.notes;
}

}  // namespace

CUresult run_launch(const CUfunc_st& f, const LaunchConfig& config, bool early) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  Watchers watchers;
  add_watchers(s, f, watchers);
  s.notes.clear();
  s.findings = "[]";
  const auto start = std::chrono::steady_clock::now();
  LaunchResult result;
  s.schedule.checked = s.check;
  try {
    const Watched watched(s);
    result =
        launch(*f.module->module, *f.function, config, *s.device, *s.memory, s.schedule, watchers.front());
  } catch (const fp4lab::Error& e) {
    return refuse(
        config.cooperative ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, f,
        e.what());
  }
  s.last_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  keep(s, f, result);
  add_errors(s, f, result);
  if (s.check) add_order_findings(s, f, result);
  tell_notes(s, f, result);
  if (result.ok && early && s.check) tell_unwaited(s, f);
  if (result.ok) return CUDA_SUCCESS;
  if (result.kind == FaultKind::stopped) end_if_stopped(result.report);
  CUctx_st* spoilt = context_stack().empty() ? f.module->context : context_stack().back();
  return (spoilt ? spoilt : &s.primary)->sticky = explain(result_of(result.kind), result.report);
}

}  // namespace fp4lab::emu::driver
