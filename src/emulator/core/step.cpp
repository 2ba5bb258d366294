// The step loop: a group executes until it blocks, yields, diverges, reconverges or has used up its turn.
#include "emulator/core/machine.h"
#include "emulator/core/place.h"
#include "emulator/core/reschedule.h"
#include "emulator/core/warp.h"

namespace fp4lab::emu {

template <bool kWatch>
void Warp::steps(LaneGroup& g, uint64_t& budget) {
  Cluster& cluster = cta.cluster;
  const Grid& grid = cluster.grid;
  const Function& f = grid.module.functions[g.function];
  const Instr* const code = f.code.data();
  const size_t size = f.code.size();
  uint64_t* const counts = cluster.counts_ + grid.code_base_[g.function];
  const uint32_t join = join_pc(g);
  group = &g;
  events_ = 0;
  while (budget) {
    if (g.pc >= size) [[unlikely]]
      fault(FaultKind::illegal_instruction, kLanes, "control runs past the end of {}", f.name);
    const Instr& i = code[g.pc];
    recent_[recorded_++ % kRecent] = &i;
    uint32_t lanes_now = active = g.mask;
    if (i.guard >= 0) {
      const uint32_t p = static_cast<uint32_t>(i.guard);
      if ((predicates_defined_[p] & lanes_now) != lanes_now) [[unlikely]]
        undefined_predicate(p);
      active = lanes_now &= i.guard_negated ? ~predicates_[p] : predicates_[p];
    }
    --budget;
    ++instructions;
    ++counts[i.pc];
    g.pc = i.pc + 1;
    if (lanes_now) {
      if constexpr (kWatch) cluster.watcher->step(*this, i, lanes_now);
      i.body(*this, i);
    }
    if (events_) [[unlikely]] {
      if (events_ & kBlocked) {
        g.pc = i.pc;
        --instructions;
        --counts[i.pc];
      }
      return;
    }
    if (g.pc == join) [[unlikely]]
      return;
  }
}

Warp::Turn Warp::run(uint64_t& budget, LaneGroup* first) {
  LaneGroup* g = first ? first : next_group();
  const bool watch = cta.cluster.watcher != nullptr;
  while (g && budget) {
    // Also if the previous instruction ended the group's turn in another way: a divergent branch, an exit, a
    // load that yields.
    if (join_pc(*g) == g->pc) {
      LaneGroup* next = arrive(*g);
      g = next ? next : next_group();
      continue;
    }
    counted_ = instructions;
    try {
      if (watch)
        steps<true>(*g, budget);
      else
        steps<false>(*g, budget);
    } catch (const Reschedule&) {
      g->pc = current()->pc;
    }
    // A polling group yields, or accesses memory strongly, every few instructions. One that does neither for
    // long makes progress.
    count_quiet(*g);
    if (g->quiet > kQuiet) ++cta.cluster.progress_, g->quiet = 0;
    const uint32_t events = events_;
    if (events & kYield) {
      g->quiet = 0;
      return Turn::yielded;
    }
    if (events & kBlocked) {
      if (g->wait.kind == Wait::Kind::serial) g->quiet = 0;
      g = next_group();
    } else if (events & kSwitch) {
      g = next_group();
    }
  }
  return g ? Turn::spent : Turn::parked;
}

// Round robin, so that a spinning group cannot starve its siblings.
LaneGroup* Warp::next_group() {
  const size_t n = groups_.size();
  for (size_t k = 0; k < n; ++k) {
    LaneGroup* g = groups_[(next_group_ + k) % n].get();
    if (g->wait.kind == Wait::Kind::none) {
      next_group_ = static_cast<uint32_t>((next_group_ + k + 1) % n);
      return g;
    }
  }
  return nullptr;
}

bool Warp::runnable() const {
  for (const auto& g : groups_)
    if (g->wait.kind == Wait::Kind::none) return true;
  return false;
}

}  // namespace fp4lab::emu
