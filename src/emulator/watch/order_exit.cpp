// What must be over when a CTA exits.
#include "emulator/watch/order.h"
#include "emulator/watch/order_found.h"
#include "emulator/watch/order_state.h"

namespace fp4lab::emu {

using namespace order;

void OrderChecker::exit_before_read(Cta& cta, const AsyncOp& op) {
  ClusterState& c = of(cta);
  const auto& s = static_cast<const OpState&>(*op.watched);
  Touch read;
  read.time = s.number, read.site = s.site, read.cluster = static_cast<uint32_t>(c.id);
  read.component = static_cast<uint16_t>(s.stream), read.issuer = static_cast<uint16_t>(s.own),
  read.mask = 0xffff;
  const Actor by(c, Knowledge(), cta.rank * c.warps * kLanes);
  Touch now = read;
  now.component = now.issuer = static_cast<uint16_t>(by.own), now.lanes = 1;
  found(Class::exit, read, by, now, {Place::Kind::shared, &cta, 0});
}

// A CTA's memory and barriers are gone when it exits: what others do there must be known to be over by then.
void OrderChecker::check_exit(Cta& cta) {
  ClusterState& c = of(cta);
  CtaStateOf& own = c.cta[cta.rank];
  Clock sum;
  const SharedClock* last = nullptr;
  for (uint32_t k = 0; k < c.warps; ++k)
    for (const ThreadState& t : c.warp[cta.rank * c.warps + k]->thread)
      if (!last || !last->same(t.v)) last = &t.v, sum.join(*t.v);
  sum.join(own.behind);
  Knowledge known;
  known.v = SharedClock(std::move(sum));
  const Clock& all = *known.v;
  const uint32_t first = cta.rank * c.warps * kLanes, end = first + c.warps * kLanes;
  Touch now;
  const Instr* i = cta.warps[0]->current();
  for (uint32_t f = 0; i && f < grid_->module.functions.size(); ++f) {
    const auto& code = grid_->module.functions[f].code;
    if (!code.empty() && i >= code.data() && i < code.data() + code.size()) now.site = site(f, *i);
  }
  now.cluster = static_cast<uint32_t>(c.id), now.lanes = 1, now.mask = 0xffff;
  now.component = now.issuer = static_cast<uint16_t>(first);
  const Actor by(c, known, first);
  auto over = [&](const Touch& t, uint32_t lanes) {
    if (!lanes) return all[t.component] >= t.time;
    bool known = true;
    for_lanes(lanes, [&](unsigned l) { known &= all[t.component + l] >= t.time; });
    return known;
  };
  for (uint32_t k = 0; own.shared && k < own.shared_cells; ++k)
    own.shared[k].each(0xffff, [&](Touch& t) {
      if (t.lanes && t.component >= first && t.component < end) return;
      if (!over(t, t.lanes)) found(Class::exit, t, by, now, {Place::Kind::shared, &cta, uint64_t(k) * 16});
    });
  for (auto& [address, b] : own.barriers)
    for (const BarrierState::Remote& r : b.remote)
      if (all[r.component] < r.time && all[b.component] < r.phase) {
        Touch t;
        t.time = r.time, t.site = r.site, t.cluster = now.cluster, t.issuer = static_cast<uint16_t>(r.issuer);
        t.component = static_cast<uint16_t>(r.thread ? r.component / kLanes * kLanes : r.component);
        t.lanes = r.thread ? 1u << r.component % kLanes : 0, t.mask = 0xff, t.flags = Touch::write;
        // The emulator lets such arrivals pass where it is tolerant, as hardware does most often. Who
        // releases to the cluster has something to hand over, and a CTA that is gone cannot take it (a launch
        // failure once in a while, facebookexperimental/triton pull request 3492).
        const Traits& arrival = traits_[r.site];
        const bool hands_over = arrival.scope && arrival.scope_spelled && !arrival.relaxed;
        const bool passes = r.thread && grid_->schedule.tolerant && !hands_over;
        found(passes ? Class::exit_arrival : Class::exit, t, by, now, {Place::Kind::shared, &cta, address});
      }
}

}  // namespace fp4lab::emu
