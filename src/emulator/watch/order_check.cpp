// Accesses against the earlier ones of the same bytes.
#include <bit>

#include "emulator/watch/order_found.h"

namespace fp4lab::emu {

using namespace order;

namespace {

bool behind_threads(const Touch& t, uint32_t lanes, const Actor& a, const Clock& clock, uint32_t own_time) {
  bool all = true;
  if (t.cluster != a.cluster->id) {
    for_lanes(lanes, [&](unsigned l) { all &= clock.of(t.cluster, t.component + l) >= t.time; });
    return all;
  }
  for_lanes(lanes, [&](unsigned l) {
    const uint32_t c = t.component + l;
    all &= (c == a.own ? own_time : clock[c]) >= t.time || (c == a.own && clock[c] >= t.time);
  });
  return all;
}

}  // namespace

Actor OrderChecker::actor(ClusterState& c, const OpState& s) {
  return {&c,    &*s.v,      &*s.f,    &*s.after,
          s.own, s.own_time, s.fenced, s.kind == OpKind::pipe ? s.stream : kNobody,
          true};
}

// Is `t` over before what the actor does?
static bool behind(const Touch& t, uint32_t lanes, const Actor& a) {
  if (t.lanes) return behind_threads(t, lanes, a, *a.v, a.own_time);
  if (t.component == a.pipe && t.cluster == a.cluster->id) return true;
  return (t.cluster == a.cluster->id ? (*a.v)[t.component] : a.v->of(t.cluster, t.component)) >= t.time;
}

void OrderChecker::check(Touch& before, const Actor& a, const Touch& now, const Place& place, bool map) {
  if (before.is(Touch::strong) && now.is(Touch::strong)) return;
  // One instruction of several lanes: what they write to the same place at once is theirs to know.
  if (before.lanes && before.site == now.site && before.time == now.time &&
      before.component == now.component && before.cluster == now.cluster)
    return;
  const uint32_t lanes = before.lanes_of(before.mask & now.mask);
  if (!behind(before, lanes, a)) return found(Class::race, before, a, now, place);
  if (place.kind == Place::Kind::tmem) {
    if (before.lanes) return;
    if (before.component == a.pipe && before.cluster == a.cluster->id) {
      if (now.is(Touch::cp) && !before.is(Touch::cp) && !before.is(Touch::write) &&
          (*a.v)[before.component] < before.time)
        found(Class::cp_after_mma, before, a, now, place);
      return;
    }
    const StreamInfo& s = a.cluster->streams[before.component - a.cluster->threads];
    if (s.kind == Stream::pipe) {
      if (a.after && (*a.after)[before.component] < before.time)
        found(Class::tcgen05_fence, before, a, now, place);
    } else if (s.other && now.component != before.component) {
      // The same warp needs no fence.
      const uint32_t warp = a.own / kLanes, theirs = s.cta * a.cluster->warps + s.id;
      if (warp != theirs && ((*a.v)[s.other] < before.time || (a.after && (*a.after)[s.other] < before.time)))
        found(Class::tcgen05_fence, before, a, now, place);
    }
    return;
  }
  if (!before.lanes || !a.async) return;
  if (map) {
    if (!before.is(Touch::map_acquired)) found(Class::tensor_map, before, a, now, place);
    return;
  }
  if (behind_threads(before, lanes, a, *a.f, a.fenced)) return;
  found(before.is(Touch::write) ? Class::proxy : Class::proxy_after_read, before, a, now, place);
}

void OrderChecker::visit(Cell& cell, const Actor& a, const Touch& now, const Place& place, bool map) {
  const bool write = now.is(Touch::write);
  cell.each(now.mask, [&](Touch& before) {
    if (write || before.is(Touch::write)) check(before, a, now, place, map);
  });
  if (write) cell.forget(now.mask);
  cell.add(now);
}

void OrderChecker::range(const Actor& a, Touch now, Space space, const Cta* owner, uint64_t address,
                         uint32_t bytes, bool map) {
  const uint8_t width = now.lanes && bytes < 16 ? static_cast<uint8_t>(bytes) : 0;
  while (bytes) {
    const uint32_t at = address % 16, n = std::min(bytes, 16 - at);
    now.mask = static_cast<uint16_t>(((1u << n) - 1) << at);
    now.width = n == width ? width : 0;
    if (now.lanes && !now.width) now.width = static_cast<uint8_t>(n);
    if (space == Space::shared) {
      CtaStateOf& cta = a.cluster->cta[owner->rank];
      const uint64_t index = address / 16;
      if (cta.shared && index < cta.shared_cells)
        visit(cta.shared[index], a, now, {Place::Kind::shared, owner, address - at}, map);
    } else {
      const uint64_t page = address / Global::kPage;
      const bool write = now.is(Touch::write);
      if (write || global_->possible(page)) {
        Global::Shard& shard = global_->shard(page);
        std::lock_guard lock(shard.mutex);
        auto it = shard.pages.find(page);
        if (it == shard.pages.end() && write) {
          it = shard.pages.emplace(page, std::make_unique<Global::Page>()).first;
          global_->maybe[Global::hash(page)].store(1, std::memory_order_relaxed);
        }
        if (it != shard.pages.end())
          visit(it->second->cell[address % Global::kPage / 16], a, now,
                {Place::Kind::global, nullptr, address - at}, map);
      }
    }
    address += n;
    bytes -= n;
  }
}

void OrderChecker::access(const Access& a) {
  if (a.space != Space::shared && a.space != Space::global) return;
  if (!a.op) return generic(a);
  auto* s = static_cast<OpState*>(a.op->watched.get());
  if (!s || s->kind == OpKind::unknown) return;
  ClusterState& c = of(*a.op->cta);
  if (a.space == Space::global && a.kind == AccessKind::read &&
      !global_->possible(a.address / Global::kPage) &&
      !global_->possible((a.address + a.bytes - 1) / Global::kPage))
    return;
  if (s->kind == OpKind::delivery) {
    s->delivered.push_back(a);
    return;
  }
  const bool write = a.kind != AccessKind::read;
  Touch now;
  now.time = s->number;
  now.component = static_cast<uint16_t>(s->kind == OpKind::bulk_store && write ? s->write_stream : s->stream);
  now.site = s->site, now.cluster = static_cast<uint32_t>(c.id), now.issuer = static_cast<uint16_t>(s->own);
  now.flags =
      static_cast<uint8_t>(Touch::async | (write ? Touch::write : 0) |
                           (a.kind == AccessKind::atomic ? Touch::strong : 0) | (s->copy ? Touch::cp : 0));
  range(actor(c, *s), now, a.space, a.cta, a.address, a.bytes, a.proxy == Proxy::tensormap);
}

// What a copy did becomes known with the phase of the mbarrier that counts its bytes.
void OrderChecker::deliver(OpState& s, ClusterState& c, uint32_t stream, uint32_t number) {
  const Actor by = actor(c, s);
  for (const Access& a : s.delivered) {
    Touch now;
    now.time = number;
    now.component = static_cast<uint16_t>(stream);
    now.site = s.site, now.cluster = static_cast<uint32_t>(c.id), now.issuer = static_cast<uint16_t>(s.own);
    now.flags = static_cast<uint8_t>(Touch::async | (a.kind != AccessKind::read ? Touch::write : 0) |
                                     (a.kind == AccessKind::atomic ? Touch::strong : 0));
    range(by, now, a.space, a.cta, a.address, a.bytes, a.proxy == Proxy::tensormap);
  }
  s.delivered.clear();
}

void OrderChecker::generic(const Access& a) {
  ClusterState& c = of(a.warp->cta);
  WarpState& w = c.of(*a.warp);
  const ThreadState& t = w.thread[a.lane];
  if (a.strong) synchronise(a, w);
  Touch now;
  now.time = w.time;
  now.lanes = 1u << a.lane;
  now.component = static_cast<uint16_t>(w.base);
  now.site = site(*a.warp), now.cluster = static_cast<uint32_t>(c.id),
  now.issuer = static_cast<uint16_t>(w.base + a.lane);
  now.flags =
      static_cast<uint8_t>((a.kind != AccessKind::read ? Touch::write : 0) | (a.strong ? Touch::strong : 0));
  const Actor by{&c, &*t.v, &*t.f, nullptr, w.base + a.lane, kForever, kForever};
  range(by, now, a.space, a.cta, a.address, a.bytes, false);
  if (a.strong && a.kind != AccessKind::read) ++w.time;
}

// A strong access of a flag or counter: what its release publishes and its acquire takes in.
void OrderChecker::synchronise(const Access& a, WarpState& w) {
  ClusterState& c = of(a.warp->cta);
  ThreadState& t = w.thread[a.lane];
  const Traits& m = traits(*a.warp);
  std::unique_lock<std::mutex> lock;
  SyncVariable* x;
  if (a.space == Space::global) {
    lock = std::unique_lock(global_->mutex);
    x = &global_->variables[a.address];
  } else {
    x = &c.shared_variables[uint64_t(a.cta->rank) << 32 | a.address];
  }
  auto split = [&](const Foreign& from, Clock& into) {
    for (const auto& [cluster, ticks] : from)
      if (cluster == c.id) {
        join_ticks(into.at, ticks);
      } else {
        Foreign one;
        one[cluster] = ticks;
        into.join(one);
      }
  };
  if (a.kind != AccessKind::write && !x->v.empty()) {
    if (m.acquire) {
      Clock v = *t.v, f = *t.f;
      split(x->v, v);
      split(x->f, f);
      t.v = SharedClock(std::move(v));
      t.f = SharedClock(std::move(f));
    } else {
      Clock v = *t.observed;
      split(x->v, v);
      t.observed = SharedClock(std::move(v));
    }
  }
  if (a.kind == AccessKind::read) return;
  const uint32_t self = w.base + a.lane;
  auto give = [&](const Clock& v, uint32_t time, Foreign& to) {
    Ticks& mine = to[c.id];
    join_ticks(mine, v.at);
    if (mine.size() <= self) mine.resize(self + 1);
    mine[self] = std::max(mine[self], time);
    if (v.foreign)
      for (const auto& [cluster, ticks] : *v.foreign) join_ticks(to[cluster], ticks);
  };
  if (m.release) {
    give(*t.v, w.time, x->v);
    give(*t.f, t.fenced, x->f);
  } else if (t.released_at) {
    give(*t.released, t.released_at, x->v);
    give(*t.relfenced, t.fenced, x->f);
  }
}

void OrderChecker::tmem(const TmemAccess& a) {
  ClusterState& c = of(*a.cta);
  auto& cells = c.cta[a.cta->rank].tmem;
  if (!cells) cells = std::make_unique<Cell[]>(512);
  Touch now;
  now.cluster = static_cast<uint32_t>(c.id);
  now.flags = a.write ? Touch::write : 0;
  const unsigned first = a.lane0 / 16, last = (a.lane0 + a.lanes + 15) / 16;
  now.mask = static_cast<uint16_t>(((1u << last) - 1) & ~((1u << first) - 1));
  Actor by;
  if (a.op) {
    const auto* s = static_cast<const OpState*>(a.op->watched.get());
    if (!s || s->kind == OpKind::unknown) return;
    by = actor(c, *s);
    now.time = s->number;
    now.component = static_cast<uint16_t>(s->stream);
    now.site = s->site, now.issuer = static_cast<uint16_t>(s->own);
    now.flags |= Touch::async | (s->copy ? Touch::cp : 0);
  } else {  // tcgen05.dealloc
    WarpState& w = c.of(*a.warp);
    const ThreadState& t = w.thread[static_cast<unsigned>(std::countr_zero(a.warp->active))];
    by = {&c, &*t.v, &*t.f, &*t.after, w.base, kForever, kForever};
    now.time = w.time;
    now.component = static_cast<uint16_t>(w.base), now.lanes = 1;
    now.site = site(*a.warp), now.issuer = static_cast<uint16_t>(w.base);
  }
  for (unsigned column = a.column0; column < a.column0 + a.columns && column < 512; ++column) {
    visit(cells[column], by, now, {Place::Kind::tmem, a.cta, column}, false);
    if (!a.op) cells[column].forget(0xffff);
  }
}

// fence.proxy.tensormap::generic.acquire [map], 128: from now on the tensor-map proxy sees the edits that are
// ordered before it.
void OrderChecker::fence_of_map(Warp& warp, const Instr& i) {
  ClusterState& c = of(warp.cta);
  WarpState& w = c.of(warp);
  for_lanes(warp.active, [&](unsigned l) {
    const ThreadState& t = w.thread[l];
    const Actor a{&c, &*t.v, &*t.f, nullptr, w.base + l, kForever, kForever};
    const uint64_t address = warp.address(i.op[0], l);
    const uint64_t page = address / Global::kPage;
    if (!global_->possible(page)) return;
    Global::Shard& shard = global_->shard(page);
    std::lock_guard lock(shard.mutex);
    const auto it = shard.pages.find(page);
    if (it == shard.pages.end()) return;
    for (uint64_t at = address; at < address + 128; at += 16)
      it->second->cell[at % Global::kPage / 16].each(0xffff, [&](Touch& before) {
        if (before.is(Touch::write) && before.lanes && behind(before, before.lanes, a))
          before.flags |= Touch::map_acquired;
      });
  });
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
  if (ordered && (!a.async || fenced)) return;
  Touch before, now;
  before.time = b.init_time, before.lanes = 1u << b.init_thread % kLanes,
  before.component = static_cast<uint16_t>(b.init_thread / kLanes * kLanes);
  before.site = b.init_site, before.cluster = now.cluster = static_cast<uint32_t>(a.cluster->id),
  before.flags = Touch::write;
  now.site = where, now.issuer = static_cast<uint16_t>(a.own), now.flags = a.async ? Touch::async : 0;
  now.lanes = a.async ? 0 : 1u << a.own % kLanes,
  now.component = static_cast<uint16_t>(a.own / kLanes * kLanes);
  before.issuer = static_cast<uint16_t>(b.init_thread);
  found(ordered ? Class::init_fence : Class::init, before, a, now, {Place::Kind::shared, &cta, address});
}

}  // namespace fp4lab::emu
