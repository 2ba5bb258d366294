#include "emulator/watch/race.h"

#include <atomic>
#include <bit>

#include "emulator/core/place.h"
#include "emulator/watch/history.h"

namespace fp4lab::emu {

namespace {

constexpr uint32_t kGranule = 16, kLanesPerBit = 8;

Publication publication(const Source& s) {
  if (s.has("bulk_group")) return Publication::bulk_group;
  const bool tcgen05 = !s.tokens.empty() && s.tokens[0] == "tcgen05";
  if (tcgen05 && s.has("ld")) return Publication::tmem_load;
  if (tcgen05 && s.has("st")) return Publication::tmem_store;
  if (tcgen05) return Publication::commit;
  if (!s.tokens.empty() && s.tokens[0] == "wgmma") return Publication::wgmma;
  if (s.tokens.size() > 1 && s.tokens[0] == "cp" && s.tokens[1] == "async" && !s.has("bulk"))
    return Publication::cp_async;
  return Publication::barrier;
}

// What a wait instruction waits for; barrier: it is none.
Publication waits_for(const Source& s) {
  if (s.tokens.empty()) return Publication::barrier;
  const bool group = s.has("wait_group") || s.has("wait_all");
  if (s.tokens[0] == "cp" && group) return s.has("bulk") ? Publication::bulk_group : Publication::cp_async;
  if (s.tokens[0] == "wgmma" && group) return Publication::wgmma;
  if (s.tokens[0] == "tcgen05" && s.has("wait::ld")) return Publication::tmem_load;
  if (s.tokens[0] == "tcgen05" && s.has("wait::st")) return Publication::tmem_store;
  return Publication::barrier;
}

bool in_order(const Queue& q) { return q.kind == Queue::tensor_pipe; }

}  // namespace

class RaceChecker::History {
 public:
  explicit History(const Cluster& c)
      : cluster_(c),
        per_cta_(static_cast<uint32_t>(c.ctas[0]->warps.size())),
        warps_(per_cta_ * c.ctas.size()),
        shared_(c.ctas.size()),
        tmem_(c.ctas.size()),
        next_agent_(static_cast<uint32_t>(warps_.size())) {}

  uint32_t agent(const Warp& w) const { return w.cta.rank * per_cta_ + w.id; }

  void step(Warp& w, const Instr& i) {
    WarpClock& c = warps_[agent(w)];
    // The instruction behind a wait: what it waited for is known now.
    if (c.waiting != Publication::barrier && &i != c.wait) {
      publish_to_warp(agent(w), c.waiting);
      c.waiting = Publication::barrier;
    }
    const Publication p = waits_for(w.source_of(i));
    if (p != Publication::barrier) c.waiting = p, c.wait = &i;
  }

  void issue(Warp& w, const AsyncOp& op) {
    const uint32_t a = agent(w);
    WarpClock& c = warps_[a];
    if (op.sequence >= ops_.size()) ops_.resize(op.sequence + 1);
    OpRecord& r = ops_[op.sequence];
    r.by = publication(w.source_of(*op.origin));
    r.queue = op.queue;
    r.warp = a;
    if (!c.snapshot) {
      auto k = std::make_shared<Knowledge>(c.knows);
      k->happened.set(a, c.step);
      c.snapshot = std::move(k);
    }
    r.issue = c.snapshot;
    open_[key(r)].push_back(op.sequence);
    tick(c);
  }

  void fence(Warp& w, const Instr& i) {
    const Source& s = w.source_of(i);
    bool async = false;
    for (std::string_view t : s.tokens) async |= t.substr(0, 5) == "async";
    const uint32_t a = agent(w);
    if (s.has("mbarrier_init") || async)
      for (auto& [place, b] : mbarriers_)
        if (b.init.agent == a) b.fenced = true;
    if (!s.has("proxy") || !async || s.has("global")) return;
    WarpClock& c = warps_[a];
    c.knows.happened.set(a, c.step);
    c.knows.fenced.join(c.knows.happened);
    tick(c);
  }

  void barrier(const BarrierEvent& e) {
    using What = BarrierEvent::What;
    switch (e.what) {
      case What::init:
        mbarriers_[place(e)] = {next_agent_++, {}, {}, origin(*e.warp), false};
        break;
      case What::inval:
        mbarriers_.erase(place(e));
        break;
      case What::expect_tx:
        break;
      case What::arrive:
      case What::complete_tx: {
        auto it = mbarriers_.find(place(e));
        if (it == mbarriers_.end()) break;
        if (!it->second.fenced && (e.op || &e.warp->cta != e.cta))
          fault(FaultKind::misuse, kLanes,
                "missing fence.mbarrier_init: the mbarrier at {:#x} of {} is used by {} without "
                "fence.mbarrier_init (or fence.proxy.async) behind its initialisation by warp {}\n    {}",
                e.cta->address_of(e.address), e.cta->name(),
                e.op ? "the async proxy" : "a thread of another CTA", it->second.init.agent % per_cta_,
                line(it->second.init));
        if (e.op)
          release(*e.op, it->second, e.phase);
        else if (e.warp)
          release(*e.warp, it->second.pending);
        break;
      }
      case What::phase:
        if (auto it = mbarriers_.find(place(e)); it != mbarriers_.end()) {
          BarrierClock& b = it->second;
          b.done = std::move(b.pending);
          b.pending.clear();
          b.done.happened.set(b.agent, e.phase);
        }
        break;
      case What::wait_done:
        if (auto it = mbarriers_.find(place(e)); it != mbarriers_.end()) acquire(*e.warp, it->second.done);
        break;
      case What::bar_arrive: {
        NamedClock& n = named_[place(e)];
        Knowledge& k = n.arrived[e.phase & 1];
        if (n.generation[e.phase & 1] != e.phase) n.generation[e.phase & 1] = e.phase, k.clear();
        warps_[agent(*e.warp)].generation[e.address] = e.phase;
        release(*e.warp, k);
        break;
      }
      case What::bar_done:
        acquire(*e.warp, named_[place(e)].arrived[warps_[agent(*e.warp)].generation[e.address] & 1]);
        break;
      case What::cluster_arrive: {
        WarpClock& c = warps_[agent(*e.warp)];
        c.cluster_arrived |= e.lanes;
        release(*e.warp, cluster_phases_[c.cluster_phase]);
        break;
      }
      case What::cluster_done: {
        WarpClock& c = warps_[agent(*e.warp)];
        acquire(*e.warp, cluster_phases_[c.cluster_phase]);
        c.cluster_done |= e.lanes;
        if (c.cluster_done == c.cluster_arrived) ++c.cluster_phase, c.cluster_done = c.cluster_arrived = 0;
        break;
      }
    }
  }

  void shared(const Access& a) {
    if (a.strong && a.warp) {  // orders whatever is around it
      Knowledge& k = strong_[uint64_t(a.cta->rank) << 32 | a.address / 4];
      acquire(*a.warp, k);
      release(*a.warp, k);
      return;
    }
    const bool async = a.proxy == Proxy::async;
    uint64_t at = a.address, end = a.address + a.bytes;
    while (at < end) {
      const uint32_t granule = static_cast<uint32_t>(at / kGranule), from = at % kGranule;
      const uint32_t n = static_cast<uint32_t>(std::min<uint64_t>(kGranule - from, end - at));
      const uint16_t mask = static_cast<uint16_t>(((1u << n) - 1) << from);
      check(shared_[a.cta->rank][granule], mask, a.kind != AccessKind::read, async, a.warp, a.op, [&] {
        return fmt::format("shared memory at {:#x} of {}", a.cta->address_of(granule * kGranule),
                           a.cta->name());
      });
      at += n;
    }
  }

  void tmem(const TmemAccess& a) {
    uint16_t mask = 0;
    for (unsigned l = a.lane0; l < a.lane0 + a.lanes; l += kLanesPerBit)
      mask |= uint16_t(1u << l / kLanesPerBit);
    for (unsigned c = a.column0; c < a.column0 + a.columns; ++c)
      check(tmem_[a.cta->rank][c], mask, a.write, true, a.warp, a.op, [&] {
        return fmt::format("tensor memory column {}, lanes {}-{}, of {}", c, a.lane0, a.lane0 + a.lanes - 1,
                           a.cta->name());
      });
  }

 private:
  uint64_t place(const BarrierEvent& e) const { return uint64_t(e.cta->rank) << 32 | e.address; }
  static std::pair<uint64_t, Publication> key(const OpRecord& r) {
    return {in_order(r.queue) ? uint64_t(1) << 63 | r.queue.owner : r.warp, r.by};
  }
  void tick(WarpClock& c) {
    ++c.step;
    c.snapshot.reset();
  }
  void release(const Warp& w, Knowledge& to) {
    const uint32_t a = agent(w);
    WarpClock& c = warps_[a];
    c.knows.happened.set(a, c.step);
    to.join(c.knows);
    tick(c);
  }
  void acquire(const Warp& w, const Knowledge& from) {
    WarpClock& c = warps_[agent(w)];
    c.knows.join(from);
    c.snapshot.reset();
  }

  // An operation arrives on an mbarrier, in this phase; a commit speaks for everything in its queue before
  // it.
  void release(const AsyncOp& op, BarrierClock& b, uint32_t phase) {
    OpRecord& r = ops_[op.sequence];
    b.pending.join(*r.issue);
    const std::pair<uint32_t, uint32_t> to{b.agent, phase + 1};
    r.published.push_back(to);
    if (r.by != Publication::commit && r.by != Publication::cp_async) return;
    VectorClock& known = published_[key(r)];
    known.set(to.first, to.second);
    b.pending.happened.join(known);
    auto& open = open_[key(r)];
    std::erase_if(open, [&](uint64_t s) {
      if (s >= op.sequence) return false;
      ops_[s].published.push_back(to);
      b.pending.join(*ops_[s].issue);
      return true;
    });
  }

  void publish_to_warp(uint32_t a, Publication kind) {
    WarpClock& c = warps_[a];
    auto& open = open_[{a, kind}];
    std::erase_if(open, [&](uint64_t s) {
      if (!ops_[s].touched) return false;
      ops_[s].published.push_back({a, c.step});
      return true;
    });
    c.knows.happened.set(a, c.step);
    tick(c);
  }

  // Is `e` ordered before the access of this warp or operation?
  bool ordered(const ShadowEntry& e, uint32_t warp, const OpRecord* op, const Knowledge& knows) const {
    if (!e.from.is_op) {
      if (!op && e.from.agent == warp) return true;
      return knows.happened[e.from.agent] >= e.from.step;
    }
    const OpRecord& r = ops_[e.from.op];
    if (op && (op == &r || (in_order(r.queue) && r.queue == op->queue))) return true;
    for (auto [agent, step] : r.published) {
      if (!op && agent == warp) return true;
      if (knows.happened[agent] >= step) return true;
    }
    return false;
  }

  Origin origin(const Warp& w) const {
    const uint32_t a = agent(w);
    return {false, a, warps_[a].step, 0, w.current(), w.group->function};
  }
  std::string line(const Origin& o) const {
    const Module& m = cluster_.grid.module;
    return o.instr ? one_line(m, m.functions[o.function].source[o.instr->pc]) : "?";
  }
  std::string text(const Origin& o, bool write) const {
    const uint32_t warp = o.is_op ? ops_[o.op].warp : o.agent;
    return fmt::format("{} by {}warp {} of {}\n    {}", write ? "write" : "read",
                       o.is_op ? "an operation that was issued by " : "", warp % per_cta_,
                       cluster_.ctas[warp / per_cta_]->name(), line(o));
  }

  template <class F>
  void check(std::vector<ShadowEntry>& entries, uint16_t mask, bool write, bool async, const Warp* w,
             const AsyncOp* op, F&& where) {
    ShadowEntry mine{{}, mask, write, async};
    const Knowledge* knows;
    OpRecord* record = nullptr;
    uint32_t warp = 0;
    if (op) {
      record = &ops_[op->sequence];
      record->touched = true;
      knows = record->issue.get();
      mine.from = {true, 0, 0, op->sequence, op->origin, op->function};
    } else {
      warp = agent(*w);
      knows = &warps_[warp].knows;
      mine.from = origin(*w);
    }
    bool merged = false;
    for (size_t k = 0; k < entries.size();) {
      ShadowEntry& e = entries[k];
      const bool before = ordered(e, warp, record, *knows);
      if ((e.mask & mask) && (write || e.write)) {
        if (!before)
          fault(FaultKind::misuse, op ? op->lane : kLanes,
                "race: {}: this {} and an earlier {}\n    are not ordered by any synchronisation", where(),
                write ? "write" : "read", text(e.from, e.write));
        if (async && !e.async && e.write && knows->fenced[e.from.agent] < e.from.step)
          fault(FaultKind::misuse, op ? op->lane : kLanes,
                "missing fence.proxy.async: {}: this {} by the async proxy follows a {}\n    with no proxy "
                "fence "
                "in between",
                where(), write ? "write" : "read", text(e.from, true));
      }
      const bool covered = (e.mask & ~mask) == 0;
      // A later conflict with what this access supersedes is a conflict with this access.
      if (covered && (write || (!e.write && before))) {
        e = entries.back();
        entries.pop_back();
        continue;
      }
      if (!merged && e.write == write && e.async == async && e.from.is_op == mine.from.is_op &&
          e.from.agent == mine.from.agent && e.from.step == mine.from.step && e.from.op == mine.from.op &&
          e.from.instr == mine.from.instr) {
        e.mask |= mask;
        merged = true;
      }
      ++k;
    }
    if (!merged) entries.push_back(mine);
  }

  const Cluster& cluster_;
  uint32_t per_cta_;
  std::vector<WarpClock> warps_;  // by rank and warp
  std::vector<OpRecord> ops_;     // by sequence number
  std::map<std::pair<uint64_t, Publication>, std::vector<uint64_t>>
      open_;                                                           // not published yet, by queue or warp
  std::map<std::pair<uint64_t, Publication>, VectorClock> published_;  // by queue, up to its last commit
  std::unordered_map<uint64_t, BarrierClock> mbarriers_;
  std::unordered_map<uint64_t, NamedClock> named_;
  std::unordered_map<uint64_t, Knowledge> strong_;
  std::map<uint32_t, Knowledge> cluster_phases_;
  std::vector<Shadow> shared_, tmem_;  // by rank
  uint32_t next_agent_;
};

RaceChecker::RaceChecker() = default;
RaceChecker::~RaceChecker() = default;

namespace {
std::atomic<uint64_t> forgotten{1};  // grows whenever a history goes away, of any checker
}

RaceChecker::History& RaceChecker::history(const Cluster& c) {
  // A host thread asks for the same cluster many times in a row.
  struct Last {
    const RaceChecker* checker = nullptr;
    const Cluster* cluster = nullptr;
    uint64_t at = 0;
    History* history = nullptr;
  };
  static thread_local Last last;
  if (last.checker == this && last.cluster == &c && last.at == forgotten.load(std::memory_order_acquire))
    return *last.history;
  std::lock_guard lock(mutex_);
  auto& h = histories_[&c];
  if (!h) h = std::make_unique<History>(c);
  last = {this, &c, forgotten.load(std::memory_order_acquire), h.get()};
  return *h;
}

void RaceChecker::forget(const Cluster* c) {
  std::lock_guard lock(mutex_);
  if (c)
    histories_.erase(c);
  else
    histories_.clear();
  forgotten.fetch_add(1, std::memory_order_release);
}

void RaceChecker::launch_begin(const Grid&) { forget(nullptr); }
void RaceChecker::launch_end(const Grid&) { forget(nullptr); }
void RaceChecker::step(Warp& w, const Instr& i, uint32_t) { history(w.cta.cluster).step(w, i); }
void RaceChecker::issue(Warp& w, const AsyncOp& op) { history(w.cta.cluster).issue(w, op); }
void RaceChecker::fence(Warp& w, const Instr& i) { history(w.cta.cluster).fence(w, i); }
void RaceChecker::barrier(const BarrierEvent& e) { history(e.cta->cluster).barrier(e); }
void RaceChecker::access(const Access& a) {
  if (a.space == Space::shared && a.cta) history(a.cta->cluster).shared(a);
}
void RaceChecker::tmem(const TmemAccess& a) { history(a.cta->cluster).tmem(a); }
void RaceChecker::cta_start(Cta& cta) {
  if (cta.rank == 0) forget(&cta.cluster);
}
void RaceChecker::cta_exit(Cta& cta) {
  for (const auto& other : cta.cluster.ctas)
    if (!other->exited) return;
  if (cta.cluster.pending([](const AsyncOp&) { return true; }) == 0) forget(&cta.cluster);
}

}  // namespace fp4lab::emu
