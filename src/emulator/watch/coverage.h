// Which PTX lines were executed by anybody.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>

#include "emulator/core/warp.h"
#include "emulator/core/watch.h"

namespace fp4lab::emu {

class Coverage final : public Watcher {
 public:
  void step(Warp& w, const Instr& i, uint32_t) override { lines_.insert(w.source_of(i).line); }
  // Of all launches since it was made, ascending, separated by blanks.
  std::string report() const { return fmt::format("{}\n", fmt::join(lines_, " ")); }

 private:
  std::set<uint32_t> lines_;
};

}  // namespace fp4lab::emu
