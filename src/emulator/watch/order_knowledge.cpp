// How lanes hand over what they know, and take in what others knew.
#include "emulator/watch/order.h"
#include "emulator/watch/order_state.h"

namespace fp4lab::emu {

using namespace order;

namespace {

// f(Knowledge&, lane) for each lane, and `field` only where it differs from the lane's before: most lanes
// share their clocks.
template <class F>
void each_clock(const WarpState& w, uint32_t lanes, const KnowledgeField& k, F&& f) {
  const SharedClock* last = nullptr;
  for_lanes(lanes, [&](unsigned l) {
    const SharedClock& c = w.thread[l].*k.known;
    if (!last || !last->same(c)) last = &c, f(c);
  });
}

}  // namespace

void OrderChecker::publish(Sum& to, ClusterState& c, WarpState& w, uint32_t lanes, Reach reach) {
  const uint32_t first = reach == Reach::all ? 0 : c.threads;
  const auto join = [&](Clock& into, const Clock& from) {
    if (reach != Reach::narrow_streams) return into.join(from, first);
    for (uint32_t k = first; k < from.at.size(); ++k)
      if (c.streams[k - c.threads].kind != Stream::mbarrier && from.at[k]) into.raise(k, from.at[k]);
  };
  for (const KnowledgeField& k : kFields)
    each_clock(w, lanes, k, [&](const SharedClock& clock) {
      if (clock) join(to.*k.sum, *clock);
    });
  if (reach == Reach::all) raise_own(to, w, lanes);
  ++w.time;
}

// What `lanes` have done themselves, up to now.
void OrderChecker::raise_own(Sum& to, const WarpState& w, uint32_t lanes) {
  for_lanes(lanes, [&](unsigned l) {
    to.v.raise(w.base + l, w.time);
    if (w.thread[l].fenced) to.f.raise(w.base + l, w.thread[l].fenced);
  });
}

void OrderChecker::acquire(WarpState& w, uint32_t lanes, const SharedClock& from,
                           SharedClock Knowledge::*field, uint32_t first) {
  if (!from) return;
  uint32_t news = 0;
  const SharedClock* last = nullptr;
  bool covered = false;
  for_lanes(lanes, [&](unsigned l) {
    const SharedClock& c = w.thread[l].*field;
    if (!last || !last->same(c)) last = &c, covered = c->covers(*from, first);
    if (!covered) news |= 1u << l;
  });
  if (news) change(w, news, field, [&](Clock& c) { c.join(*from, first); });
}

void OrderChecker::acquire(WarpState& w, uint32_t lanes, const Knowledge& from, uint32_t first) {
  for (const KnowledgeField& k : kFields) acquire(w, lanes, from.*k.known, k.known, first);
}

void OrderChecker::acquire(WarpState& w, uint32_t lanes, const Sum& from) {
  for (const KnowledgeField& k : kFields)
    if (const Clock& news = from.*k.sum; !news.at.empty() || news.foreign)
      change(w, lanes, k.known, [&](Clock& c) { c.join(news); });
}

// What `lanes` know, all of them together, and have done.
Knowledge OrderChecker::together(const WarpState& w, uint32_t lanes) {
  Sum all;
  for (const KnowledgeField& k : kFields)
    each_clock(w, lanes, k, [&](const SharedClock& clock) {
      if (clock) (all.*k.sum).join(*clock);
    });
  raise_own(all, w, lanes);
  return settled(std::move(all));
}

void OrderChecker::warp_sync(WarpState& w, uint32_t lanes) {
  const Knowledge known = together(w, lanes);
  for_lanes(lanes, [&](unsigned l) { static_cast<Knowledge&>(w.thread[l]) = known; });
  ++w.time;
  w.learn(lanes);
}

}  // namespace fp4lab::emu
