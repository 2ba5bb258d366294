// setmaxnreg (PTX ISA 9.7.19.5). Registers are not counted out: who asks gets. What hardware could not give
// is noted when the CTA ends.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "emulator/engine/operand.h"
#include "emulator/isa/opcode.h"
#include "fp4lab/error.h"

namespace fp4lab::emu {

namespace {

constexpr uint32_t kRegisters = 65536, kUnit = 8, kMost = 256;  // of an SM; given out in; of a thread

uint32_t volume(const uint32_t (&n)[3]) { return n[0] * std::max(1u, n[1]) * std::max(1u, n[2]); }
uint32_t whole_warpgroups(uint32_t threads) { return (threads + 127) / 128 * 128; }

// Registers of a thread at the launch, as ptxas 13.0 gives them to a kernel with setmaxnreg: what .maxnreg
// says, or all that let the largest CTA run, .minnctapersm times, but not more than the largest .inc. 0:
// ptxas ignores setmaxnreg.
uint32_t at_entry(const Module& m, const Function& f) {
  if (f.max_nreg) return (f.max_nreg + kUnit - 1) / kUnit * kUnit;
  if (!f.min_ctapersm) return 0;
  const uint32_t threads = f.req_ntid[0] ? volume(f.req_ntid) : f.max_ntid[0] ? volume(f.max_ntid) : 1024;
  uint32_t largest = 0;
  for (const Function& g : m.functions)
    for (size_t i = 0; i < g.source.size(); ++i)
      if ((&g == &f || !g.entry) && !g.source[i].tokens.empty() && g.source[i].tokens[0] == "setmaxnreg" &&
          g.source[i].has("inc"))
        largest = std::max(largest, static_cast<uint32_t>(g.code[i].op[0].displacement));
  const uint32_t room = kRegisters / (whole_warpgroups(threads) * f.min_ctapersm) / kUnit * kUnit;
  return std::min({room, kMost, largest ? largest : kMost});
}

uint32_t line_of(const Module& m, const Instr* i) {
  for (const Function& f : m.functions)
    if (!f.code.empty() && i >= f.code.data() && i < f.code.data() + f.code.size())
      return f.source[size_t(i - f.code.data())].line;
  return 0;
}

}  // namespace

void CtaState::check_registers() const {
  const auto asks = [](const WarpEngines& w) { return w.setmaxnreg != nullptr; };
  const auto first = std::ranges::find_if(warps, asks);
  if (first == warps.end()) return;
  const uint32_t entry = at_entry(cta.cluster.grid.module, cta.cluster.grid.function),
                 threads = kLanes * uint32_t(cta.warps.size());
  if (!entry) return;
  uint64_t sum = 0;
  std::vector<uint32_t> asked;
  for (size_t i = 0; i < cta.warps.size(); ++i) {
    const uint32_t n = i < warps.size() && warps[i].setmaxnreg ? warps[i].registers : entry;
    if (i % 4 == 0) asked.push_back(n);
    sum += uint64_t(n) * kLanes;
  }
  const uint64_t pool = uint64_t(entry) * whole_warpgroups(threads);
  if (sum <= pool) return;
  cta.cluster.tolerated(
      Fault(
          FaultKind::deadlock, kLanes,
          fmt::format(
              "setmaxnreg: the warpgroups end with {} registers a thread, {} in all, and the CTA got {} for "
              "each thread at its launch, {} in all: on hardware a setmaxnreg.inc waits for ever (first "
              "one: line {})",
              fmt::join(asked, ", "), sum, entry, pool, line_of(cta.cluster.grid.module, first->setmaxnreg))),
      *cta.warps.front());
}

Body bind_setmaxnreg(Instr& i, const Source&) {
  const int64_t count = i.op[0].displacement;
  if (count < 24 || count > 256 || count % 8)
    fail("setmaxnreg takes a multiple of 8 from 24 to 256, not {}", count);
  return [](Warp& w, const Instr& i) {
    w.require_full(i);
    WarpEngines& e = w.cta.state->warp(w.id);
    e.setmaxnreg = &i, e.registers = static_cast<uint32_t>(i.op[0].displacement);
  };
}

}  // namespace fp4lab::emu
