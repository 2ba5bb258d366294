// Watchers that a program attaches by name: fp4lab_emulator_observe.
#include <cstdlib>
#include <cstring>

#include "emulator/driver/state.h"
#include "emulator/watch/coverage.h"
#include "emulator/watch/inspect.h"
#include "emulator/watch/profile.h"
#include "fp4lab/emulator.h"
#include "fp4lab/error.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

namespace {

bool tile_of(const std::string& text, Inspect::Tile& tile) {
  unsigned long long product;
  return std::sscanf(text.c_str(), "%llu,%c,%u,%u,%u,%u", &product, &tile.operand, &tile.row0, &tile.row1,
                     &tile.column0, &tile.column1) == 6 &&
         (tile.product = product, std::strchr("ABD", tile.operand) != nullptr);
}

}  // namespace

extern "C" int fp4lab_emulator_observe(const char* what) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (!what) {
    s.observers.clear();
    return 0;
  }
  const std::string all = what, key = all.substr(0, all.find('=')),
                    value = key.size() < all.size() ? all.substr(key.size() + 1) : "";
  try {
    if (key == "trace") {
      s.observers.push_back(std::make_unique<Trace>(value));
    } else if (key == "lines") {
      s.observers.push_back(std::make_unique<Coverage>());
    } else if (key == "profile") {
      s.observers.push_back(std::make_unique<Profile>());
    } else {
      auto inspect = std::make_unique<Inspect>();
      Inspect::Tile tile;
      if (key == "stop-at")
        inspect->stop_line = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
      else if (key == "watch")
        inspect->watched = value;
      else if (key == "tile" && tile_of(value, tile))
        inspect->tile = tile;
      else
        fp4lab::fail(
            "{}: trace=FILE, profile, stop-at=LINE, watch=ADDRESS or "
            "tile=PRODUCT,A|B|D,ROW,ROW,COLUMN,COLUMN",
            all);
      s.observers.push_back(std::move(inspect));
    }
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
  text.clear();
  for (const auto& o : s.observers) {
    if (const auto* p = dynamic_cast<const Profile*>(o.get())) text += p->report();
    if (const auto* c = dynamic_cast<const Coverage*>(o.get())) text += c->report();
    if (const auto* i = dynamic_cast<const Inspect*>(o.get())) text += i->report();
  }
  return text.c_str();
}
