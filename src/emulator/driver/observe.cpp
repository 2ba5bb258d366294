// Watchers attached by name: by a program through fp4lab_emulator_observe, or from outside by FP4LAB_OBSERVE.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "emulator/core/place.h"
#include "emulator/driver/state.h"
#include "emulator/watch/coverage.h"
#include "emulator/watch/inspect.h"
#include "emulator/watch/profile.h"
#include "emulator/watch/trace.h"
#include "fp4lab/emulator.h"
#include "fp4lab/error.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

namespace {

bool tile_of(const std::string& text, Inspect::Tile& tile) {
  unsigned long long product;
  int end = 0;
  return std::sscanf(text.c_str(), "%llu,%c,%u,%u,%u,%u%n", &product, &tile.operand, &tile.row0, &tile.row1,
                     &tile.column0, &tile.column1, &end) == 6 &&
         text.size() == size_t(end) && (tile.product = product, std::strchr("ABD", tile.operand) != nullptr);
}

bool line_of(const std::string& text, uint32_t& line) {
  char* end = nullptr;
  line = static_cast<uint32_t>(std::strtoul(text.c_str(), &end, 10));
  return end != text.c_str() && *end == 0 && line > 0;
}

std::unique_ptr<Watcher> make_observer(const std::string& what) {
  const std::string key = what.substr(0, what.find('=')),
                    value = key.size() < what.size() ? what.substr(key.size() + 1) : "";
  if (key == "trace") return std::make_unique<Trace>(value);
  if (key == "lines") return std::make_unique<Coverage>();
  if (key == "profile" && (value.empty() || value == "json"))
    return std::make_unique<Profile>(value == "json");
  auto inspect = std::make_unique<Inspect>();
  Inspect::Tile tile;
  uint32_t line = 0;
  if (key == "stop-at" && line_of(value, line))
    inspect->stop_line = line;
  else if (key == "watch" && !value.empty())
    inspect->watched = value;
  else if (key == "tile" && tile_of(value, tile))
    inspect->tile = tile;
  else
    fp4lab::fail(
        "{}: trace=FILE, profile, profile=json, lines, stop-at=LINE, watch=ADDRESS or "
        "tile=PRODUCT,A|B|D,ROW,ROW,COLUMN,COLUMN",
        what);
  return inspect;
}

std::string observed(const State& s) {
  std::string text;
  for (const auto& o : s.observers) {
    if (const auto* p = dynamic_cast<const Profile*>(o.get())) text += p->report();
    if (const auto* c = dynamic_cast<const Coverage*>(o.get())) text += c->report();
    if (const auto* i = dynamic_cast<const Inspect*>(o.get())) text += i->report();
  }
  return text;
}

std::string unseen(const State& s) {
  std::string text;
  for (const auto& o : s.observers) {
    std::string missed;
    if (const auto* i = dynamic_cast<const Inspect*>(o.get())) missed = i->missed();
    if (const auto* t = dynamic_cast<const Trace*>(o.get())) missed = t->trouble();
    if (!missed.empty()) text += (text.empty() ? "" : "; ") + missed;
  }
  return text;
}

// What was asked for and never seen: at the process's end, since it may have been any launch's. A program
// that ends well ends with status 2 then: it was run for an answer that there is not.
void tell_unseen(int status, void*) {
  const State& s = state();
  const std::string text = s.launches && !s.observed_kernels.empty() && !s.observed_any
                               ? fmt::format("none of {} launches was of a kernel whose name contains '{}'",
                                             s.launches, s.observed_kernels)
                               : unseen(s);
  if (!text.empty()) fmt::print(stderr, "fp4lab emulator: {}\n", text);
  if (text.empty() || status) return;
  std::fflush(nullptr);
  _exit(2);
}

}  // namespace

namespace fp4lab::emu::driver {

void observe_by_environment() {
  State& s = state();
  const char *all = std::getenv("FP4LAB_OBSERVE"), *kernels = std::getenv("FP4LAB_OBSERVE_KERNEL");
  if (!all || !*all) return;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) s.observers.push_back(make_observer(line));
  if (kernels) s.observed_kernels = kernels;
  s.tell_observed = true;
  on_exit(tell_unseen, nullptr);
}

bool is_observed(const CUfunc_st& f) {
  const std::string &name = f.function->name, &wanted = state().observed_kernels;
  return name.find(wanted) != name.npos || kernel_name(name).find(wanted) != name.npos;
}

void tell_observed(const CUfunc_st& f) {
  State& s = state();
  if (!is_observed(f)) return;
  s.observed_any = true;
  const std::string text = observed(s);
  if (!text.empty())
    fmt::print(stderr, "fp4lab emulator: launch {}, kernel {}\n{}", s.launches, kernel_name(f.function->name),
               text);
}

}  // namespace fp4lab::emu::driver

extern "C" int fp4lab_emulator_observe(const char* what) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  try {
    if (what)
      s.observers.push_back(make_observer(what));
    else
      s.observers.clear();
  } catch (const fp4lab::Error& e) {
    explain(CUDA_ERROR_INVALID_VALUE, e.what());
    return 1;
  }
  return 0;
}

extern "C" const char* fp4lab_emulator_observed() {
  static thread_local std::string text;
  State& s = state();
  std::lock_guard lock(s.mutex);
  text = observed(s);
  return text.c_str();
}

extern "C" const char* fp4lab_emulator_unseen() {
  static thread_local std::string text;
  State& s = state();
  std::lock_guard lock(s.mutex);
  text = unseen(s);
  return text.c_str();
}
