// What a parked group waits for, in words: the deadlock report is made of these lines.
#include "emulator/engine/describe.h"

#include <algorithm>

#include "emulator/core/hooks.h"
#include "emulator/core/place.h"

namespace fp4lab::emu {

std::string symbol_of(const Cta& cta, uint32_t offset) {
  for (const Symbol& v : cta.cluster.grid.function.variables)
    if (v.space == Space::shared && offset >= v.address &&
        offset - v.address < std::max<uint64_t>(v.size, 1)) {
      const uint64_t in = offset - v.address;
      return in ? fmt::format(" ({}+{:#x})", v.name, in) : fmt::format(" ({})", v.name);
    }
  return {};
}

std::string who_of(const Cta& cta, const MbarrierParty& p) {
  return fmt::format("warp {}, {}{}", p.warp, lane_list(p.lanes),
                     p.rank == cta.rank ? "" : fmt::format(" of CTA rank {}", p.rank));
}

std::string line_of(const Cta& cta, uint32_t function, const Instr* at) {
  const Module& m = cta.cluster.grid.module;
  return one_line(m, m.functions[function].source[at->pc]);
}

namespace {

std::string operations_of(const Warp& w) {
  std::string text;
  const_cast<Cluster&>(w.cta.cluster).pending([&](const AsyncOp& op) {
    if (op.cta == &w.cta && op.warp == w.id) text += fmt::format("{}{}", text.empty() ? "" : ", ", op.name());
    return false;
  });
  return text.empty() ? "none pending" : "pending: " + text;
}

// Whose the columns of its SM are, apart from its own: "; of SM 3 CTA (8,1,0) has [0, 512)".
std::string holders_of_columns(const Cta& cta) {
  if (!cta.sm.tmem) return {};
  const auto& owner = cta.sm.tmem->owner;
  std::string text;
  for (unsigned first = 0, last; first < kTmemColumns; first = last) {
    for (last = first + 1; last < kTmemColumns && owner[last] == owner[first]; ++last) {
    }
    if (owner[first] && owner[first] != &cta)
      text += fmt::format("{} {} has [{}, {})", text.empty() ? fmt::format("; of SM {}", cta.sm.id) : ",",
                          owner[first]->name(), first, last);
  }
  return text;
}

// "exited", or what its lanes wait for and where.
std::string whereabouts(const Cta& cta, uint32_t warp) {
  const Warp& w = *cta.warps[warp];
  if (cta.exited || w.live() == 0) return "has exited";
  const Module& m = cta.cluster.grid.module;
  std::string text;
  for (const auto& g : w.groups()) {
    const Function& f = m.functions[g->function];
    const Source& s = f.source[std::min<size_t>(g->pc, f.source.size() - 1)];
    std::string what = g->wait.kind == Wait::Kind::none ? "runs" : "waits";
    if (g->wait.kind == Wait::Kind::mbarrier)
      what = fmt::format("waits for the mbarrier at {:#x}{}", cta.address_of(g->wait.address),
                         symbol_of(cta, g->wait.address));
    else if (g->wait.kind == Wait::Kind::named_barrier)
      what = fmt::format("waits at barrier {}", g->wait.address);
    else if (g->wait.kind == Wait::Kind::cluster_barrier)
      what = "waits at the cluster barrier";
    text += fmt::format("{}{} at line {}", text.empty() ? "" : ", ", what, s.line);
  }
  return text;
}

std::string missing_of(const Cta& cta, const Mbarrier& b) {
  using What = MbarrierParty::What;
  const Cluster& cluster = cta.cluster;
  const auto who = [&](const MbarrierParty& p) { return who_of(cta, p); };
  const auto line = [&](const MbarrierParty& p) { return line_of(cta, p.function, p.at); };
  std::string text;
  int64_t expected = 0, delivered = 0;
  bool ever = false;
  for (const MbarrierParty& p : b.parties) {
    ever |= p.what == What::arrives;
    if (p.phase != b.phase) continue;
    if (p.what == What::expects) expected += p.amount;
    if (p.what == What::delivers) delivered += p.amount;
  }
  if (b.pending) {
    if (!ever) text += fmt::format("no arrival yet; {} expected\n", b.pending);
    for (const MbarrierParty& p : b.parties) {
      if (p.what != What::arrives) continue;
      if (p.phase == b.phase)
        text += fmt::format("in this phase arrived {} time{}: {}\n          {}\n", p.amount,
                            p.amount == 1 ? "" : "s", who(p), line(p));
      else
        text += fmt::format("has not arrived since phase {}: {}, which now {}\n          {}\n", p.phase,
                            who(p), whereabouts(*cluster.ctas[p.rank], p.warp), line(p));
    }
  }
  if (b.tx) {
    text += fmt::format("bytes of this phase: {} announced, {} delivered{}\n", expected, delivered,
                        expected > delivered && cluster.pending([](const AsyncOp&) { return true; }) == 0
                            ? "; no copy is under way that would deliver the rest"
                        : delivered > expected ? ": copies delivered bytes that were not announced"
                                               : "");
    for (const MbarrierParty& p : b.parties)
      if ((p.what == What::expects || p.what == What::delivers) && p.phase == b.phase)
        text += fmt::format("  {} {}, by {}\n          {}\n",
                            p.what == What::expects ? "announced" : "delivered", p.amount, who(p), line(p));
  }
  return text;
}

}  // namespace

std::string hooks::describe_missing(const Warp& w, const Wait& wait) {
  if (wait.kind != Wait::Kind::mbarrier) return {};
  const Mbarrier* b = w.cta.state->mbarriers.find(wait.address);
  return b ? missing_of(w.cta, *b) : "";
}

std::string hooks::describe_wait(const Warp& w, const Wait& wait) {
  const Cta& cta = w.cta;
  switch (wait.kind) {
    case Wait::Kind::mbarrier: {
      const Mbarrier* b = cta.state->mbarriers.find(wait.address);
      const std::string name = fmt::format("mbarrier at shared {:#x}{}", cta.address_of(wait.address),
                                           symbol_of(cta, wait.address));
      if (!b) return name + ", which was invalidated";
      return fmt::format("{}, for the phase of parity {} to complete; it is in {}", name, wait.value,
                         b->describe());
    }
    case Wait::Kind::named_barrier: {
      const NamedBarrier& b = cta.state->named[wait.address];
      return fmt::format("barrier {}{}: {}", wait.address,
                         wait.value ? fmt::format(" of {} threads", wait.value) : std::string(),
                         b.describe(cta));
    }
    case Wait::Kind::cluster_barrier: {
      std::string missing;
      for (const auto& other : cta.cluster.ctas)
        for (const auto& warp : other->warps) {
          const auto& parts = other->state->cluster_barrier;
          const uint32_t arrived = parts.empty() ? 0 : parts[warp->id].arrived,
                         live = warp->lanes & ~warp->exited;
          if ((arrived & live) != live)
            missing += fmt::format("{}{}/{}", missing.empty() ? "" : ", ", other->rank, warp->id);
        }
      return "barrier.cluster; not arrived (CTA rank/warp): " + missing;
    }
    case Wait::Kind::tmem_alloc: {
      if (wait.address) {
        const std::string holders =
            holders_of_columns(cta) + holders_of_columns(*cta.cluster.ctas[cta.rank ^ 1]);
        return fmt::format(
            "tcgen05.alloc of {} columns by the pair's other CTA (.cta_group::2), or for free columns{}",
            wait.value, holders);
      }
      unsigned taken = 0;
      if (cta.sm.tmem)
        for (const Cta* owner : cta.sm.tmem->owner) taken += owner != nullptr;
      return fmt::format("{} free columns of tensor memory, aligned to their number; {} of {} are taken{}",
                         wait.value, taken, kTmemColumns, holders_of_columns(cta));
    }
    case Wait::Kind::async_ops:
      return "its asynchronous operations (" + operations_of(w) + ")";
    default:
      return {};
  }
}

}  // namespace fp4lab::emu
