// What an mbarrier passes on: who waits for a phase comes after what its arrivals and bytes come after.
#include "emulator/watch/order.h"
#include "emulator/watch/order_state.h"

namespace fp4lab::emu {

using namespace order;

void OrderChecker::mbarrier(const BarrierEvent& e) {
  using What = BarrierEvent::What;
  ClusterState& c = of(*e.cta);
  BarrierState& b = c.cta[e.cta->rank].barriers[e.address];
  if (!b.component) {
    b.component = c.stream(Stream::mbarrier, e.cta->rank, e.address);
    const uint32_t narrow = c.stream(Stream::mbarrier_narrow, e.cta->rank, e.address);
    c.streams[b.component - c.threads].other = narrow;
  }
  auto* op = e.op ? static_cast<OpState*>(e.op->watched.get()) : nullptr;
  switch (e.what) {
    case What::init:
      return initialise(c, b, e);
    case What::arrive:
      return op ? engine_arrives(c, b, e, *op) : thread_arrives(c, b, e);
    case What::expect_tx:
      b.expect_site = site(*e.warp);
      return thread_uses(c, b, e);
    case What::complete_tx:
      if (!op) return thread_uses(c, b, e);
      check_init(b, Actor(c, *op), *e.cta, e.address, op->site);
      // Who sent the bytes knew so much when it did: whatever their scope, enough for whoever ends its CTA.
      if (c.rank_of(op->own) != e.cta->rank) join(b.ran.pending, *op), b.ran.any = true;
      return deliver(*op, c, b.component, b.completed + 1);
    case What::phase:
      return phase_over(c, b);
    case What::wait_done:
      return waited(c, b, e);
    default:
      return;
  }
}

void OrderChecker::initialise(ClusterState& c, BarrierState& b, const BarrierEvent& e) {
  WarpState& w = c.of(*e.warp);
  b.init_thread = w.base + static_cast<unsigned>(std::countr_zero(e.lanes));
  b.init_time = w.time;
  b.init_site = site(*e.warp);
  b.fence = b.fence_time = 0;
  for (Arrivals* a : {&b.own, &b.wide, &b.lax, &b.ran}) a->reset();
  b.remote.clear();
  if (!w.init_sync) w.init_sync = c.stream(Stream::init_sync, e.warp->cta.rank, e.warp->id);
  ++w.time;
}

void OrderChecker::thread_uses(ClusterState& c, const BarrierState& b, const BarrierEvent& e) {
  const WarpState& w = c.of(*e.warp);
  const unsigned l = static_cast<unsigned>(std::countr_zero(e.lanes));
  check_init(b, Actor(c, w.thread[l], w.base + l), *e.cta, e.address, site(*e.warp));
}

void OrderChecker::engine_arrives(ClusterState& c, BarrierState& b, const BarrierEvent& e, OpState& op) {
  b.own.any = true;
  b.arrive_site = op.site;
  if (op.kind == OpKind::copy_arrival) {
    const OpState::Lane& lane = op.lanes[e.op->lane];
    const uint32_t thread = op.own + e.op->lane;
    check_init(b, Actor(c, lane, thread), *e.cta, e.address, op.site);
    join(b.own.pending, lane);
    b.own.pending.v.raise(thread, op.own_time);
    if (lane.stream) b.own.pending.v.raise(lane.stream, lane.number);
    return;
  }
  check_init(b, Actor(c, op), *e.cta, e.address, op.site);
  if (op.stream && op.own / kLanes / c.warps != e.cta->rank)
    b.remember({op.stream, op.number, op.site, op.own, false, b.completed + 1});
  // Whoever waits for a commit comes after all that led to the committed operations.
  join(b.own.pending, op);
  b.own.pending.v.raise(op.own, op.own_time);
  if (op.fenced) b.own.pending.f.raise(op.own, op.fenced);
  if (op.stream) b.own.pending.v.raise(op.stream, op.number);
}

void OrderChecker::thread_arrives(ClusterState& c, BarrierState& b, const BarrierEvent& e) {
  thread_uses(c, b, e);
  WarpState& w = c.of(*e.warp);
  b.arrive_site = site(*e.warp);
  w.arrivals.add({b.arrive_site, w.time, e.cta->rank, e.address});
  const Traits& t = traits(*e.warp);
  const bool other = e.cta != &e.warp->cta;
  const uint32_t time = w.time;
  const auto publish_to = [&](Arrivals& to, Reach reach) {
    w.time = time;  // one arrival is one step
    publish(to.pending, c, w, e.lanes, reach);
    to.any = true;
  };
  if (other) {
    const uint32_t thread = w.base + static_cast<unsigned>(std::countr_zero(e.lanes));
    b.remember({thread, w.time, site(*e.warp), thread, true, b.completed + 1});
    publish_to(b.ran, Reach::all);
    if (!t.relaxed) {
      if (t.scope) publish_to(b.wide, Reach::all);
      if (t.scope || !t.scope_spelled) publish_to(b.lax, Reach::all);
    }
  }
  publish_to(b.own, other ? Reach::narrow_streams : t.relaxed ? Reach::streams : Reach::all);
}

void OrderChecker::phase_over(ClusterState& c, BarrierState& b) {
  ++b.completed;
  b.own.any = true;
  b.own.pending.v.raise(b.component, b.completed);
  b.own.pending.v.raise(c.streams[b.component - c.threads].other, b.completed);
  for (Arrivals* a : {&b.own, &b.wide, &b.lax, &b.ran}) a->complete();
}

void OrderChecker::waited(ClusterState& c, BarrierState& b, const BarrierEvent& e) {
  thread_uses(c, b, e);
  WarpState& w = c.of(*e.warp);
  b.wait_site = site(*e.warp);
  SyncPoint point{b.wait_site, w.time, e.cta->rank, e.address, e.phase, e.amount != 0};
  w.waits.newest_first([&](const SyncPoint& p) {
    point.again |= p.cta == point.cta && p.mbarrier == point.mbarrier && p.phase == point.phase;
    return point.again;
  });
  w.waits.add(point);
  const Traits& t = traits(*e.warp);
  const uint32_t first = t.relaxed ? c.threads : 0;
  acquire(w, e.lanes, b.own.known, first);
  if (t.scope) acquire(w, e.lanes, b.wide.known, first);
  // CUTLASS's ClusterBarrier arrives on and waits for other CTAs' mbarriers without naming a scope, and so do
  // the kernels that are built on it.
  if (!t.relaxed && (t.scope || !t.scope_spelled))
    for (const KnowledgeField& k : kFields) acquire(w, e.lanes, b.lax.known.*k.known, k.lax, 0);
  if (b.ran.any) c.cta[e.warp->cta.rank].behind.join(*b.ran.known.v);
  ++w.time;  // what comes behind is later than what came before
  w.learn(e.lanes);
}

// An mbarrier must be known to be initialised: by order for threads, by order and a fence for the engines.
void OrderChecker::check_init(const BarrierState& b, const Actor& a, const Cta& cta, uint32_t address,
                              uint32_t where) {
  if (b.init_thread == kNobody) return;
  if (b.fence && (*a.v)[b.fence] >= b.fence_time) return;
  const bool self = b.init_thread == a.own;
  const bool ordered = self || (*a.v)[b.init_thread] >= b.init_time;
  const bool fenced =
      self ? a.fenced != kForever && a.fenced >= b.init_time : (*a.f)[b.init_thread] >= b.init_time;
  if (ordered && (!a.async() || fenced)) return;
  const ClusterState& c = *a.cluster;
  Touch before, now;
  before.time = b.init_time, before.lanes = 1u << b.init_thread % kLanes,
  before.component = static_cast<uint16_t>(b.init_thread / kLanes * kLanes);
  before.site = b.init_site, before.cluster = now.cluster = static_cast<uint32_t>(c.id),
  before.flags = Touch::write;
  now.site = where, now.issuer = static_cast<uint16_t>(a.own), now.flags = a.async() ? Touch::async : 0;
  now.lanes = a.async() ? 0 : 1u << a.own % kLanes,
  now.component = static_cast<uint16_t>(a.own / kLanes * kLanes);
  before.issuer = static_cast<uint16_t>(b.init_thread);
  const auto class_of = [&] {
    if (ordered) {
      const bool passed_on = (*a.v)[c.warp[b.init_thread / kLanes]->init_sync] >= b.init_time;
      return passed_on || (self && a.pipe() != kNobody) ? Class::init_barrier : Class::init_fence;
    }
    // Behind a cluster barrier, even a relaxed one, the mbarrier is there in fact (CUTLASS's kernels for CTA
    // pairs initialise the barrier of the deallocation behind their last fence).
    return c.cta[a.own / kLanes / c.warps].behind[b.init_thread] >= b.init_time ? Class::init_relaxed
                                                                                : Class::init;
  };
  found(class_of(), before, a, now, {Place::Kind::shared, &cta, address});
}

}  // namespace fp4lab::emu
