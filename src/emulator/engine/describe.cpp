// What a parked group waits for, in words: the deadlock report is made of these lines.
#include <algorithm>

#include "emulator/core/place.h"
#include "emulator/engine/operand.h"

namespace fp4lab::emu {

namespace {

// "(bars+0x18)" when a shared variable of the kernel covers the offset.
std::string symbol_of(const Cta& cta, uint32_t offset) {
  for (const Symbol& v : cta.cluster.grid.function.variables)
    if (v.space == Space::shared && offset >= v.address &&
        offset - v.address < std::max<uint64_t>(v.size, 1)) {
      const uint64_t in = offset - v.address;
      return in ? fmt::format(" ({}+{:#x})", v.name, in) : fmt::format(" ({})", v.name);
    }
  return {};
}

std::string operations_of(const Warp& w) {
  std::string text;
  const_cast<Cluster&>(w.cta.cluster).pending([&](const AsyncOp& op) {
    if (op.cta == &w.cta && op.warp == w.id) text += fmt::format("{}{}", text.empty() ? "" : ", ", op.name());
    return false;
  });
  return text.empty() ? "none pending" : "pending: " + text;
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
  const Module& m = cluster.grid.module;
  const auto who = [&](const MbarrierParty& p) {
    return fmt::format("warp {}, {}{}", p.warp, lane_list(p.lanes),
                       p.rank == cta.rank ? "" : fmt::format(" of CTA rank {}", p.rank));
  };
  const auto line = [&](const MbarrierParty& p) {
    return one_line(m, m.functions[p.function].source[p.at->pc]);
  };
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
    if (!ever) text += fmt::format("nobody has ever arrived on it; {} arrivals are due\n", b.pending);
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
                            ? "; no copy is under way that would bring the rest"
                        : delivered > expected ? ": copies brought bytes that nobody has announced"
                                               : "");
    for (const MbarrierParty& p : b.parties)
      if ((p.what == What::expects || p.what == What::delivers) && p.phase == b.phase)
        text += fmt::format("  {} {}, by {}\n          {}\n",
                            p.what == What::expects ? "announced" : "delivered", p.amount, who(p), line(p));
  }
  return text;
}

}  // namespace

std::string describe_missing(const Warp& w, const Wait& wait) {
  if (wait.kind != Wait::Kind::mbarrier) return {};
  const Mbarrier* b = w.cta.state->mbarriers.find(wait.address);
  return b ? missing_of(w.cta, *b) : "";
}

namespace {

using What = MbarrierParty::What;

std::string line_of(const Cta& cta, uint32_t function, const Instr* at) {
  const Module& m = cta.cluster.grid.module;
  return one_line(m, m.functions[function].source[at->pc]);
}

std::string who_of(const Cta& cta, const MbarrierParty& p) {
  return fmt::format("warp {}, {}{}", p.warp, lane_list(p.lanes),
                     p.rank == cta.rank ? "" : fmt::format(" of CTA rank {}", p.rank));
}

// Does the code behind this wait fill a buffer (announce bytes, issue a copy) before it synchronises
// otherwise?
const Source* filled_behind(const Function& f, uint32_t pc) {
  for (size_t k = pc + 1; k < f.source.size(); ++k) {
    const Source& s = f.source[k];
    if (s.tokens.empty()) continue;
    const std::string_view first = s.tokens[0];
    const bool load = first == "cp" && s.has("bulk") && s.has("mbarrier::complete_tx::bytes");
    if (load || (first == "mbarrier" && (s.has("expect_tx")))) return &s;
    if (first == "mbarrier" || first == "tcgen05" || first == "bar" || first == "barrier" || first == "wgmma")
      return nullptr;
  }
  return nullptr;
}

// Does the code behind this wait wait for another mbarrier, and then issue products?
bool second_wait_then_products(const Function& f, uint32_t pc) {
  bool waits = false;
  for (size_t k = pc + 1; k < f.source.size(); ++k) {
    const Source& s = f.source[k];
    if (s.tokens.empty()) continue;
    const std::string_view first = s.tokens[0];
    if (first == "tcgen05" && (s.has("mma") || s.has("cp"))) return waits;
    if (first == "mbarrier" && (s.has("try_wait") || s.has("test_wait")))
      waits = true;
    else if (first == "mbarrier" || first == "bar" || first == "barrier" || first == "cp")
      return false;
  }
  return false;
}

// A warp that has issued tcgen05.mma and no tcgen05.commit behind it: nobody will hear of those products.
// Told from what the warp did last.
void uncommitted(const Cluster& cluster, std::vector<std::string>& lines) {
  for (const auto& cta : cluster.ctas)
    for (const auto& w : cta->warps) {
      const Warp::Noted* product = nullptr;
      Warp::Noted kept;
      w->for_noted([&](const Warp::Noted& n) {
        const Source& s = cluster.grid.module.functions[n.function].source[n.at->pc];
        if (s.tokens.empty() || s.tokens[0] != "tcgen05") return;
        if (s.has("mma")) kept = n, product = &kept;
        if (s.has("commit")) product = nullptr;
      });
      if (product)
        lines.push_back(
            fmt::format("warp {} of {} has issued products, and no tcgen05.commit behind the last one: {}",
                        w->id, cta->name(), line_of(*cta, product->function, product->at)));
    }
}

}  // namespace

Blame blame_of(const Warp& w, const Wait& wait) {
  constexpr int kCertain = 1000, kMistaken = 600, kPeerHasIt = 200, kFirst = 150, kPartly = 100;
  constexpr size_t kLines = 8;
  Blame blame;
  if (wait.kind != Wait::Kind::mbarrier) return blame;
  const Cta& cta = w.cta;
  const Cluster& cluster = cta.cluster;
  const Mbarrier* b = cta.state->mbarriers.find(wait.address);
  if (!b) return blame;
  const std::string name =
      fmt::format("mbarrier at {:#x}{}", cta.address_of(wait.address), symbol_of(cta, wait.address));
  const LaneGroup* group = nullptr;
  for (const auto& g : w.groups())
    if (&g->wait == &wait) group = g.get();
  const Function* f = group ? &cluster.grid.module.functions[group->function] : nullptr;
  if (f)
    blame.lines.push_back(
        "it waits at " +
        one_line(cluster.grid.module, f->source[std::min<size_t>(group->pc, f->source.size() - 1)]));
  bool ever = false;
  const uint32_t seen = b->seen_by(cta.rank, w.id);
  for (const MbarrierParty& p : b->parties) {
    if (p.what == What::inits)
      blame.lines.push_back(
          fmt::format("initialised with count {}: {}", p.amount, line_of(cta, p.function, p.at)));
    if (p.what != What::arrives) continue;
    ever = true;
    if (p.phase == b->phase) {
      blame.lines.push_back(fmt::format("arrived {} time{} in this phase: {}, {}", p.amount,
                                        p.amount == 1 ? "" : "s", who_of(cta, p),
                                        line_of(cta, p.function, p.at)));
      continue;
    }
    blame.others.emplace_back(p.rank, p.warp);
    blame.lines.push_back(fmt::format("arrived last in phase {}: {}, {}", p.phase, who_of(cta, p),
                                      line_of(cta, p.function, p.at)));
    const Cta& theirs = *cluster.ctas[p.rank];
    if (theirs.exited || theirs.warps[p.warp]->live() == 0) {
      blame.weight = kCertain;
      blame.cause = fmt::format("warp {}{}, which used to arrive on the {}, has exited", p.warp,
                                p.rank == cta.rank ? "" : fmt::format(" of CTA rank {}", p.rank), name);
    }
  }
  if (b->phase > seen && b->pending) {  // whoever used to arrive may well have gone
    blame.weight = kCertain;
    blame.cause =
        b->phase == seen + 1
            ? fmt::format(
                  "it waits for phase {} of the {}, and has not looked at phase {}, which is over: the wrong "
                  "parity?",
                  b->phase, name, seen)
            : fmt::format(
                  "it was left behind: phases {} to {} of the {} have ended before it looked. Nothing made "
                  "the others wait for it, or the count is too small, or it waits with the wrong parity",
                  seen, b->phase - 1, name);
  }
  // Who brought bytes before and does not now is perhaps stuck itself.
  const auto now = [&](const MbarrierParty& p) {
    return std::ranges::any_of(b->parties, [&](const MbarrierParty& q) {
      return q.what == What::delivers && q.phase == b->phase && q.rank == p.rank && q.warp == p.warp;
    });
  };
  bool late = false;
  for (const MbarrierParty& p : b->parties)
    if (p.what == What::delivers && p.phase != b->phase && !now(p)) {
      blame.others.emplace_back(p.rank, p.warp);
      late = true;
    }
  if (b->tx && cluster.pending([](const AsyncOp&) { return true; }) == 0) {
    blame.weight = late ? 0 : kCertain;
    blame.cause = fmt::format(
        "the bytes that are announced on the {} and those that copies bring do not match: {} "
        "{}",
        name, b->tx > 0 ? b->tx : -b->tx, b->tx > 0 ? "never come" : "too many came");
    std::vector<std::string> bytes;
    for (const MbarrierParty& p : b->parties)
      if ((p.what == What::expects || p.what == What::delivers) && p.phase == b->phase)
        bytes.push_back(fmt::format("{} {} bytes in this phase: {}, {}",
                                    p.what == What::expects ? "announced" : "delivered", p.amount,
                                    who_of(cta, p), line_of(cta, p.function, p.at)));
    if (std::ranges::none_of(bytes, [](const std::string& l) { return l.starts_with("announced"); }))
      bytes.insert(bytes.begin(), "nobody has announced bytes in this phase: mbarrier.expect_tx is missing");
    blame.lines.insert(blame.lines.begin(), bytes.begin(), bytes.end());
  }
  if (!blame.cause.empty() || !b->pending) {
    if (blame.lines.size() > kLines) blame.lines.resize(kLines);
    return blame;
  }
  const Source* fill = f && b->phase == 0 && !ever && seen == 0 ? filled_behind(*f, group->pc) : nullptr;
  bool copied = false;
  w.for_noted([&](const Warp::Noted& n) {
    const Source& s = cluster.grid.module.functions[n.function].source[n.at->pc];
    copied |= s.has("bulk") || s.has("expect_tx") || s.has("mma");
  });
  if (fill && !copied) {
    blame.weight = kMistaken;
    blame.cause = fmt::format(
        "it waits for phase 0 of the {}, on which nobody has arrived yet, before it fills a buffer for the "
        "first "
        "time: to find a buffer free at first, wait for parity 1",
        name);
    blame.lines.push_back("what it would fill: " + one_line(cluster.grid.module, *fill));
  } else if (!ever && !copied && b->phase == 0 && seen == 0 && f &&
             second_wait_then_products(*f, group->pc)) {
    blame.weight = kFirst;
    blame.cause = fmt::format(
        "it waits for phase 0 of the {}, on which nobody has arrived yet, before its operands and its first "
        "product: to find an accumulator free at first, wait for parity 1",
        name);
  } else if (!ever) {
    blame.cause = fmt::format("nobody has ever arrived on the {}", name);
    for (const auto& other : cluster.ctas)
      if (const Mbarrier* same = other.get() == &cta ? nullptr : other->state->mbarriers.find(wait.address))
        for (const MbarrierParty& p : same->parties)
          if (p.what == What::arrives)
            blame.weight = kPeerHasIt,
            blame.lines.push_back(
                fmt::format("but on the one at the same offset of CTA rank {} has arrived: {}, {} (a "
                            "multicast mask without CTA rank {}?)",
                            other->rank, who_of(cta, p), line_of(cta, p.function, p.at), cta.rank));
    uncommitted(cluster, blame.lines);
  } else {
    blame.cause = fmt::format("{} of {} arrivals are missing in phase {} of the {}", b->pending, b->total,
                              b->phase, name);
    // Some have come, and nobody is known who used to come and has not. But warps with the same part in other
    // CTAs may be meant to come too.
    std::vector<std::pair<uint32_t, uint32_t>> came, missing;
    for (const MbarrierParty& p : b->parties)
      if (p.what == What::arrives && p.phase == b->phase) came.emplace_back(p.rank, p.warp);
    for (const auto& [rank, warp] : came)
      for (const auto& other : cluster.ctas)
        if (other->warps[warp]->live() && std::ranges::find(came, std::pair(other->rank, warp)) == came.end())
          missing.emplace_back(other->rank, warp);
    const bool peers = came.size() > 1 && missing.size() == b->pending;
    if (peers) blame.others.insert(blame.others.end(), missing.begin(), missing.end());
    if (!peers && blame.others.empty()) blame.weight = kPartly;
  }
  if (blame.lines.size() > kLines) blame.lines.resize(kLines);
  return blame;
}

std::string describe_wait(const Warp& w, const Wait& wait) {
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
      if (wait.address)
        return fmt::format(
            "tcgen05.alloc of {} columns by the pair's other CTA (.cta_group::2), or for free columns",
            wait.value);
      unsigned taken = 0;
      if (cta.sm.tmem)
        for (const Cta* owner : cta.sm.tmem->owner) taken += owner != nullptr;
      return fmt::format("{} free columns of tensor memory, aligned to their number; {} of {} are taken",
                         wait.value, taken, kTmemColumns);
    }
    case Wait::Kind::async_ops:
      return "its asynchronous operations (" + operations_of(w) + ")";
    default:
      return {};
  }
}

}  // namespace fp4lab::emu
