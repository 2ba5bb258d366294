// What named and cluster barriers, waits for groups and tcgen05.wait pass on between threads.
#include <bit>

#include "emulator/core/cta_state.h"
#include "emulator/watch/order.h"
#include "emulator/watch/order_state.h"

namespace fp4lab::emu {

using namespace order;

namespace {

template <class Numbers, class Sums>
Sum& sum_of(Numbers& numbers, Sums& sums, uint64_t number) {
  if (numbers[number % 4] != number) {
    numbers[number % 4] = number;
    sums[number % 4].clear();
  }
  return sums[number % 4];
}

}  // namespace

// What reports say of where a warp has waited or arrived.
void OrderChecker::note_point(WarpState& w, const BarrierEvent& e) const {
  using What = BarrierEvent::What;
  SyncPoint point{site(*e.warp), w.time, 0, kForever};
  if (e.what == What::bar_done) {
    point.named = e.address;
    const auto& parts = e.cta->state->named[e.address].parts;
    for (unsigned k = 0; k < parts.size(); ++k) point.warps |= uint32_t(parts[k].last != 0) << k;
  }
  switch (e.what) {
    case What::bar_arrive:
    case What::cluster_arrive:
    case What::wgmma_commit:
    case What::bulk_commit:
    case What::copy_commit:
      w.arrivals.add(point);
      break;
    case What::warp_sync:
      if (traits(*e.warp).alloc) break;  // nobody waits there
      [[fallthrough]];
    case What::bar_done:
    case What::cluster_done:
    case What::tmem_waited:
    case What::bulk_waited:
    case What::copy_waited:
    case What::wgmma_waited:
      w.waits.add(point);
      break;
    default:
      break;
  }
}

void OrderChecker::bar_arrive(ClusterState& c, WarpState& w, const BarrierEvent& e) {
  const uint64_t number = e.cta->state->named[e.address].generation;
  NamedState& n = c.cta[e.cta->rank].named[e.address];
  Sum& sum = sum_of(n.number, n.generation, number);
  if (w.init_sync && c.ctas == 1) sum.v.raise(w.init_sync, w.time);
  publish(sum, c, w, e.lanes, Reach::all);
  w.barrier_generation[e.address] = number;
}

void OrderChecker::bar_done(ClusterState& c, WarpState& w, const BarrierEvent& e) {
  NamedState& n = c.cta[e.cta->rank].named[e.address];
  const uint64_t number = w.barrier_generation[e.address];
  if (n.number[number % 4] == number) acquire(w, e.lanes, n.generation[number % 4]);
  ++w.time;
  w.learn(e.lanes);
}

// wgmma.wait_group: a group is the warpgroup's, so the other warps' products of it are over too.
void OrderChecker::wgmma_waited(ClusterState& c, WarpState& w, const BarrierEvent& e) {
  const size_t committed = w.wgmma_groups.size(), newest = static_cast<size_t>(e.amount);
  if (newest >= committed) return;
  const size_t last = committed - newest - 1;
  change(w, e.lanes, &Knowledge::v, [&](Clock& k) {
    for (unsigned id = e.warp->id & ~3u; id <= (e.warp->id | 3) && id < e.cta->warps.size(); ++id)
      if (const WarpState& other = c.of(*e.cta->warps[id]); other.wgmma && last < other.wgmma_groups.size())
        k.raise(other.wgmma, other.wgmma_groups[last]);
  });
}

// cp.async.bulk.wait_group (.read: phase) and cp.async.wait_group.
void OrderChecker::group_waited(ClusterState& c, WarpState& w, const BarrierEvent& e) const {
  auto& threads = e.what == BarrierEvent::What::bulk_waited ? c.bulk : c.copies;
  for_lanes(e.lanes, [&](unsigned l) {
    BulkThread& b = threads[w.base + l];
    b.waited[b.waits++ % b.waited.size()] = {site(*e.warp), static_cast<uint32_t>(e.amount),
                                             static_cast<uint32_t>(b.groups.size())};
    const auto newest = static_cast<size_t>(e.amount);
    if (newest >= b.groups.size() || !b.read) return;
    const uint32_t number = b.groups[b.groups.size() - 1 - newest];
    change(w, 1u << l, &Knowledge::v, [&](Clock& k) {
      k.raise(b.read, number);
      if (!e.phase && b.write) k.raise(b.write, number);
    });
  });
}

void OrderChecker::barrier(const BarrierEvent& e) {
  using What = BarrierEvent::What;
  if (e.what <= What::wait_done) return mbarrier(e);
  ClusterState& c = of(*e.cta);
  WarpState& w = c.of(*e.warp);
  note_point(w, e);
  switch (e.what) {
    case What::bar_arrive:
      bar_arrive(c, w, e);
      break;
    case What::bar_done:
      bar_done(c, w, e);
      break;
    case What::cluster_arrive:
      cluster_arrive(c, w, e);
      break;
    case What::cluster_done:
      cluster_done(c, w, e);
      break;
    case What::warp_sync:
      warp_sync(w, e.lanes);
      break;
    case What::elected:
      w.elected = together(w, e.lanes);
      ++w.time;
      break;
    case What::tmem_waited: {
      const uint32_t stream = e.amount ? w.store : w.load, number = e.amount ? w.stores : w.loads;
      (e.amount ? w.stores_waited : w.loads_waited) = number;
      if (stream) change(w, e.lanes, &Knowledge::v, [&](Clock& k) { k.raise(stream, number); });
      break;
    }
    case What::bulk_commit:
    case What::copy_commit:
      for_lanes(e.lanes, [&](unsigned l) {
        BulkThread& b = (e.what == What::bulk_commit ? c.bulk : c.copies)[w.base + l];
        b.groups.push_back(b.issued);
      });
      break;
    case What::wgmma_commit:
      // wgmma is .sync.aligned: the manual promises no order of memory by that, but kernels let one lane give
      // a slot back behind it that all lanes have read (CUTLASS, mixed-input main loops).
      warp_sync(w, e.lanes);
      w.wgmma_groups.push_back(w.wgmmas);
      break;
    case What::wgmma_waited:
      wgmma_waited(c, w, e);
      break;
    case What::bulk_waited:
    case What::copy_waited:
      group_waited(c, w, e);
      break;
    default:
      break;
  }
}

// barrier.cluster waits for the threads that have not exited (PTX ISA 9.7.13.4), so the others are over when
// it completes. ThunderKittens' allocator frees tensor memory behind a barrier that one warp comes to alone.
void OrderChecker::warp_exit(Warp& warp) {
  ClusterState& c = of(warp.cta);
  WarpState& w = c.of(warp);
  uint32_t first = 0;
  for_lanes(warp.lanes, [&](unsigned l) {
    first = std::max(first, w.thread[l].cluster_phase + w.thread[l].cluster_arrived);
  });
  publish(c.exited[first], c, w, warp.lanes, Reach::all);
}

void OrderChecker::cluster_arrive(ClusterState& c, WarpState& w, const BarrierEvent& e) {
  const bool relaxed = traits(*e.warp).relaxed;
  CtaStateOf& own = c.cta[e.cta->rank];
  uint32_t left = e.lanes;
  while (left) {  // lanes of a warp are in the same phase, nearly always
    const auto next = [&](unsigned l) { return w.thread[l].cluster_phase + w.thread[l].cluster_arrived; };
    const uint32_t phase = next(static_cast<unsigned>(std::countr_zero(left)));
    uint32_t same = 0;
    for_lanes(left, [&](unsigned l) { same |= uint32_t(next(l) == phase) << l; });
    Sum& sum = sum_of(c.cluster_number, c.cluster_barrier, phase);
    if (w.init_sync && !relaxed) sum.v.raise(w.init_sync, w.time);
    publish(sum, c, w, same, relaxed ? Reach::streams : Reach::all);
    publish(sum_of(c.ran_number, c.cluster_ran, phase), c, w, same, Reach::all);
    if (relaxed) publish(sum_of(own.relaxed_number, own.relaxed, phase), c, w, same, Reach::all);
    for_lanes(same, [&](unsigned l) { ++w.thread[l].cluster_arrived; });
    left &= ~same;
  }
}

void OrderChecker::cluster_done(ClusterState& c, WarpState& w, const BarrierEvent& e) {
  const uint32_t phase = w.thread[static_cast<unsigned>(std::countr_zero(e.lanes))].cluster_phase;
  acquire(w, e.lanes, c.cluster_barrier[phase % 4]);
  CtaStateOf& own = c.cta[e.cta->rank];
  if (own.relaxed_number[phase % 4] == phase) acquire(w, e.lanes, own.relaxed[phase % 4]);
  if (c.ran_number[phase % 4] == phase) own.behind.join(c.cluster_ran[phase % 4].v);
  for (const auto& [first, sum] : c.exited)
    if (first <= phase) acquire(w, e.lanes, sum);
  for_lanes(e.lanes, [&](unsigned l) {
    ++w.thread[l].cluster_phase;
    --w.thread[l].cluster_arrived;
  });
  ++w.time;
  w.learn(e.lanes);
}

}  // namespace fp4lab::emu
