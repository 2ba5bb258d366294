// How knowledge passes between threads, operations and barriers.
#include "emulator/watch/order.h"

#include "emulator/engine/state.h"
#include "emulator/isa/opcode.h"
#include "emulator/watch/order_found.h"
#include "emulator/watch/order_state.h"
#include "emulator/watch/wgmma_fence.h"

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
    if (m == "cta") t.scope = 0, t.scope_spelled = true;
    if (m == "cluster") t.scope = 1, t.scope_spelled = true;
    if (m == "gpu" || m == "sys" || m == "volatile") t.scope = 2, t.scope_spelled = true;
  }
  if (s.tokens.empty()) return t;
  const std::string_view first = s.tokens[0];
  if (first == "fence" || first == "membar") {
    t.fence = Traits::memory;
    if (s.has("proxy"))
      t.fence = s.has("async") && s.has("global")                 ? Traits::proxy_global
                : s.has("async") || s.has("async::generic")       ? Traits::proxy_async
                : s.has("tensormap::generic") && s.has("acquire") ? Traits::map_acquire
                                                                  : Traits::none;
    if (s.has("mbarrier_init")) t.fence = Traits::mbarrier_init;
  } else if (first == "tensormap") {
    if (s.has("cp_fenceproxy")) t.fence = Traits::map_copy;
    t.map_edit = s.has("replace");
  } else if (first == "tcgen05") {
    if (s.has("fence::before_thread_sync")) t.fence = Traits::before_sync;
    if (s.has("fence::after_thread_sync")) t.fence = Traits::after_sync;
    t.copy = s.has("cp");
    t.alloc = s.has("alloc");
  }
  return t;
}

// The CUDA guide's atomicAdd for double and its like: an ordinary load gives the first value to compare with.
static bool before_cas(const Function& f, const Instr& load) {
  constexpr uint32_t kNear = 12;  // instructions
  if (load.opcode->name != "ld") return false;
  for (uint32_t pc = load.pc + 1; pc < f.code.size() && pc <= load.pc + kNear; ++pc) {
    const Instr& i = f.code[pc];
    const Operand &x = load.op[1], &y = i.op[1];
    if (i.opcode->name == "atom_cas" && x.kind == y.kind && x.offset == y.offset &&
        x.displacement == y.displacement)
      return true;
  }
  return false;
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
  unfenced_.clear();
  for (const Function& f : grid.module.functions) {
    code_base_.push_back(static_cast<uint32_t>(traits_.size()));
    for (size_t pc = 0; pc < f.source.size(); ++pc) {
      traits_.push_back(traits_of(f.source[pc]));
      traits_.back().before_cas = before_cas(f, f.code[pc]);
    }
    for (const UnfencedRegister& u : unfenced_registers(f))
      unfenced_.emplace(code_base_.back() + u.product, code_base_.back() + u.writer);
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
void change(WarpState& w, uint32_t lanes, SharedClock Knowledge::*field, F&& f) {
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

void OrderChecker::warp_sync(WarpState& w, uint32_t lanes) {
  Sum all;
  for (const KnowledgeField& k : kFields)
    each_clock(w, lanes, k, [&](const SharedClock& clock) {
      if (clock) (all.*k.sum).join(*clock);
    });
  raise_own(all, w, lanes);
  const Knowledge known = settled(std::move(all));
  for_lanes(lanes, [&](unsigned l) { static_cast<Knowledge&>(w.thread[l]) = known; });
  ++w.time;
}

// What reports say of where a warp has waited or arrived.
void OrderChecker::note_point(WarpState& w, const BarrierEvent& e) const {
  using What = BarrierEvent::What;
  const SyncPoint point{site(*e.warp), w.time, 0, kForever};
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

void OrderChecker::barrier(const BarrierEvent& e) {
  using What = BarrierEvent::What;
  if (e.what <= What::wait_done) return mbarrier(e);
  ClusterState& c = of(*e.cta);
  WarpState& w = c.of(*e.warp);
  note_point(w, e);
  switch (e.what) {
    case What::bar_arrive: {
      const uint64_t number = e.cta->state->named[e.address].generation;
      NamedState& n = c.cta[e.cta->rank].named[e.address];
      Sum& sum = sum_of(n.number, n.generation, number);
      if (w.init_sync && c.ctas == 1) sum.v.raise(w.init_sync, w.time);
      publish(sum, c, w, e.lanes, Reach::all);
      w.barrier_generation[e.address] = number;
      break;
    }
    case What::bar_done: {
      NamedState& n = c.cta[e.cta->rank].named[e.address];
      const uint64_t number = w.barrier_generation[e.address];
      if (n.number[number % 4] == number) acquire(w, e.lanes, n.generation[number % 4]);
      break;
    }
    case What::cluster_arrive:
      cluster_arrive(c, w, e);
      break;
    case What::cluster_done: {
      const uint32_t phase = w.thread[static_cast<unsigned>(std::countr_zero(e.lanes))].cluster_phase;
      acquire(w, e.lanes, c.cluster_barrier[phase % 4]);
      CtaStateOf& own = c.cta[e.cta->rank];
      if (own.relaxed_number[phase % 4] == phase) acquire(w, e.lanes, own.relaxed[phase % 4]);
      if (c.ran_number[phase % 4] == phase) own.behind.join(c.cluster_ran[phase % 4].v);
      for (const auto& [first, sum] : c.exited)
        if (first <= phase) acquire(w, e.lanes, sum);
      for_lanes(e.lanes, [&](unsigned l) {
        ++w.thread[l].cluster_phase;
        w.thread[l].cluster_arrived = false;
      });
      break;
    }
    case What::warp_sync:
      warp_sync(w, e.lanes);
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
      if (const size_t committed = w.wgmma_groups.size(), newest = static_cast<size_t>(e.amount);
          newest < committed) {  // a group is the warpgroup's
        const size_t last = committed - newest - 1;
        change(w, e.lanes, &Knowledge::v, [&](Clock& k) {
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
        change(w, 1u << l, &Knowledge::v, [&](Clock& k) {
          k.raise(b.read, number);
          if (!e.phase && b.write) k.raise(b.write, number);
        });
      });
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
    const uint32_t phase = w.thread[static_cast<unsigned>(std::countr_zero(left))].cluster_phase;
    uint32_t same = 0;
    for_lanes(left, [&](unsigned l) { same |= uint32_t(w.thread[l].cluster_phase == phase) << l; });
    Sum& sum = sum_of(c.cluster_number, c.cluster_barrier, phase);
    if (w.init_sync && !relaxed) sum.v.raise(w.init_sync, w.time);
    publish(sum, c, w, same, relaxed ? Reach::streams : Reach::all);
    publish(sum_of(c.ran_number, c.cluster_ran, phase), c, w, same, Reach::all);
    if (relaxed) publish(sum_of(own.relaxed_number, own.relaxed, phase), c, w, same, Reach::all);
    for_lanes(same, [&](unsigned l) { w.thread[l].cluster_arrived = true; });
    left &= ~same;
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
        t.released_at = w.time;
      });
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
      for_lanes(lanes, [&](unsigned l) {
        const uint32_t self = w.base + l;
        const uint32_t stream = c.stream(Stream::init_fence, warp.cta.rank, warp.id * kLanes + l);
        for (auto& cta : c.cta)
          for (auto& [offset, b] : cta.barriers)
            if (b.init_thread == self && !b.fence) b.fence = stream, b.fence_time = w.time;
        change(w, 1u << l, &Knowledge::v, [&](Clock& k) { k.raise(stream, w.time); });
      });
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
  static_cast<Knowledge&>(s) = t;
  s.after = t.after;
  w.waits.newest_first([&](const SyncPoint& p) {
    s.waits[s.waited++] = p;
    return s.waited == s.waits.size();
  });
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
      if (!load)
        c.streams[stream - c.threads].issued = w.store_issued = c.stream(Stream::store_issued, rank, warp.id);
    }
    s.stream = stream;
    s.number = ++(load ? w.loads : w.stores);
    if (!load) change(w, lanes, &Knowledge::v, [&](Clock& k) { k.raise(w.store_issued, s.number); });
  } else if (op.queue.kind == Queue::wgmma) {
    // All lanes issue it together: it comes after what each of them did.
    s.kind = OpKind::wgmma;
    if (!w.wgmma) w.wgmma = c.stream(Stream::wgmma, rank, warp.id);
    s.stream = w.wgmma;
    s.number = ++w.wgmmas;
    Sum all;
    --w.time;
    publish(all, c, w, lanes, Reach::all);
    static_cast<Knowledge&>(s) = settled(std::move(all));
    w.products[s.number % w.products.size()] = s.v;
    if (const auto it = unfenced_.find(s.site); it != unfenced_.end())
      found_unfenced(it->second, s.site, Actor(c, s));
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
      s.lanes[l] = {own, own.fenced, b.read, b.issued};
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
