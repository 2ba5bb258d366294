// Flags and counters in memory: what strong stores and atomics publish, and strong loads take in (PTX
// ISA 8.8).
#include "emulator/watch/order.h"
#include "emulator/watch/order_found.h"
#include "emulator/watch/order_state.h"

namespace fp4lab::emu {

using namespace order;

namespace {

// f(part) for the parts that a release or acquire of `scope` by the CTA reaches: its own, its cluster's, all.
template <class F>
void each_part(SyncVariable& x, const ClusterState& c, const Cta& cta, uint8_t scope, F&& f) {
  f(x.by_scope[0], c.id * c.ctas + cta.rank);
  if (scope >= 1) f(x.by_scope[1], c.id);
  if (scope >= 2) f(x.by_scope[2], uint64_t(0));
}

// What was published, into a clock of the cluster `own`.
void join(Clock& into, const Foreign& from, uint64_t own) {
  const auto mine = from.find(own);
  if (mine == from.end()) return into.join(from);
  join_ticks(into.at, *mine->second);
  if (from.size() == 1) return;
  Foreign others = from;
  others.erase(own);
  into.join(others);
}

// A thread's clock and its time, as others will find them.
void publish_clock(Foreign& to, const Clock& v, uint64_t cluster, uint32_t thread, uint32_t time) {
  SharedTicks& known = to[cluster];
  auto mine = known ? std::make_shared<Ticks>(*known) : std::make_shared<Ticks>();
  join_ticks(*mine, v.at);
  if (mine->size() <= thread) mine->resize(thread + 1);
  (*mine)[thread] = std::max((*mine)[thread], time);
  known = std::move(mine);
  if (v.foreign)
    for (const auto& [other, ticks] : *v.foreign) join_ticks(to[other], ticks);
}

}  // namespace

// A strong access of a flag or counter: what its release publishes and its acquire takes in.
void OrderChecker::synchronise(const Access& a, WarpState& w) {
  ClusterState& c = of(a.warp->cta);
  ThreadState& t = w.thread[a.lane];
  const Traits& m = traits(*a.warp);
  std::unique_lock<std::mutex> lock;
  if (a.space == Space::global) lock = std::unique_lock(global_->mutex);
  SyncVariable& x = a.space == Space::global ? global_->variables[a.address]
                                             : c.shared_variables[uint64_t(a.cta->rank) << 32 | a.address];
  const auto take = [&](uint8_t scope, SharedClock& v, SharedClock& f, SharedClock& g) {
    Clock new_v = *v, new_f = *f, new_g = *g;
    bool any = false;
    each_part(x, c, a.warp->cta, scope, [&](const auto& parts, uint64_t key) {
      const auto it = parts.find(key);
      if (it == parts.end()) return;
      any = true;
      join(new_v, it->second.v, c.id);
      join(new_f, it->second.f, c.id);
      join(new_g, it->second.g, c.id);
    });
    if (!any) return;
    v = SharedClock(std::move(new_v));
    f = SharedClock(std::move(new_f));
    if (!new_g.at.empty() || new_g.foreign) g = SharedClock(std::move(new_g));
  };
  if (a.kind != AccessKind::write) {
    if (m.acquire)
      take(m.scope, t.v, t.f, t.g);
    else
      for (uint8_t fence = 0; fence < t.observed.size(); ++fence)
        take(std::min(fence, m.scope), t.observed[fence].v, t.observed[fence].f, t.observed[fence].g);
  }
  if (a.kind == AccessKind::read) return;
  const auto give = [&](uint8_t scope, const SharedClock& v, uint32_t time, const SharedClock& f,
                        const SharedClock& g) {
    const uint32_t self = w.base + a.lane;
    each_part(x, c, a.warp->cta, scope, [&](auto& parts, uint64_t key) {
      SyncVariable::Part& p = parts[key];
      publish_clock(p.v, *v, c.id, self, time);
      publish_clock(p.f, *f, c.id, self, t.fenced);
      if (g) publish_clock(p.g, *g, c.id, self, 0);
    });
  };
  if (m.release) give(m.scope, t.v, w.time, t.f, t.g);
  if (t.released_at)
    give(std::min(t.released_scope, m.scope), t.released, t.released_at, t.relfenced, t.relglobal);
}

}  // namespace fp4lab::emu
