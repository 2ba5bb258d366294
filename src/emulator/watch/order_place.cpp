// Where in the program what is missing would have to stand: the synchronising instructions around the two
// accesses, where the warps have waited and arrived in fact, and the lines of the mbarriers between them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "emulator/core/place.h"
#include "emulator/watch/order_found.h"

namespace fp4lab::emu {

using namespace order;

namespace {

// What would stand behind the first access, and what in front of the second; empty: nothing.
struct Missing {
  const char *behind = "", *before = "";
};

// "0, 2, 5" of a bit for each.
std::string bits_text(uint32_t bits) {
  std::string text;
  for (unsigned k = 0; k < 32; ++k)
    if (bits >> k & 1) text += fmt::format("{}{}", text.empty() ? "" : ", ", k);
  return text;
}

Missing missing_of_race(const Touch& before, const ClusterState* c, bool same_warp) {
  if (same_warp && before.lanes) return {"bar.warp.sync", "bar.warp.sync"};
  if (before.lanes || !c) return {"an arrive or a barrier", "a wait or a barrier"};
  switch (c->stream_of(before).kind) {
    case Stream::mbarrier:
      return {"", "a wait for the mbarrier"};
    case Stream::pipe:
      return {"tcgen05.commit", "a wait for its mbarrier"};
    case Stream::bulk_read:
    case Stream::bulk_write:
      return {"cp.async.bulk.commit_group and wait_group", "a barrier, if another thread continues"};
    case Stream::copy:
      return {"cp.async.commit_group and wait_group", "a barrier, if another thread continues"};
    case Stream::wgmma:
      return {"wgmma.commit_group and wait_group", "a barrier, if another warp continues"};
    case Stream::tmem_load:
      return {"tcgen05.wait::ld, then an arrive or a barrier", "a wait or a barrier"};
    case Stream::tmem_store:
      return {"tcgen05.wait::st, then an arrive or a barrier", "a wait or a barrier"};
    default:
      return {"an arrive or a barrier", "a wait or a barrier"};
  }
}

}  // namespace

uint32_t OrderChecker::line_of(uint32_t site) const { return source_at(*grid_, code_base_, site).line; }

uint32_t OrderChecker::neighbour(uint32_t site, bool before) const {
  const size_t f = function_at(code_base_, site);
  return (before ? line_of_wait_before : line_of_arrival_behind)(grid_->module.functions[f],
                                                                 site - code_base_[f]);
}

std::string OrderChecker::gaps(Class k, const Touch& before, const Actor& a, const Touch& now) const {
  const ClusterState* c = before.cluster == a.cluster->id ? a.cluster : nullptr;
  const uint32_t theirs = (before.lanes ? before.component : before.issuer) / kLanes, mine = a.own / kLanes;
  const Missing m = [&]() -> Missing {
    switch (k) {
      case Class::race:
      case Class::warpgroup:
      case Class::elected:
      case Class::map_reuse:
      case Class::scope:
      case Class::exit:
      case Class::exit_read:
        return missing_of_race(before, c, c && theirs == mine);
      case Class::pair_alloc:
        return {"", "barrier.cluster.arrive and wait"};
      case Class::pair_dealloc:
        return {"", "barrier.cluster.arrive and wait, after the alloc,"};
      case Class::alloc:
      case Class::init:
        return {"a barrier", "a wait or a barrier"};
      case Class::proxy:
      case Class::proxy_of_copy:
      case Class::proxy_after_read:
      case Class::proxy_after_alloc:
        return {"fence.proxy.async", ""};
      case Class::init_fence:
      case Class::init_barrier:
      case Class::init_relaxed:
        return {"fence.mbarrier_init", ""};
      case Class::wgmma_fence:
        return {"wgmma.fence", ""};
      case Class::store_wait:
      case Class::own_wait:
        return {"tcgen05.wait::st", ""};
      case Class::tensor_map:
        return {"", "fence.proxy.tensormap::generic.acquire"};
      case Class::tcgen05_fence:
        return {"tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync"};
      default:
        return {};
    }
  }();
  std::string text;
  if (*m.behind)
    text += fmt::format("{} between lines {} and {}", m.behind, line_of(before.site),
                        neighbour(before.site, false));
  if (*m.before)
    text += fmt::format("{}{} between lines {} and {}", text.empty() ? "" : "; or ", m.before,
                        neighbour(now.site, true), line_of(now.site));
  return text;
}

std::string OrderChecker::mbarrier_lines(const ClusterState& c, uint32_t cta, uint32_t address) const {
  const auto it = c.cta[cta].barriers.find(address);
  if (it == c.cta[cta].barriers.end()) return {};
  const BarrierState& b = it->second;
  std::string text = fmt::format("the mbarrier at {:#x}: init line {}", address, line_of(b.init_site));
  for (const auto& [what, site] :
       {std::pair{"expect_tx", b.expect_site}, {"arrive", b.arrive_site}, {"wait", b.wait_site}})
    if (site != kForever) text += fmt::format(", {} line {}", what, line_of(site));
  return text;
}

std::string OrderChecker::belongs(Class k, const Touch& before, const Actor& a, const Touch& now) const {
  std::string text = gaps(k, before, a, now);
  if (text.empty() || before.cluster != a.cluster->id) return text;
  const ClusterState& c = *a.cluster;
  std::set<std::pair<uint32_t, uint32_t>> mbarriers;  // CTA, address
  std::vector<std::string> facts;
  const auto place = [&](const SyncPoint& p) {
    if (p.mbarrier != kForever) mbarriers.emplace(p.cta, p.mbarrier);
    return fmt::format("line {}{}", line_of(p.site),
                       p.mbarrier != kForever ? fmt::format(" (mbarrier at {:#x})", p.mbarrier)
                       : p.named != kForever
                           ? fmt::format(" (barrier {}, completed by warps {})", p.named, bits_text(p.warps))
                           : "");
  };
  std::vector<std::string> waits;
  if (a.op) {
    for (uint32_t n = 0; n < a.op->waited; ++n) waits.push_back(place(a.op->waits[n]));
  } else {
    c.warp[a.own / kLanes]->waits.newest_first([&](const SyncPoint& p) {
      waits.push_back(place(p));
      return waits.size() == 2;
    });
  }
  if (!waits.empty())
    facts.push_back(
        fmt::format("warp {} had last waited at {}", a.own / kLanes % c.warps, fmt::join(waits, " and ")));
  if (before.lanes) {
    const SyncPoint* next = nullptr;
    const WarpState& w = *c.warp[before.component / kLanes];
    w.arrivals.newest_first([&](const SyncPoint& p) {
      if (p.time < before.time) return true;
      next = &p;
      return false;
    });
    if (next)
      facts.push_back(
          fmt::format("warp {} then arrived at {}", before.component / kLanes % c.warps, place(*next)));
  } else if (const StreamInfo& s = c.stream_of(before); s.kind == Stream::mbarrier) {
    mbarriers.emplace(s.cta, s.id);
  }
  for (const auto& [cta, address] : mbarriers) facts.push_back(mbarrier_lines(c, cta, address));
  std::erase_if(facts, [](const std::string& f) { return f.empty(); });
  if (!facts.empty()) text += fmt::format("\n             {}", fmt::join(facts, "; "));
  return text;
}

}  // namespace fp4lab::emu
