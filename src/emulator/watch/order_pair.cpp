// Tensor memory of CTA pairs (PTX ISA 9.7.16.7.1): "the issuing warp must make sure that peer CTA is
// launched", and the pair is to be synchronised before it frees. The instruction shakes hands through the
// other CTA's shared memory, which is not there before that CTA runs; and one that frees before the other has
// come out of its allocation takes the columns from under it (a launch failure on hardware, NVIDIA/cutlass
// #3435).
#include <algorithm>
#include <bit>

#include "emulator/core/cta_state.h"
#include "emulator/watch/order_found.h"

namespace fp4lab::emu {

using namespace order;

namespace {

// Whether the warp knows that what `t` stands for has run: a relaxed barrier is enough.
bool knows(const ClusterState& c, const WarpState& w, uint32_t lanes, uint32_t rank, const Touch& t) {
  bool known = false;
  const auto seen = [&](const Clock& clock) {
    for_lanes(t.lanes, [&](unsigned l) { known |= clock[t.component + l] >= t.time; });
  };
  for_lanes(lanes, [&](unsigned l) { seen(*w.thread[l].v), seen(*w.thread[l].lax_v); });
  seen(c.cta[rank].behind);
  return known;
}

// Any thread of the CTA: whoever knows that it has done something knows that the CTA runs.
Touch anything_of(const ClusterState& c, uint32_t rank, uint32_t warp) {
  Touch t;
  t.time = 1, t.lanes = ~0u;
  t.component = static_cast<uint16_t>((rank * c.warps + warp) * kLanes);
  return t;
}

}  // namespace

void OrderChecker::pair_allocates(const TmemAccess& a, ClusterState& c, const Touch& now) {
  const uint32_t rank = a.cta->rank, peer = rank ^ 1;
  CtaStateOf& own = c.cta[rank];
  const bool first = own.pair_allocation.time == 0;
  auto& mine = own.pair[a.column0].allocations;
  mine.push_back(now);
  const WarpState& w = c.of(*a.warp);
  bool runs = !first;  // the first one has shaken hands
  for (uint32_t warp = 0; warp < c.warps && !runs; ++warp)
    runs = knows(c, w, now.lanes, rank, anything_of(c, peer, warp));
  if (!runs) own.blind.push_back({a.column0, static_cast<uint32_t>(mine.size()), false, now});
  tell_blind(*a.cta, c, rank);
  tell_blind(*a.cta, c, peer);
}

void OrderChecker::pair_frees(const TmemAccess& a, ClusterState& c, const Touch& now) {
  const uint32_t rank = a.cta->rank, peer = rank ^ 1;
  const uint32_t number = ++c.cta[rank].pair[a.column0].freed;
  const auto& theirs = c.cta[peer].pair[a.column0].allocations;
  if (theirs.size() >= number && knows(c, c.of(*a.warp), now.lanes, rank, theirs[number - 1])) return;
  c.cta[rank].blind.push_back({a.column0, number, true, now});
  tell_blind(*a.cta, c, rank);
}

// What the CTA `rank` did, once the other one's allocation of these columns is there to be named.
void OrderChecker::tell_blind(const Cta& any, ClusterState& c, uint32_t rank) {
  auto& theirs = c.cta[rank ^ 1].pair;
  std::erase_if(c.cta[rank].blind, [&](const CtaStateOf::Blind& b) {
    const auto& allocations = theirs[b.column].allocations;
    if (allocations.size() < b.number) return false;
    const WarpState& w = *c.warp[b.touch.component / kLanes];
    const Actor by(c, w.thread[static_cast<unsigned>(std::countr_zero(b.touch.lanes))], b.touch.component);
    Touch other = allocations[b.number - 1];
    other.mask = 0xff;
    Touch now = b.touch;
    now.mask = 0xff;
    found(b.frees ? Class::pair_dealloc : Class::pair_alloc, other, by, now,
          {Place::Kind::tmem, any.cluster.ctas[rank].get(), b.column});
    return true;
  });
}

}  // namespace fp4lab::emu
