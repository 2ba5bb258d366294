// Which of the parked warps a deadlock begins with: what of an mbarrier's state can be the cause of a wait
// that never ends rather than the consequence of another one. The deadlock report starts with the weightiest.
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <set>

#include "emulator/core/hooks.h"
#include "emulator/core/place.h"
#include "emulator/engine/describe.h"

namespace fp4lab::emu {

namespace {

using What = MbarrierParty::What;

constexpr int kCertain = 1000, kMistaken = 600, kPeerHasIt = 200, kFirst = 150, kPartly = 100;
constexpr size_t kLines = 8;

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
            fmt::format("warp {} of {} has issued products, and no tcgen05.commit after the last one: {}",
                        w->id, cta->name(), line_of(*cta, product->function, product->at)));
    }
}

// Where a warp that has committed products before may owe one more tcgen05.commit.
void last_commits(const Cluster& cluster, std::vector<std::string>& lines) {
  for (const auto& cta : cluster.ctas)
    for (const auto& w : cta->warps) {
      Warp::Noted last;
      w->for_noted([&](const Warp::Noted& n) {
        const Source& s = cluster.grid.module.functions[n.function].source[n.at->pc];
        if (!s.tokens.empty() && s.tokens[0] == "tcgen05" && s.has("commit")) last = n;
      });
      if (!last.at) continue;
      const Function& f = cluster.grid.module.functions[last.function];
      const bool runs = !w->groups().empty() && w->groups()[0]->function == last.function;
      const size_t now =
          runs ? std::min<size_t>(w->groups()[0]->pc, f.source.size() - 1) : f.source.size() - 1;
      lines.push_back(
          fmt::format("warp {} of {} has committed products: is a tcgen05.commit between lines {} "
                      "and {} missing?",
                      w->id, cta->name(), f.source[last.at->pc].line, f.source[now].line));
    }
}

class MbarrierBlame {
 public:
  MbarrierBlame(const Warp& w, const Wait& wait, const Mbarrier& b)
      : w_(w),
        cta_(w.cta),
        cluster_(cta_.cluster),
        b_(b),
        offset_(wait.address),
        seen_(b.seen_by(cta_.rank, w.id)) {
    name_ = fmt::format("mbarrier at {:#x}{}", cta_.address_of(offset_), symbol_of(cta_, offset_));
    for (const auto& g : w.groups())
      if (&g->wait == &wait) group_ = g.get();
    if (group_) function_ = &cluster_.grid.module.functions[group_->function];
  }

  Blame find() {
    if (function_) {
      const size_t at = std::min<size_t>(group_->pc, function_->source.size() - 1);
      line("it waits at " + one_line(cluster_.grid.module, function_->source[at]));
    }
    parties();
    skipped_phases();
    bytes();
    if (blame_.cause.empty() && b_.pending) arrivals();
    if (blame_.lines.size() > kLines) blame_.lines.resize(kLines);
    return std::move(blame_);
  }

 private:
  void line(std::string text) { blame_.lines.push_back(std::move(text)); }
  void cause(int weight, std::string text) { blame_.weight = weight, blame_.cause = std::move(text); }
  std::string party(const MbarrierParty& p) const {
    return fmt::format("{}, {}", who_of(cta_, p), line_of(cta_, p.function, p.at));
  }

  // Who has set the barrier up and arrived; who used to arrive and is gone.
  void parties() {
    for (const MbarrierParty& p : b_.parties) {
      if (p.what == What::inits)
        line(fmt::format("initialised with count {}: {}", p.amount, line_of(cta_, p.function, p.at)));
      if (p.what != What::arrives) continue;
      ever_ = true;
      if (p.phase == b_.phase) {
        line(
            fmt::format("arrived {} time{} in this phase: {}", p.amount, p.amount == 1 ? "" : "s", party(p)));
        continue;
      }
      blame_.others.emplace_back(p.rank, p.warp);
      line(fmt::format("arrived last in phase {}: {}", p.phase, party(p)));
      const Cta& theirs = *cluster_.ctas[p.rank];
      if (theirs.exited || theirs.warps[p.warp]->live() == 0)
        cause(kCertain,
              fmt::format("warp {}{}, which used to arrive on the {}, has exited", p.warp,
                          p.rank == cta_.rank ? "" : fmt::format(" of CTA rank {}", p.rank), name_));
    }
  }

  // Phases have ended that the waiting warp never looked at. That weighs more than an arriver's exit: whoever
  // used to arrive may well have gone.
  void skipped_phases() {
    if (b_.phase <= seen_ || !b_.pending) return;
    if (b_.phase == seen_ + 1)
      cause(kCertain, fmt::format("it waits for phase {} of the {}, and has not looked at phase {}, which is "
                                  "over: the wrong parity?",
                                  b_.phase, name_, seen_));
    else
      cause(
          kCertain,
          fmt::format("it fell behind: phases {} to {} of the {} have ended before it looked. Nothing made "
                      "the others wait for it, or the count is too small, or it waits with the wrong parity",
                      seen_, b_.phase - 1, name_));
  }

  // Announced bytes and those that came. Who brought bytes before and does not now is perhaps stuck itself.
  void bytes() {
    const bool late = note_late_deliverers();
    if (!b_.tx || cluster_.pending([](const AsyncOp&) { return true; })) return;
    cause(late ? 0 : kCertain,
          fmt::format("bytes announced and bytes delivered on the {} do not match: {} {}", name_,
                      b_.tx > 0 ? b_.tx : -b_.tx, b_.tx > 0 ? "are missing" : "too many"));
    std::vector<std::string> lines;
    bool announced = false;
    for (const MbarrierParty& p : b_.parties) {
      if ((p.what != What::expects && p.what != What::delivers) || p.phase != b_.phase) continue;
      announced |= p.what == What::expects;
      lines.push_back(fmt::format("{} {} bytes in this phase: {}",
                                  p.what == What::expects ? "announced" : "delivered", p.amount, party(p)));
    }
    if (!announced)
      lines.insert(lines.begin(), "no bytes are announced in this phase: mbarrier.expect_tx is missing");
    astray(lines);
    blame_.lines.insert(blame_.lines.begin(), lines.begin(), lines.end());
  }
  // Bytes too many on the mbarrier at the same offset of another CTA are perhaps those that lack here.
  void astray(std::vector<std::string>& lines) const {
    for (const auto& other : cluster_.ctas) {
      const Mbarrier* same = other.get() == &cta_ ? nullptr : other->state->mbarriers.find(offset_);
      if (!same || (same->tx < 0) == (b_.tx < 0) || !same->tx) continue;
      for (const MbarrierParty& p : same->parties)
        if (p.what == (same->tx < 0 ? What::delivers : What::expects) && p.phase == same->phase) {
          lines.insert(lines.begin(),
                       fmt::format("on the one at the same offset of CTA rank {}, {} {}, by {}", other->rank,
                                   same->tx < 0 ? -same->tx : same->tx,
                                   same->tx < 0 ? "were delivered that are not announced there"
                                                : "are announced that are not delivered",
                                   party(p)));
          break;
        }
    }
  }
  bool note_late_deliverers() {
    const auto delivers_now = [&](const MbarrierParty& p) {
      return std::ranges::any_of(b_.parties, [&](const MbarrierParty& q) {
        return q.what == What::delivers && q.phase == b_.phase && q.rank == p.rank && q.warp == p.warp;
      });
    };
    bool late = false;
    for (const MbarrierParty& p : b_.parties)
      if (p.what == What::delivers && p.phase != b_.phase && !delivers_now(p)) {
        blame_.others.emplace_back(p.rank, p.warp);
        late = true;
      }
    return late;
  }

  void arrivals() {
    if (ever_) return some_are_missing();
    const bool at_first = function_ && b_.phase == 0 && seen_ == 0 && !has_produced();
    const Source* fill = at_first ? filled_behind(*function_, group_->pc) : nullptr;
    if (fill) {
      cause(kMistaken,
            fmt::format("it waits for phase 0 of the {}, which has no arrival yet, before it fills a buffer "
                        "for the first time: to find a buffer free at first, wait for parity 1",
                        name_));
      line("what it would fill: " + one_line(cluster_.grid.module, *fill));
    } else if (at_first && second_wait_then_products(*function_, group_->pc)) {
      cause(kFirst,
            fmt::format("it waits for phase 0 of the {}, which has no arrival yet, before its operands and "
                        "its first product: to find an accumulator free at first, wait for parity 1",
                        name_));
    } else {
      nobody_has_come();
    }
  }

  // Has the warp lately copied, announced bytes or multiplied?
  bool has_produced() const {
    bool produced = false;
    w_.for_noted([&](const Warp::Noted& n) {
      const Source& s = cluster_.grid.module.functions[n.function].source[n.at->pc];
      produced |= s.has("bulk") || s.has("expect_tx") || s.has("mma");
    });
    return produced;
  }

  void nobody_has_come() {
    cause(0, fmt::format("no arrival yet on the {}", name_));
    for (const auto& other : cluster_.ctas) {
      const Mbarrier* same = other.get() == &cta_ ? nullptr : other->state->mbarriers.find(offset_);
      if (!same) continue;
      for (const MbarrierParty& p : same->parties) {
        if (p.what != What::arrives) continue;
        blame_.weight = kPeerHasIt;
        line(
            fmt::format("but on the one at the same offset of CTA rank {} has arrived: {} (a multicast mask "
                        "without CTA rank {}?)",
                        other->rank, party(p), cta_.rank));
      }
    }
    beside();
    const size_t told = blame_.lines.size();
    uncommitted(cluster_, blame_.lines);
    if (blame_.lines.size() == told) last_commits(cluster_, blame_.lines);
  }

  // A ring's mbarriers lie side by side: an arrival like those on the nearest ones may be missing.
  void beside() {
    constexpr uint32_t kNear = 64;
    std::set<uint32_t> lines;
    std::string text;
    for (const int64_t step : {-8, 8})
      for (int64_t d = step; std::abs(d) <= kNear; d += step) {
        const int64_t there = int64_t(offset_) + d;
        const Mbarrier* b = there < 0 ? nullptr : cta_.state->mbarriers.find(static_cast<uint32_t>(there));
        if (!b) break;
        std::set<uint32_t> here;
        for (const MbarrierParty& p : b->parties)
          if (p.what == What::arrives && p.at) here.insert(cta_.state->ptx_line(p.function, *p.at));
        if (here.empty()) continue;
        text += fmt::format("{}{:#x} by line {}", text.empty() ? "" : ", ",
                            cta_.address_of(static_cast<uint32_t>(there)), fmt::join(here, ", line "));
        lines.merge(here);
        break;
      }
    if (text.empty()) return;
    line(fmt::format("beside it were arrived on the mbarriers {}", text));
    if (lines.size() > 1)
      line(fmt::format("is an arrive or a tcgen05.commit between lines {} and {} missing?", *lines.begin(),
                       *lines.rbegin()));
  }

  // Where some have come, and nobody is known who used to come and has not, warps with the same part in other
  // CTAs may be meant to come too.
  void some_are_missing() {
    cause(0, fmt::format("{} of {} arrivals are missing in phase {} of the {}", b_.pending, b_.total,
                         b_.phase, name_));
    std::vector<std::pair<uint32_t, uint32_t>> came, missing;
    for (const MbarrierParty& p : b_.parties)
      if (p.what == What::arrives && p.phase == b_.phase) came.emplace_back(p.rank, p.warp);
    for (const auto& [rank, warp] : came)
      for (const auto& other : cluster_.ctas)
        if (other->warps[warp]->live() && std::ranges::find(came, std::pair(other->rank, warp)) == came.end())
          missing.emplace_back(other->rank, warp);
    const bool peers = came.size() > 1 && missing.size() == b_.pending;
    if (peers) blame_.others.insert(blame_.others.end(), missing.begin(), missing.end());
    if (!peers && blame_.others.empty()) blame_.weight = kPartly;
  }

  const Warp& w_;
  const Cta& cta_;
  const Cluster& cluster_;
  const Mbarrier& b_;
  uint32_t offset_, seen_;  // seen_: phases that the warp has seen the end of
  std::string name_;
  const LaneGroup* group_ = nullptr;
  const Function* function_ = nullptr;  // where the group waits
  bool ever_ = false;                   // somebody has arrived, in whatever phase
  Blame blame_;
};

// "warps 0-3, 5" of a bit for each.
std::string warp_list(uint32_t warps) {
  const bool one = std::has_single_bit(warps);
  std::string text;
  for (unsigned w = 0; w < 32; ++w) {
    if (!(warps >> w & 1)) continue;
    unsigned end = w;
    while (end + 1 < 32 && warps >> (end + 1) & 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", w);
    if (end > w) text += fmt::format("-{}", end);
    w = end;
  }
  return (one ? "warp " : "warps ") + text;
}

// Arrivals do not wait: those of the next rounds stood in for the warp that had not come yet.
Blame ran_ahead(const Warp& w, const LaneGroup& group, uint32_t id) {
  const NamedBarrier& b = w.cta.state->named[id];
  const NamedBarrier::RanAhead& r = b.ran_ahead;
  const Module& m = w.cta.cluster.grid.module;
  const Function& f = m.functions[group.function];
  Blame blame;
  blame.weight = kCertain;
  blame.cause = fmt::format(
      "arrivals ran ahead of it: {} {} of barrier {} ended without {}, because {} came twice in one round; "
      "nothing makes them wait until it has come (a second barrier for the way back, or bar.sync on both "
      "sides)",
      r.rounds == 1 ? "round" : "rounds",
      r.first == r.last ? fmt::format("{}", r.first) : fmt::format("{} to {}", r.first, r.last), id,
      warp_list(r.left_behind()), warp_list(r.twice));
  blame.lines.push_back("it waits at " +
                        one_line(m, f.source[std::min<size_t>(group.pc, f.source.size() - 1)]));
  for (unsigned k = 0; k < b.parts.size(); ++k)
    if (const NamedBarrier::Part& p = b.parts[k]; p.arrives || p.syncs)
      blame.lines.push_back(fmt::format("warp {} has come {} times: {} by bar.arrive, {} by bar.sync", k,
                                        p.arrives + p.syncs, p.arrives, p.syncs));
  return blame;
}

// A warp whose lanes stand at several bar.sync: it is .aligned, so all lanes must come to the same one.
Blame parted_blame(const Warp& w) {
  const Module& m = w.cta.cluster.grid.module;
  std::vector<std::string> lines;
  std::set<std::pair<uint32_t, uint32_t>> places;
  for (const auto& g : w.groups()) {
    const Source& s =
        m.functions[g->function].source[std::min<size_t>(g->pc, m.functions[g->function].source.size() - 1)];
    if (s.tokens.empty() || (s.tokens[0] != "bar" && s.tokens[0] != "barrier")) continue;
    places.emplace(g->function, g->pc);
    lines.push_back(fmt::format("{} at {}", lane_list(g->mask), one_line(m, s)));
  }
  if (places.size() < 2) return {};
  Blame b;
  b.weight = kCertain;
  b.cause = fmt::format(
      "the lanes of this warp are at {} different barrier instructions, and each must be executed by all "
      "of "
      "them together (.aligned): one barrier after the branch instead of one in each arm",
      places.size());
  b.lines = std::move(lines);
  return b;
}

// A barrier that all who do not wait at another one are too few for.
Blame named_blame(const Warp& w, const LaneGroup& group, uint32_t id) {
  const CtaState& s = *w.cta.state;
  const auto unmet = [&](size_t i) { return s.named[i].open && s.named[i].expected > s.named[i].arrived; };
  if (const NamedBarrier& b = s.named[id]; b.ran_ahead.rounds && b.ran_ahead.left_behind() >> w.id & 1)
    return ran_ahead(w, group, id);
  uint32_t elsewhere = 0;  // threads that wait at no such barrier
  for (const auto& other : w.cta.warps)
    for (const auto& g : other->groups())
      if (g->wait.kind != Wait::Kind::named_barrier || !unmet(g->wait.address)) elsewhere += kLanes;
  if (!unmet(id) || s.named[id].expected - s.named[id].arrived <= elsewhere) return {};
  Blame b;
  for (uint32_t i = 0; i < s.named.size(); ++i)
    if (i != id && unmet(i))
      b.lines.push_back(fmt::format("at barrier {}, {}", i, s.named[i].describe(w.cta)));
  b.cause = fmt::format(
      "at barrier {} {} of {} threads have arrived, and {}", id, s.named[id].arrived, s.named[id].expected,
      b.lines.empty() ? "too few others are left: the number of threads, or a bar.arrive missing?"
                      : "those that should come wait at other barriers: a bar.arrive missing, or "
                        "barriers taken in different orders?");
  const Function& f = w.cta.cluster.grid.module.functions[group.function];
  b.lines.insert(b.lines.begin(),
                 "it waits at " + one_line(w.cta.cluster.grid.module,
                                           f.source[std::min<size_t>(group.pc, f.source.size() - 1)]));
  if (const std::string last = s.named[id].completed_by(); !last.empty())
    b.lines.push_back(fmt::format("its last round was completed by warps {}", last));
  b.weight = kMistaken;
  return b;
}

}  // namespace

Blame hooks::blame_of(const Warp& w, const Wait& wait) {
  if (wait.kind == Wait::Kind::warp_sync) return parted_blame(w);
  if (wait.kind == Wait::Kind::named_barrier)
    for (const auto& g : w.groups())
      if (&g->wait == &wait) return named_blame(w, *g, wait.address);
  if (wait.kind != Wait::Kind::mbarrier) return {};
  const Mbarrier* b = w.cta.state->mbarriers.find(wait.address);
  return b ? MbarrierBlame(w, wait, *b).find() : Blame{};
}

}  // namespace fp4lab::emu
