// What fences pass on: of memory, of the proxies, of mbarrier.init and of tensor memory.
#include "emulator/watch/order.h"
#include "emulator/watch/order_found.h"
#include "emulator/watch/order_state.h"

namespace fp4lab::emu {

using namespace order;

namespace {

// fence.acq_rel: takes in what relaxed reads before it saw, and hands over what came before it with the
// relaxed writes behind it.
void take_and_give(ThreadState& t, uint8_t scope, uint32_t time) {
  if (const ThreadState::Seen& seen = t.observed[scope]; seen.v) {
    Clock v = *t.v, f = *t.f, g = *t.g;
    v.join(*seen.v);
    f.join(*seen.f);
    g.join(*seen.g);
    t.v = SharedClock(std::move(v));
    t.f = SharedClock(std::move(f));
    if (!g.at.empty() || g.foreign) t.g = SharedClock(std::move(g));
  }
  t.released_scope = scope;
  t.released = t.v;
  t.relfenced = t.f;
  t.relglobal = t.g;
  t.released_at = time;
}

// fence.mbarrier_init: the mbarriers that this lane made are there for the engines too.
void barriers_made(ClusterState& c, WarpState& w, const Warp& warp, unsigned lane) {
  const uint32_t stream = c.stream(Stream::init_fence, warp.cta.rank, warp.id * kLanes + lane);
  for (auto& cta : c.cta)
    for (auto& [offset, b] : cta.barriers)
      if (b.init_thread == w.base + lane && !b.fence) b.fence = stream, b.fence_time = w.time;
  change(w, 1u << lane, &Knowledge::v, [&](Clock& k) { k.raise(stream, w.time); });
}

}  // namespace

void OrderChecker::fence(Warp& warp, const Instr& i) {
  ClusterState& c = of(warp.cta);
  WarpState& w = c.of(warp);
  const uint32_t lanes = warp.active;
  switch (traits(warp).fence) {
    case Traits::none:
      return;
    case Traits::memory:
      for_lanes(lanes, [&](unsigned l) { take_and_give(w.thread[l], traits(warp).scope, w.time); });
      break;
    case Traits::proxy_async:
      for_lanes(lanes, [&](unsigned l) {
        ThreadState& t = w.thread[l];
        t.f = t.v, t.lax_f = t.lax_v, t.fenced = w.time;
      });
      break;
    case Traits::proxy_global:
      for_lanes(lanes, [&](unsigned l) {
        Clock g = *w.thread[l].v;
        g.raise(w.base + l, w.time);
        w.thread[l].g = SharedClock(std::move(g));
      });
      break;
    case Traits::mbarrier_init:
      for_lanes(lanes, [&](unsigned l) { barriers_made(c, w, warp, l); });
      break;
    case Traits::map_acquire:
      return fence_of_map(warp, i);
    case Traits::map_copy:
      return warp_sync(w, lanes);
    case Traits::before_sync:
      if (w.load || w.store)
        change(w, lanes, &Knowledge::v, [&](Clock& k) {
          if (w.load) k.raise(w.load_fenced, k[w.load]);
          if (w.store) k.raise(w.store_fenced, k[w.store]);
        });
      return;
    case Traits::grid_wait:
      return grid_waited(c, w, warp);
    case Traits::grid_dependents:
      return dependents_launched(c, warp.cta);
    case Traits::after_sync:
      for_lanes(lanes, [&](unsigned l) { w.thread[l].after = w.thread[l].v; });
      return;
  }
  ++w.time;
}

}  // namespace fp4lab::emu
