// How knowledge passes between threads, operations and barriers.
#include "emulator/watch/order.h"

#include "emulator/engine/state.h"
#include "emulator/watch/order_found.h"
#include "emulator/watch/order_state.h"

namespace fp4lab::emu {

using namespace order;

Traits order::traits_of(const Source& s) {
  Traits t;
  // Atomics without a scope are .gpu, everything else without one .cta.
  if (!s.tokens.empty() && (s.tokens[0] == "atom" || s.tokens[0] == "red")) t.scope = 2;
  if (!s.tokens.empty() && s.tokens[0] == "membar") t.scope = 2;
  for (const std::string_view m : s.tokens) {
    if (m == "acquire" || m == "acq_rel") t.acquire = true;
    if (m == "release" || m == "acq_rel") t.release = true;
    if (m == "relaxed") t.relaxed = true;
    if (m == "cta") t.scope = 0;
    if (m == "cluster") t.scope = 1;
    if (m == "gpu" || m == "sys" || m == "volatile") t.scope = 2;
  }
  if (s.tokens.empty()) return t;
  const std::string_view first = s.tokens[0];
  if (first == "fence" || first == "membar") {
    t.fence = Traits::memory;
    if (s.has("proxy"))
      t.fence = s.has("async") || s.has("async::generic")         ? Traits::proxy_async
                : s.has("tensormap::generic") && s.has("acquire") ? Traits::map_acquire
                                                                  : Traits::none;
    if (s.has("mbarrier_init")) t.fence = Traits::mbarrier_init;
  } else if (first == "tensormap" && s.has("cp_fenceproxy")) {
    t.fence = Traits::map_copy;
  } else if (first == "tcgen05") {
    if (s.has("fence::before_thread_sync")) t.fence = Traits::before_sync;
    if (s.has("fence::after_thread_sync")) t.fence = Traits::after_sync;
    t.copy = s.has("cp");
    t.alloc = s.has("alloc");
  }
  return t;
}

OrderChecker::OrderChecker() : global_(std::make_unique<Global>()), found_(std::make_unique<Found>()) {}
OrderChecker::~OrderChecker() = default;

void OrderChecker::launch_begin(const Grid& grid) {
  grid_ = &grid;
  global_->clear();
  found_->clear();
  errors_ = notes_ = 0;
  code_base_.clear();
  traits_.clear();
  for (const Function& f : grid.module.functions) {
    code_base_.push_back(static_cast<uint32_t>(traits_.size()));
    for (const Source& s : f.source) traits_.push_back(traits_of(s));
  }
  clusters_.clear();
  clusters_.resize(grid.config.grid.count() / grid.config.cluster.count());
}

void OrderChecker::launch_end(const Grid& grid) {
  found_->finish(grid);
  clusters_.clear();
  global_->clear();
  grid_ = nullptr;
}

void OrderChecker::cta_start(Cta& cta) {
  auto& slot = clusters_[cta.cluster.id];
  if (!slot) {
    slot = std::make_unique<ClusterState>();
    ClusterState& c = *slot;
    c.id = cta.cluster.id;
    c.ctas = static_cast<uint32_t>(cta.cluster.ctas.size());
    c.warps = static_cast<uint32_t>(cta.warps.size());
    c.threads = c.ctas * c.warps * kLanes;
    c.cta.resize(c.ctas);
    for (uint32_t k = 0; k < c.ctas * c.warps; ++k) {
      c.warp.push_back(std::make_unique<WarpState>());
      c.warp.back()->base = k * kLanes;
    }
  }
  ++slot->live;
  CtaStateOf& own = slot->cta[cta.rank];
  own.shared_cells = static_cast<uint32_t>((cta.shared.size() + 15) / 16);
  own.shared = std::make_unique<Cell[]>(own.shared_cells);
}

void OrderChecker::cta_exit(Cta& cta) {
  check_exit(cta);
  auto& slot = clusters_[cta.cluster.id];
  slot->cta[cta.rank].shared.reset();
  slot->cta[cta.rank].tmem.reset();
  if (--slot->live == 0 && slot->operations == 0) slot.reset();
}

ClusterState& OrderChecker::of(const Cta& cta) { return *clusters_[cta.cluster.id]; }

uint32_t OrderChecker::site(uint32_t function, const Instr& i) const { return code_base_[function] + i.pc; }
uint32_t OrderChecker::site(const Warp& w) const { return site(w.group->function, *w.current()); }
const Traits& OrderChecker::traits(const Warp& w) const { return traits_[site(w)]; }

namespace {

// Changes the clock `field` of every lane; lanes that shared one share the new one.
template <class F>
void change(WarpState& w, uint32_t lanes, SharedClock ThreadState::*field, F&& f) {
  SharedClock from, to;
  bool have = false;
  for_lanes(lanes, [&](unsigned l) {
    SharedClock& c = w.thread[l].*field;
    if (!have || !c.same(from)) {
      Clock clock = *c;
      f(clock);
      from = c;
      to = SharedClock(std::move(clock));
      have = true;
    }
    c = to;
  });
}

template <class Numbers, class Sums>
Sum& sum_of(Numbers& numbers, Sums& sums, uint64_t number) {
  if (numbers[number % 4] != number) {
    numbers[number % 4] = number;
    sums[number % 4].clear();
  }
  return sums[number % 4];
}

}  // namespace

void OrderChecker::publish(Sum& to, ClusterState& c, WarpState& w, uint32_t lanes, Reach reach) {
  const uint32_t first = reach == Reach::all ? 0 : c.threads;
  const auto join = [&](Clock& into, const Clock& from) {
    if (reach != Reach::narrow_streams) return into.join(from, first);
    for (uint32_t k = first; k < from.at.size(); ++k)
      if (c.streams[k - c.threads].kind != Stream::mbarrier && from.at[k]) into.raise(k, from.at[k]);
  };
  const SharedClock *v = nullptr, *f = nullptr;
  for_lanes(lanes, [&](unsigned l) {
    const ThreadState& t = w.thread[l];
    if (!v || !v->same(t.v)) v = &t.v, join(to.v, *t.v);
    if (!f || !f->same(t.f)) f = &t.f, join(to.f, *t.f);
    if (reach != Reach::all) return;
    to.v.raise(w.base + l, w.time);
    if (t.fenced) to.f.raise(w.base + l, t.fenced);
  });
  ++w.time;
}

void OrderChecker::acquire(WarpState& w, uint32_t lanes, const SharedClock& v, const SharedClock& f,
                           uint32_t first) {
  auto take = [&](const SharedClock& from, SharedClock ThreadState::*field) {
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
  };
  take(v, &ThreadState::v);
  take(f, &ThreadState::f);
}

void OrderChecker::warp_sync(WarpState& w, uint32_t lanes) {
  Clock v, f;
  const SharedClock *last_v = nullptr, *last_f = nullptr;
  for_lanes(lanes, [&](unsigned l) {
    const ThreadState& t = w.thread[l];
    if (!last_v || !last_v->same(t.v)) last_v = &t.v, v.join(*t.v);
    if (!last_f || !last_f->same(t.f)) last_f = &t.f, f.join(*t.f);
  });
  for_lanes(lanes, [&](unsigned l) {
    v.raise(w.base + l, w.time);
    if (w.thread[l].fenced) f.raise(w.base + l, w.thread[l].fenced);
  });
  const SharedClock all_v(std::move(v)), all_f(std::move(f));
  for_lanes(lanes, [&](unsigned l) { w.thread[l].v = all_v, w.thread[l].f = all_f; });
  ++w.time;
}

void OrderChecker::barrier(const BarrierEvent& e) {
  using What = BarrierEvent::What;
  if (e.what <= What::wait_done) return mbarrier(e);
  ClusterState& c = of(*e.cta);
  WarpState& w = c.of(*e.warp);
  switch (e.what) {
    case What::bar_arrive: {
      const uint64_t number = e.cta->state->named[e.address].generation;
      NamedState& n = c.cta[e.cta->rank].named[e.address];
      publish(sum_of(n.number, n.generation, number), c, w, e.lanes, Reach::all);
      w.barrier_generation[e.address] = number;
      break;
    }
    case What::bar_done: {
      NamedState& n = c.cta[e.cta->rank].named[e.address];
      const uint64_t number = w.barrier_generation[e.address];
      if (n.number[number % 4] != number) break;
      const Sum& s = n.generation[number % 4];
      change(w, e.lanes, &ThreadState::v, [&](Clock& k) { k.join(s.v); });
      change(w, e.lanes, &ThreadState::f, [&](Clock& k) { k.join(s.f); });
      break;
    }
    case What::cluster_arrive: {
      const bool relaxed = traits(*e.warp).relaxed;
      uint32_t left = e.lanes;
      while (left) {  // lanes of a warp are in the same phase, nearly always
        const uint32_t phase = w.thread[static_cast<unsigned>(std::countr_zero(left))].cluster_phase;
        uint32_t same = 0;
        for_lanes(left, [&](unsigned l) { same |= uint32_t(w.thread[l].cluster_phase == phase) << l; });
        publish(sum_of(c.cluster_number, c.cluster_barrier, phase), c, w, same,
                relaxed ? Reach::streams : Reach::all);
        CtaStateOf& own = c.cta[e.cta->rank];
        publish(sum_of(c.ran_number, c.cluster_ran, phase), c, w, same, Reach::all);
        if (relaxed) publish(sum_of(own.relaxed_number, own.relaxed, phase), c, w, same, Reach::all);
        left &= ~same;
      }
      break;
    }
    case What::cluster_done: {
      const uint32_t phase = w.thread[static_cast<unsigned>(std::countr_zero(e.lanes))].cluster_phase;
      const Sum& s = c.cluster_barrier[phase % 4];
      change(w, e.lanes, &ThreadState::v, [&](Clock& k) { k.join(s.v); });
      change(w, e.lanes, &ThreadState::f, [&](Clock& k) { k.join(s.f); });
      CtaStateOf& own = c.cta[e.cta->rank];
      if (own.relaxed_number[phase % 4] == phase)
        for (const auto field : {&ThreadState::v, &ThreadState::f}) {
          const Sum& mine = own.relaxed[phase % 4];
          change(w, e.lanes, field, [&](Clock& k) { k.join(field == &ThreadState::v ? mine.v : mine.f); });
        }
      if (c.ran_number[phase % 4] == phase) own.behind.join(c.cluster_ran[phase % 4].v);
      for_lanes(e.lanes, [&](unsigned l) { ++w.thread[l].cluster_phase; });
      break;
    }
    case What::warp_sync:
      warp_sync(w, e.lanes);
      break;
    case What::tmem_waited: {
      const uint32_t stream = e.amount ? w.store : w.load, number = e.amount ? w.stores : w.loads;
      (e.amount ? w.stores_waited : w.loads_waited) = number;
      if (stream) change(w, e.lanes, &ThreadState::v, [&](Clock& k) { k.raise(stream, number); });
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
      if (const size_t committed = w.wgmma_groups.size(), newest = static_cast<size_t>(e.amount);
          newest < committed) {  // a group is the warpgroup's
        const size_t last = committed - newest - 1;
        change(w, e.lanes, &ThreadState::v, [&](Clock& k) {
          for (unsigned id = e.warp->id & ~3u; id <= (e.warp->id | 3) && id < e.cta->warps.size(); ++id)
            if (const WarpState& other = c.of(*e.cta->warps[id]);
                other.wgmma && last < other.wgmma_groups.size())
              k.raise(other.wgmma, other.wgmma_groups[last]);
        });
      }
      break;
    case What::bulk_waited:
    case What::copy_waited:
      for_lanes(e.lanes, [&](unsigned l) {
        BulkThread& b = (e.what == What::bulk_waited ? c.bulk : c.copies)[w.base + l];
        if (static_cast<size_t>(e.amount) >= b.groups.size() || !b.read) return;
        const uint32_t number = b.groups[b.groups.size() - 1 - static_cast<size_t>(e.amount)];
        change(w, 1u << l, &ThreadState::v, [&](Clock& k) {
          k.raise(b.read, number);
          if (!e.phase && b.write) k.raise(b.write, number);
        });
      });
      break;
    default:
      break;
  }
}

void OrderChecker::mbarrier(const BarrierEvent& e) {
  using What = BarrierEvent::What;
  ClusterState& c = of(*e.cta);
  BarrierState& b = c.cta[e.cta->rank].barriers[e.address];
  if (!b.component) {
    b.component = c.stream(Stream::mbarrier, e.cta->rank, e.address);
    const uint32_t narrow = c.stream(Stream::mbarrier_narrow, e.cta->rank, e.address);
    c.streams[b.component - c.threads].other = narrow;
  }
  const auto* op = e.op ? static_cast<OpState*>(e.op->watched.get()) : nullptr;
  auto thread_check = [&] {
    WarpState& w = c.of(*e.warp);
    const unsigned l = static_cast<unsigned>(std::countr_zero(e.lanes));
    const ThreadState& t = w.thread[l];
    const Actor a{&c, &*t.v, &*t.f, nullptr, w.base + l, kForever, kForever};
    check_init(b, a, *e.cta, e.address, site(*e.warp));
  };
  auto remote = [&](const BarrierState::Remote& r) {
    for (BarrierState::Remote& old : b.remote)
      if (old.component == r.component) {
        old = r;
        return;
      }
    b.remote.push_back(r);
  };
  switch (e.what) {
    case What::init: {
      WarpState& w = c.of(*e.warp);
      b.init_thread = w.base + static_cast<unsigned>(std::countr_zero(e.lanes));
      b.init_time = w.time;
      b.init_site = site(*e.warp);
      b.fence = b.fence_time = 0;
      b.pending.clear(), b.pending_wide.clear();
      b.v = b.f = b.wide_v = b.wide_f = {};
      b.any_wide = b.any_ran = false;
      b.pending_ran.clear();
      b.ran = {};
      b.remote.clear();
      ++w.time;
      break;
    }
    case What::arrive:
      if (op) {
        if (op->kind != OpKind::copy_arrival) check_init(b, actor(c, *op), *e.cta, e.address, op->site);
        if (op->kind == OpKind::copy_arrival) {
          const OpState::Lane& lane = op->lanes[e.op->lane];
          const Actor a{&c, &*lane.v, &*lane.f, nullptr, op->own + e.op->lane, kForever, kForever};
          check_init(b, a, *e.cta, e.address, op->site);
          b.pending.v.join(*lane.v);
          b.pending.f.join(*lane.f);
          b.pending.v.raise(op->own + e.op->lane, op->own_time);
          if (lane.stream) b.pending.v.raise(lane.stream, lane.number);
          break;
        }
        if (op->stream && op->own / kLanes / c.warps != e.cta->rank)
          remote({op->stream, op->number, op->site, op->own, false, b.completed + 1});
        // Whoever waits for a commit comes after all that led to the committed operations.
        b.pending.v.join(*op->v);
        b.pending.f.join(*op->f);
        b.pending.v.raise(op->own, op->own_time);
        if (op->fenced) b.pending.f.raise(op->own, op->fenced);
        if (op->stream) b.pending.v.raise(op->stream, op->number);
        break;
      }
      thread_check();
      {
        WarpState& w = c.of(*e.warp);
        const Traits& t = traits(*e.warp);
        const bool other = e.cta != &e.warp->cta;
        if (other) {
          const uint32_t thread = w.base + static_cast<unsigned>(std::countr_zero(e.lanes));
          remote({thread, w.time, site(*e.warp), thread, true, b.completed + 1});
        }
        if (other) {
          publish(b.pending_ran, c, w, e.lanes, Reach::all);
          --w.time;  // one arrival is one step
          b.any_ran = true;
        }
        if (other && t.scope && !t.relaxed) {
          publish(b.pending_wide, c, w, e.lanes, Reach::all);
          b.any_wide = true;
        }
        publish(b.pending, c, w, e.lanes,
                other       ? Reach::narrow_streams
                : t.relaxed ? Reach::streams
                            : Reach::all);
      }
      break;
    case What::expect_tx:
      thread_check();
      break;
    case What::complete_tx:
      if (!op) {
        thread_check();
        break;
      }
      check_init(b, actor(c, *op), *e.cta, e.address, op->site);
      deliver(const_cast<OpState&>(*op), c, b.component, b.completed + 1);
      break;
    case What::phase: {
      ++b.completed;
      Clock v = *b.v, f = *b.f;
      v.join(b.pending.v);
      f.join(b.pending.f);
      v.raise(b.component, b.completed);
      v.raise(c.streams[b.component - c.threads].other, b.completed);
      b.v = SharedClock(std::move(v));
      b.f = SharedClock(std::move(f));
      if (b.any_wide) {
        Clock wv = *b.wide_v, wf = *b.wide_f;
        wv.join(b.pending_wide.v);
        wf.join(b.pending_wide.f);
        b.wide_v = SharedClock(std::move(wv));
        b.wide_f = SharedClock(std::move(wf));
        b.pending_wide.clear();
      }
      b.pending.clear();
      if (b.any_ran) {
        Clock ran = *b.ran;
        ran.join(b.pending_ran.v);
        b.ran = SharedClock(std::move(ran));
        b.pending_ran.clear();
      }
      break;
    }
    case What::wait_done: {
      thread_check();
      WarpState& w = c.of(*e.warp);
      const Traits& t = traits(*e.warp);
      const uint32_t first = t.relaxed ? c.threads : 0;
      acquire(w, e.lanes, b.v, b.f, first);
      if (b.any_wide && t.scope) acquire(w, e.lanes, b.wide_v, b.wide_f, first);
      if (b.any_ran) c.cta[e.warp->cta.rank].behind.join(*b.ran);
      break;
    }
    default:
      break;
  }
}

void OrderChecker::fence(Warp& warp, const Instr& i) {
  ClusterState& c = of(warp.cta);
  WarpState& w = c.of(warp);
  const uint32_t lanes = warp.active;
  switch (traits(warp).fence) {
    case Traits::none:
      return;
    case Traits::memory:
      for_lanes(lanes, [&](unsigned l) {
        ThreadState& t = w.thread[l];
        const uint8_t scope = traits(warp).scope;
        if (const ThreadState::Seen& seen = t.observed[scope]; seen.v) {
          Clock v = *t.v, f = *t.f;
          v.join(*seen.v);
          f.join(*seen.f);
          t.v = SharedClock(std::move(v));
          t.f = SharedClock(std::move(f));
        }
        t.released_scope = scope;
        t.released = t.v;
        t.relfenced = t.f;
        t.released_at = w.time;
      });
      break;
    case Traits::proxy_async:
      for_lanes(lanes, [&](unsigned l) { w.thread[l].f = w.thread[l].v, w.thread[l].fenced = w.time; });
      break;
    case Traits::mbarrier_init:
      for_lanes(lanes, [&](unsigned l) {
        const uint32_t self = w.base + l;
        const uint32_t stream = c.stream(Stream::init_fence, warp.cta.rank, warp.id * kLanes + l);
        for (auto& cta : c.cta)
          for (auto& [offset, b] : cta.barriers)
            if (b.init_thread == self && !b.fence) b.fence = stream, b.fence_time = w.time;
        change(w, 1u << l, &ThreadState::v, [&](Clock& k) { k.raise(stream, w.time); });
      });
      break;
    case Traits::map_acquire:
      return fence_of_map(warp, i);
    case Traits::map_copy:
      return warp_sync(w, lanes);
    case Traits::before_sync:
      if (w.load || w.store)
        change(w, lanes, &ThreadState::v, [&](Clock& k) {
          if (w.load) k.raise(w.load_fenced, k[w.load]);
          if (w.store) k.raise(w.store_fenced, k[w.store]);
        });
      return;
    case Traits::after_sync:
      for_lanes(lanes, [&](unsigned l) { w.thread[l].after = w.thread[l].v; });
      return;
  }
  ++w.time;
}

void OrderChecker::issue(Warp& warp, const AsyncOp& op) {
  ClusterState& c = of(warp.cta);
  WarpState& w = c.of(warp);
  const ThreadState& t = w.thread[op.lane];
  auto state = std::make_unique<OpState>();
  OpState& s = *state;
  s.v = t.v, s.f = t.f, s.after = t.after;
  s.own = w.base + op.lane;
  s.own_time = w.time++;
  s.fenced = t.fenced;
  s.site = site(op.function, *op.origin);
  s.sequence = static_cast<uint32_t>(op.sequence) + 1;
  const uint32_t lanes = warp.active;
  s.copy = traits_[s.site].copy;
  const std::string_view name = op.name();
  const uint32_t rank = warp.cta.rank, thread = warp.id * kLanes + op.lane;
  if (op.queue.kind == Queue::tensor_pipe) {
    s.kind = OpKind::pipe;
    s.stream = c.stream(Stream::pipe, rank, thread);
    s.number = static_cast<uint32_t>(op.sequence) + 1;
  } else if (name == "tcgen05.ld" || name == "tcgen05.st") {
    const bool load = name == "tcgen05.ld";
    s.kind = load ? OpKind::tmem_load : OpKind::tmem_store;
    uint32_t& stream = load ? w.load : w.store;
    uint32_t& fenced = load ? w.load_fenced : w.store_fenced;
    if (!stream) {
      stream = c.stream(load ? Stream::tmem_load : Stream::tmem_store, rank, warp.id);
      fenced = c.stream(load ? Stream::load_fenced : Stream::store_fenced, rank, warp.id);
      c.streams[stream - c.threads].other = fenced;
    }
    s.stream = stream;
    s.number = ++(load ? w.loads : w.stores);
  } else if (op.queue.kind == Queue::wgmma) {
    // All lanes issue it together: it comes after what each of them did.
    s.kind = OpKind::wgmma;
    if (!w.wgmma) w.wgmma = c.stream(Stream::wgmma, rank, warp.id);
    s.stream = w.wgmma;
    s.number = ++w.wgmmas;
    Sum all;
    --w.time;
    publish(all, c, w, lanes, Reach::all);
    s.v = SharedClock(std::move(all.v));
    s.f = SharedClock(std::move(all.f));
  } else if (op.queue.kind == Queue::cp_async) {
    s.kind = name == "cp.async" ? OpKind::copy : OpKind::copy_arrival;
    s.own = w.base;
    s.lanes.resize(kLanes);
    for_lanes(lanes, [&](unsigned l) {
      const ThreadState& own = w.thread[l];
      BulkThread& b = c.copies[w.base + l];
      if (s.kind == OpKind::copy) {
        if (!b.read) b.read = c.stream(Stream::copy, rank, warp.id * kLanes + l);
        ++b.issued;
      }
      s.lanes[l] = {own.v, own.f, own.fenced, b.read, b.issued};
    });
  } else {
    const Source& source = grid_->module.functions[op.function].source[op.origin->pc];
    if (source.has("bulk_group")) {
      s.kind = OpKind::bulk_store;
      BulkThread& b = c.bulk[s.own];
      if (!b.read) {
        b.read = c.stream(Stream::bulk_read, rank, thread);
        b.write = c.stream(Stream::bulk_write, rank, thread);
      }
      s.stream = b.read, s.write_stream = b.write;
      s.number = ++b.issued;
    } else if (source.has("mbarrier::complete_tx::bytes")) {
      s.kind = OpKind::delivery;
      s.generic = name == "st.async" || name == "red.async";
    }
  }
  ++c.operations;
  const_cast<AsyncOp&>(op).watched = std::move(state);
}

void OrderChecker::complete(const AsyncOp& op) {
  auto& slot = clusters_[op.cta->cluster.id];
  if (--slot->operations == 0 && slot->live == 0) slot.reset();
}

}  // namespace fp4lab::emu
