// What the order checker keeps of a cluster: its threads', operations' and barriers' clocks, and who touched
// which byte.
#pragma once

#include <array>
#include <bit>
#include <map>
#include <unordered_map>

#include "emulator/core/async.h"
#include "emulator/core/machine.h"
#include "emulator/watch/clock.h"
#include "emulator/watch/shadow.h"

namespace fp4lab::emu::order {

constexpr uint32_t kForever = ~0u;
constexpr uint32_t kNobody = 0xffff;

// What somebody knows. `v`: what happened before. `f`: what happened before a fence.proxy.async that happened
// before, so that the async proxy sees it too. `lax_v`, `lax_f`: the same, for what is known only if an
// arrival without a scope on another CTA's mbarrier is taken for one of .cluster scope; empty in nearly all
// kernels. `g`: as f, for what a fence.proxy.async.global passes on of global memory alone (f counts there
// too).
struct Knowledge {
  SharedClock v, f, lax_v, lax_f, g;
};

// Knowledge that is being gathered, from several.
struct Sum {
  Clock v, f, lax_v, lax_f, g;
  void clear() {
    for (Clock* c : {&v, &f, &lax_v, &lax_f, &g}) {
      std::fill(c->at.begin(), c->at.end(), 0);
      c->foreign.reset();
    }
  }
};

struct KnowledgeField {
  SharedClock Knowledge::*known;
  Clock Sum::*sum;
  SharedClock Knowledge::*lax;  // where it goes behind an arrival whose scope is taken for a wider one
};
constexpr KnowledgeField kFields[] = {{&Knowledge::v, &Sum::v, &Knowledge::lax_v},
                                      {&Knowledge::f, &Sum::f, &Knowledge::lax_f},
                                      {&Knowledge::lax_v, &Sum::lax_v, &Knowledge::lax_v},
                                      {&Knowledge::lax_f, &Sum::lax_f, &Knowledge::lax_f},
                                      {&Knowledge::g, &Sum::g, &Knowledge::g}};

inline void join(Sum& into, const Knowledge& from) {
  for (const KnowledgeField& k : kFields)
    if (from.*k.known) (into.*k.sum).join(*(from.*k.known));
}
inline Knowledge settled(Sum&& sum) {
  Knowledge all;
  for (const KnowledgeField& k : kFields) {
    Clock& c = sum.*k.sum;
    if (!c.at.empty() || c.foreign) all.*k.known = SharedClock(std::move(c));
  }
  return all;
}

// What an instruction's modifiers say about synchronisation.
struct Traits {
  enum Fence : uint8_t {
    none,
    memory,  // fence, membar
    proxy_async,
    proxy_global,  // fence.proxy.async.global
    mbarrier_init,
    map_acquire,  // fence.proxy.tensormap::generic.acquire
    map_copy,     // tensormap.cp_fenceproxy
    before_sync,  // tcgen05.fence::before_thread_sync
    after_sync,
    grid_wait,       // griddepcontrol.wait
    grid_dependents  // griddepcontrol.launch_dependents
  } fence = none;
  bool acquire = false, release = false, relaxed = false;
  uint8_t scope = 0;           // 0 .cta, 1 .cluster, 2 .gpu or .sys
  bool scope_spelled = false;  // or the default
  bool copy = false;           // tcgen05.cp
  bool alloc = false;          // tcgen05.alloc
  bool map_edit = false;       // tensormap.replace
  bool before_cas = false;     // an ordinary load, then a loop around atom.cas at the same address
};
Traits traits_of(const Source&);

struct ThreadState : Knowledge {
  SharedClock after;  // v at the last tcgen05.fence::after_thread_sync
  SharedClock released, relfenced,
      relglobal;               // v, f and g at the last fence.acq_rel: what relaxed writes behind it pass on
  uint8_t released_scope = 0;  // of that fence
  struct Seen {
    SharedClock v, f, g;
  };
  std::array<Seen, 3> observed;  // what relaxed reads saw, by the scope of the fence that takes it in
  uint32_t fenced = 0;           // own accesses up to this time lie before a fence.proxy.async
  uint32_t released_at = 0;
  uint32_t cluster_phase = 0;   // of barrier.cluster
  uint8_t cluster_arrived = 0;  // in that phase, and (where that is tolerated) the next
};

// Where a warp has waited, or arrived, last: for reports.
struct SyncPoint {
  uint32_t site = 0, time = 0;
  uint32_t cta = 0, mbarrier = kForever;  // kForever: no mbarrier
  uint32_t phase = 0;    // of a wait for an mbarrier: that was over, kNoPhase the one before the first
  bool at_once = false;  // and the first answer was yes
  bool again = false;    // the warp has passed a wait for that phase before
  uint32_t named = kForever,
           warps = 0;  // of a named barrier: its number, and a bit for each warp that completed it
};
struct SyncPoints {
  std::array<SyncPoint, 8> last;
  uint32_t count = 0;
  void add(const SyncPoint& p) { last[count++ % last.size()] = p; }
  // f(point), the newest first; until it returns true.
  template <class F>
  void newest_first(F&& f) const {
    const uint32_t size = static_cast<uint32_t>(last.size());
    for (uint32_t k = 0; k < std::min(count, size); ++k)
      if (f(last[(count - 1 - k) % size])) return;
  }
};

// What a warp's lanes learnt by their last acquires, for reports: v as it was from `time` on.
struct Learnt {
  uint32_t time = 0, lanes = 0;
  SharedClock v;
};

struct WarpState {
  SyncPoints waits, arrivals;
  std::array<Learnt, 16> learnt;
  uint32_t acquires = 0;
  void learn(uint32_t lanes) {
    learnt[acquires++ % learnt.size()] = {time, lanes,
                                          thread[static_cast<unsigned>(std::countr_zero(lanes))].v};
  }
  // What a lane knew at `time`; null where that is too long ago. Nothing, if it has never learnt anything.
  const Clock* knew(unsigned lane, uint32_t at) const {
    static const Clock nothing;
    const auto size = static_cast<uint32_t>(learnt.size());
    for (uint32_t k = 0; k < std::min(acquires, size); ++k)
      if (const Learnt& l = learnt[(acquires - 1 - k) % size]; l.lanes >> lane & 1 && l.time <= at)
        return &*l.v;
    return acquires > size ? nullptr : &nothing;
  }
  Knowledge elected;  // what its lanes knew together, and had done, at the last elect.sync
  uint32_t time = 1;  // accesses are stamped with it; it grows with every release
  uint32_t base = 0;  // component of lane 0
  // Streams of tcgen05.ld and st, 0 = none yet.
  uint32_t load = 0, store = 0, load_fenced = 0, store_fenced = 0, store_issued = 0;
  uint32_t init_sync = 0;  // stream, see Stream::init_sync; 0: has initialised no mbarrier
  uint32_t loads = 0, stores = 0, loads_waited = 0, stores_waited = 0;
  uint32_t wgmma = 0, wgmmas = 0;  // stream, operations issued
  // v of the last ones issued, by number: the four warps of a warpgroup issue a product together.
  std::array<SharedClock, 64> products;
  std::vector<uint32_t> wgmma_groups;  // number of the last operation of each committed group
  std::array<uint64_t, 16> barrier_generation{};
  std::array<ThreadState, kLanes> thread;
};

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

// What arrivals of one sort on an mbarrier pass on.
struct Arrivals {
  Sum pending;  // in the current phase
  Knowledge known;
  bool any = false;
  void complete() {
    if (!any) return;
    Sum all;
    join(all, known);
    for (const KnowledgeField& k : kFields) (all.*k.sum).join(pending.*k.sum);
    known = settled(std::move(all));
    pending.clear();
  }
  void reset() { *this = {}; }
};

struct BarrierState {
  uint32_t component = 0;  // completed phases
  uint32_t completed = 0;
  Arrivals own;   // for everybody who waits
  Arrivals wide;  // from other CTAs, for waits of .cluster scope
  Arrivals lax;   // from other CTAs, scope .cluster or not spelled, for waits of no spelled .cta scope
  Arrivals ran;   // from other CTAs, whatever their scope: enough for whoever ends its CTA
  uint32_t init_thread = kNobody, init_time = 0, init_site = 0;
  uint32_t fence = 0, fence_time = 0;  // stream and time of fence.mbarrier_init by the thread that made it
  // For reports: where bytes were announced, where it was arrived on and waited for last; kForever: nowhere.
  uint32_t expect_site = kForever, arrive_site = kForever, wait_site = kForever;
  struct Remote {
    uint32_t component, time, site, issuer;
    bool thread;
    uint32_t phase;  // who has seen it end knows that the arrival has happened, whatever its scope
  };
  std::vector<Remote> remote;  // the last arrival of each thread or stream of another CTA
  void remember(const Remote& r) {
    for (Remote& old : remote)
      if (old.component == r.component) {
        old = r;
        return;
      }
    remote.push_back(r);
  }
};

struct NamedState {
  std::array<Sum, 4> generation;  // by number modulo 4
  std::array<uint64_t, 4> number{~0ull, ~0ull, ~0ull, ~0ull};
};

// mbarrier: bytes that copies delivered by a phase. mbarrier_narrow counts the same, but is also known to
// those who heard of it only through an arrival of .cta scope on another CTA's mbarrier: shipped kernels let
// that do for filling a buffer again, while reading what was delivered goes wrong on hardware (CUTLASS pull
// request 3647).
enum class Stream : uint8_t {
  mbarrier,
  mbarrier_narrow,
  pipe,
  bulk_read,
  bulk_write,
  copy,   // cp.async of a thread
  wgmma,  // of a warp
  tmem_load,
  tmem_store,
  load_fenced,
  store_fenced,
  store_issued,  // tcgen05.st that were issued, whether they are over or not
  init_fence,
  grid_wait,  // of the cluster: 1 behind griddepcontrol.wait
  // Up to what time of the warp a bar.sync (of a CTA that is alone) or a releasing barrier.cluster.arrive has
  // passed it on: the shipped alternative to fence.mbarrier_init.
  init_sync
};
struct StreamInfo {
  Stream kind;
  uint32_t cta;
  uint32_t id;          // mbarrier: offset; warp, or warp * 32 + lane
  uint32_t other = 0;   // tmem_load: its load_fenced; mbarrier: its mbarrier_narrow
  uint32_t issued = 0;  // tmem_store: its store_issued
};

struct BulkThread {              // cp.async.bulk stores of a thread, or its cp.async
  uint32_t read = 0, write = 0;  // streams
  uint32_t issued = 0;
  std::vector<uint32_t> groups;  // number of the last operation of each committed group
  struct GroupWait {
    uint32_t site = 0, newest = 0, committed = 0;  // of wait_group newest, so many groups were committed
  };
  std::array<GroupWait, 16> waited;  // the last ones, for reports
  uint32_t waits = 0;
};

enum class OpKind : uint8_t {
  unknown,
  pipe,
  tmem_load,
  tmem_store,
  bulk_store,
  delivery,
  copy,          // cp.async
  copy_arrival,  // cp.async.mbarrier.arrive
  wgmma
};

struct OpState final : WatchedOp, Knowledge {
  OpKind kind = OpKind::unknown;
  bool copy = false;     // tcgen05.cp
  bool generic = false;  // st.async, red.async, cp.async: not the async proxy
  SharedClock after;
  Knowledge elected;               // of its warp, see WarpState
  std::array<SyncPoint, 2> waits;  // of its warp, before it was issued, the newest first
  uint32_t waited = 0;             // how many of them there are
  uint32_t own = 0, own_time = 0, fenced = 0;
  uint32_t sequence = 0;
  uint32_t stream = 0, write_stream = 0, number = 0, site = 0;
  struct Lane : Knowledge {
    uint32_t fenced = 0, stream = 0, number = 0;
  };
  std::vector<Lane> lanes;        // of copy and copy_arrival: 32, those that took part are set
  std::vector<Access> delivered;  // of a delivery, until it is told to its mbarrier
};

struct CtaStateOf {
  std::unique_ptr<Cell[]> shared;
  uint32_t shared_cells = 0;
  std::unique_ptr<Cell[]> tmem;  // by column; bit b of a mask: lanes 16b..16b+15
  std::unordered_map<uint32_t, BarrierState> barriers;
  std::array<NamedState, 16> named;
  // A relaxed arrival at the cluster barrier hands nothing over by the manual. Shipped kernels (DeepGEMM) let
  // it do for what stays inside a CTA, and at their end for the cluster: on one SM there is nothing to wait
  // for, and a CTA that has come to the barrier has sent what it sends.
  std::array<Sum, 4> relaxed;  // arrivals of this CTA, by phase
  std::array<uint64_t, 4> relaxed_number{~0ull, ~0ull, ~0ull, ~0ull};
  Touch pair_allocation;  // the last tcgen05.alloc.cta_group::2
  // Those by first column, and how many of them this CTA has freed. What it did without knowing of the other
  // CTA's part is told when that comes.
  struct PairColumns {
    std::vector<Touch> allocations;
    uint32_t freed = 0;
  };
  std::map<uint32_t, PairColumns> pair;
  struct Blind {
    uint32_t column, number;  // of the allocation
    bool frees;
    Touch touch;
  };
  std::vector<Blind> blind;
  bool grid_waited = false, dependents_launched = false;
  // What had run before a cluster barrier, or other CTAs' arrivals on an mbarrier, that this CTA has waited
  // for.
  Clock behind;
};

// What releases of a flag or counter published: to everybody, to the cluster, to the CTA, as far as the
// release's scope reaches.
struct SyncVariable {
  struct Part {
    Foreign v, f, g;  // by cluster
  };
  std::array<std::map<uint64_t, Part>, 3> by_scope;  // by CTA, by cluster, all (key 0)
};

struct ClusterState {
  uint64_t id = 0;
  uint32_t ctas = 0, warps = 0;  // warps of a CTA
  // The rank of the CTA of a thread's component.
  uint32_t rank_of(uint32_t thread) const { return thread / kLanes / warps; }
  uint32_t threads = 0;             // components that are threads
  std::vector<StreamInfo> streams;  // component - threads
  std::map<std::array<uint32_t, 3>, uint32_t> stream_index;
  std::vector<std::unique_ptr<WarpState>> warp;
  std::vector<CtaStateOf> cta;
  std::unordered_map<uint32_t, BulkThread> bulk, copies;  // by thread component
  std::array<Sum, 4> cluster_barrier;
  std::array<uint64_t, 4> cluster_number{~0ull, ~0ull, ~0ull, ~0ull};
  // Warps that have exited, by the first phase of barrier.cluster that did not wait for them.
  std::map<uint32_t, Sum> exited;
  // What came before the arrivals in program order, relaxed ones too.
  std::array<Sum, 4> cluster_ran;
  std::array<uint64_t, 4> ran_number{~0ull, ~0ull, ~0ull, ~0ull};
  std::map<uint64_t, SyncVariable> shared_variables;  // by CTA and offset
  uint32_t live = 0, operations = 0;

  // Of an access of this cluster that no thread, but an operation did.
  const StreamInfo& stream_of(const Touch& t) const { return streams[t.component - threads]; }
  WarpState& of(const Warp& w) { return *warp[w.cta.rank * warps + w.id]; }
  uint32_t stream(Stream kind, uint32_t cta, uint32_t id) {
    auto [it, fresh] = stream_index.try_emplace({static_cast<uint32_t>(kind), cta, id},
                                                threads + static_cast<uint32_t>(streams.size()));
    if (fresh) streams.push_back({kind, cta, id});
    return it->second;
  }
};

// Who accesses, and what it knows.
struct Actor {
  ClusterState* cluster;
  const Clock *v, *f, *lax_v, *lax_f, *g;
  const Clock* after;              // null: there is no tcgen05.fence to ask for
  uint32_t own, own_time, fenced;  // its thread, and up to when that thread's own accesses are before
  const OpState* op = nullptr;     // null: the thread itself
  const Access* access = nullptr;  // of a thread's ordinary access

  // A thread knows all that it has done.
  Actor(ClusterState& c, const Knowledge& k, uint32_t thread) : Actor(c, k, thread, kForever, kForever) {}
  Actor(ClusterState& c, const Knowledge& k, uint32_t thread, uint32_t time, uint32_t fence)
      : cluster(&c),
        v(&*k.v),
        f(&*k.f),
        lax_v(&*k.lax_v),
        lax_f(&*k.lax_f),
        g(&*k.g),
        after(nullptr),
        own(thread),
        own_time(time),
        fenced(fence) {}
  Actor(ClusterState& c, const OpState& s) : Actor(c, s, s.own, s.own_time, s.fenced) {
    after = &*s.after, op = &s;
  }
  bool async() const { return op && !op->generic; }
  uint32_t pipe() const { return op && op->kind == OpKind::pipe ? op->stream : kNobody; }  // it is in order
  bool product() const { return op && (op->kind == OpKind::pipe || op->kind == OpKind::wgmma); }
};

struct Place {
  enum class Kind : uint8_t { shared, global, tmem } kind;
  const Cta* cta;
  uint64_t address;  // of the cell
};

}  // namespace fp4lab::emu::order
