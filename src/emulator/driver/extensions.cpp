// The emulator's own functions besides the driver API (fp4lab/emulator.h).
#include <fmt/format.h>

#include <cstdlib>

#include "emulator/driver/state.h"
#include "emulator/isa/support.h"
#include "fp4lab/emulator.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

void fp4lab::emu::driver::tell_fidelity_at_exit() {
  State& s = state();
  if (s.tell_fidelity) return;
  s.tell_fidelity = true;
  std::atexit([] {
    const State& s = state();
    fmt::print(stderr,
               "fp4lab emulator: {}: {} launches, {:.2f} M warp instructions, {:.1f} s. Fidelity: {}\n",
               s.device->name, s.launches, double(s.all.warp_instructions) / 1e6, s.all_seconds,
               s.launches ? fidelity(s.all) : "nothing ran");
  });
}

extern "C" void fp4lab_emulator_statistics(fp4lab_emulator_stats* out) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  const Statistics& l = s.last;
  *out = {s.launches, l.warp_instructions, l.async_ops, l.tma_bytes, l.mma_count, s.last_seconds};
}

extern "C" void fp4lab_emulator_totals(fp4lab_emulator_stats* out) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  const Statistics& a = s.all;
  *out = {s.launches, a.warp_instructions, a.async_ops, a.tma_bytes, a.mma_count, s.all_seconds};
}

extern "C" const char* fp4lab_emulator_fidelity() {
  static thread_local std::string line;
  std::lock_guard lock(state().mutex);
  line = fidelity(state().last);
  return line.c_str();
}
extern "C" const char* fp4lab_emulator_support() {
  static const std::string page = support_page();
  return page.c_str();
}
extern "C" const char* fp4lab_emulator_report() { return state().last_report.c_str(); }
extern "C" void fp4lab_emulator_quiet(int quiet) { state().quiet = quiet != 0; }
extern "C" void fp4lab_emulator_forgive() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.primary.sticky = CUDA_SUCCESS;
  for (CUctx_st* context : s.contexts) context->sticky = CUDA_SUCCESS;
}
extern "C" void fp4lab_emulator_check(int level) { state().check = level > 0; }
extern "C" const char* fp4lab_emulator_notes() { return state().notes.c_str(); }
extern "C" const char* fp4lab_emulator_findings() { return state().findings.c_str(); }
extern "C" void fp4lab_emulator_seed(unsigned long long seed) { state().schedule.seed = seed; }
extern "C" void fp4lab_emulator_step_limit(unsigned long long steps) { state().schedule.step_limit = steps; }
