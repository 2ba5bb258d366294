// cp.async, the copies of single threads (PTX ISA 9.7.9.25.3), and st.async and red.async, which write to
// another CTA and tell its mbarrier (9.7.9.12, 9.7.13.8).
#include <cstring>

#include "emulator/engine/tma.h"

namespace fp4lab::emu {

namespace {

// One instruction's copies by all its lanes.
struct LaneCopies final : AsyncOp {
  uint32_t lanes = 0, bytes = 0;
  uint64_t source[kLanes];
  uint32_t destination[kLanes], source_bytes[kLanes];
  uint64_t group[kLanes];

  // False: every lane's source is empty, and it writes zeros.
  bool fetches() const {
    bool any = false;
    for_lanes(lanes, [&](unsigned l) { any |= source_bytes[l] != 0; });
    return any;
  }

  const char* name() const override { return "cp.async"; }
  bool held(const Cluster& cluster) const override { return cluster.behind_product(*this); }
  // It writes to its own CTA. TensorRT-LLM's XQA prefetches pages for nobody.
  bool lost_at_exit() const override { return true; }
  bool run(Cluster& cluster) override {
    for_lanes(lanes, [&](unsigned l) {
      lane = l;
      std::byte* to = cta->window(destination[l], bytes, name());
      cta->state->check_payload(destination[l], bytes, name());
      if (source_bytes[l]) {
        std::memcpy(to, cluster.global(source[l], source_bytes[l], name()), source_bytes[l]);
        watch_access(cluster, AccessKind::read, Space::global, source[l], source_bytes[l], nullptr, *this,
                     Proxy::generic);
      }
      std::memset(to + source_bytes[l], 0, bytes - source_bytes[l]);
      cta->define(destination[l], bytes);
      watch_access(cluster, AccessKind::write, Space::shared, destination[l], bytes, cta, *this,
                   Proxy::generic);
      AsyncGroups::Group& g = cta->state->cp_async[warp * kLanes + l].at(group[l]);
      --g.reading, --g.writing;
    });
    cluster.notify();
    return true;
  }
};

struct Mods {
  uint8_t bytes;
  bool ignore, sized;
};

// op 0 [dst], 1 [src], 2 size, 3 source size, 4 ignore-src
void copy(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  auto op = std::make_unique<LaneCopies>();
  op->lanes = w.active, op->bytes = m.bytes;
  const uint32_t ignored = m.ignore ? w.mask(in.op[4]) : 0;
  const uint32_t* sizes = m.sized ? w.source<uint32_t>(in.op[3]) : nullptr;
  for_lanes(w.active, [&](unsigned lane) {
    op->destination[lane] = shared_ref(w, Space::shared, in.op[0], lane, "cp.async").offset;
    op->source[lane] = w.address(in.op[1], lane);
    op->source_bytes[lane] = ignored >> lane & 1 ? 0 : sizes ? sizes[lane] : m.bytes;
    if (op->source_bytes[lane] > m.bytes)
      fault(FaultKind::misuse, lane, "cp.async of {} bytes with a source of {} bytes", m.bytes,
            op->source_bytes[lane]);
    if (op->destination[lane] % m.bytes || op->source[lane] % m.bytes)
      fault(FaultKind::misaligned_address, lane,
            "cp.async of {} bytes from {:#x} to shared {:#x}: both must be aligned to it", m.bytes,
            op->source[lane], op->destination[lane]);
    AsyncGroups& groups = w.cta.state->cp_async[w.id * kLanes + lane];
    op->group[lane] = groups.open();
    ++groups.groups.back().reading, ++groups.groups.back().writing;
  });
  op->queue = {Queue::cp_async, w.cta.rank << 16 | w.id};
  Cluster& cluster = w.cta.cluster;
  // Where the schedule is tolerant zeros, and what comes before them, do not take the time of a fetch. A CTA
  // of TensorRT-LLM's XQA that has no keys prefetches none, waits for nothing and writes its results to the
  // same shared memory.
  const bool is_over =
      cluster.grid.schedule.tolerant && cluster.grid.schedule.kind != Schedule::Kind::eager && !op->fetches();
  const LaneCopies* issued = op.get();
  cluster.submit(std::move(op), w, in, static_cast<unsigned>(std::countr_zero(w.active)));
  if (is_over && !issued->held(cluster))  // it is still pending: the schedule is not eager
    cluster.finish_now(w, "cp.async");
}

void tell(Warp& w, BarrierEvent::What what, int64_t groups) {
  if (Watcher* watch = w.cta.cluster.watcher) [[unlikely]]
    watch->barrier({what, &w.cta, 0, groups, 0, &w, w.active, nullptr});
}

void commit(Warp& w, const Instr&) {
  tell(w, BarrierEvent::What::copy_commit, 0);
  for_lanes(w.active, [&](unsigned lane) { w.cta.state->cp_async[w.id * kLanes + lane].commit(); });
}

bool groups_done(Warp& w, uint32_t lanes, uint32_t newest) {
  bool done = true;
  for_lanes(lanes, [&](unsigned lane) {
    auto it = w.cta.state->cp_async.find(w.id * kLanes + lane);
    if (it != w.cta.state->cp_async.end()) done = done && it->second.reached(newest, false);
  });
  return done;
}
bool wait_over(Warp& w, const LaneGroup& g) {
  return groups_done(w, g.mask & g.wait.address, static_cast<uint32_t>(g.wait.value));
}

void wait_group(Warp& w, const Instr& in) {
  if (!groups_done(w, w.active, static_cast<uint32_t>(in.aux)))
    return w.block({Wait::Kind::async_ops, w.active, in.aux, wait_over});
  tell(w, BarrierEvent::What::copy_waited, static_cast<uint32_t>(in.aux));
}
void wait_all(Warp& w, const Instr& in) {
  commit(w, in);
  if (!groups_done(w, w.active, 0)) return w.block({Wait::Kind::async_ops, w.active, 0, wait_over});
  tell(w, BarrierEvent::What::copy_waited, 0);
}

// Arrives when everything that its thread copied before has landed: it stands in the same queue.
struct LaneArrivals final : AsyncOp {
  uint32_t lanes = 0;
  uint32_t barrier[kLanes];
  const char* name() const override { return "cp.async.mbarrier.arrive"; }
  bool lost_at_exit() const override { return true; }
  bool run(Cluster&) override {
    for_lanes(lanes, [&](unsigned l) {
      lane = l;
      cta->state->engine_arrive(barrier[l], *this);
    });
    return true;
  }
};

struct ArriveMods {
  Space space;
  bool no_increment;
};

void arrive(Warp& w, const Instr& in) {
  constexpr const char* what = "cp.async.mbarrier.arrive";
  const ArriveMods m = unpack_aux<ArriveMods>(in);
  auto op = std::make_unique<LaneArrivals>();
  op->lanes = w.active;
  for_lanes(w.active, [&](unsigned lane) {
    const SharedRef r = shared_ref(w, m.space, in.op[0], lane, what);
    if (r.cta != &w.cta)
      fault(FaultKind::illegal_address, lane, "{} on an mbarrier of another CTA (rank {})", what,
            r.cta->rank);
    Mbarrier& b = w.cta.state->mbarrier(r.offset, what);
    op->barrier[lane] = r.offset;
    if (!m.no_increment) {  // it takes its own arrival along
      if (b.pending >= kMbarrierMaxCount)
        fault(FaultKind::mbarrier_count, lane,
              "{}: the pending count of the mbarrier at {:#x} would exceed {}", what, r.offset,
              kMbarrierMaxCount);
      ++b.pending;
      w.cta.state->store(r.offset, b);
    }
  });
  op->queue = {Queue::cp_async, w.cta.rank << 16 | w.id};
  w.cta.cluster.submit(std::move(op), w, in, static_cast<unsigned>(std::countr_zero(w.active)));
}

// st.async and red.async by all lanes of an instruction.
struct RemoteWrites final : AsyncOp {
  uint32_t lanes = 0, bytes = 0;
  Reduction reduction = Reduction::none;
  Type type = Type::none;
  SharedRef to[kLanes], barrier[kLanes];
  std::byte data[kLanes][16];

  const char* name() const override { return reduction == Reduction::none ? "st.async" : "red.async"; }
  // The values left the registers at issue: only a write to its own CTA needs that to be there.
  bool holds_exit() const override {
    bool own = false;
    for_lanes(lanes, [&](unsigned l) { own |= to[l].cta == cta; });
    return own;
  }
  bool run(Cluster& cluster) override {
    for_lanes(lanes, [&](unsigned l) {
      lane = l;
      Cta& target = *to[l].cta;
      if (target.exited || barrier[l].cta->exited)
        fault(FaultKind::peer_exited, l, "{} reaches CTA rank {}, which has exited", name(), target.rank);
      std::byte* out = target.window(to[l].offset, bytes, name());
      target.state->check_payload(to[l].offset, bytes, name());
      if (reduction == Reduction::none) {
        std::memcpy(out, data[l], bytes);
        target.define(to[l].offset, bytes);
      } else {
        if (!target.is_defined(to[l].offset, bytes))
          fault(FaultKind::uninitialized, l, "{} to shared {:#x} of CTA rank {}, which was never written",
                name(), to[l].offset, target.rank);
        reduce_elements(reduction, type, false, data[l], out, 1);
      }
      watch_access(cluster, reduction == Reduction::none ? AccessKind::write : AccessKind::atomic,
                   Space::shared, to[l].offset, bytes, &target, *this);
      barrier[l].cta->state->engine_complete_tx(barrier[l].offset, bytes, *this);
    });
    return true;
  }
};

struct RemoteMods {
  uint8_t elements, element_bytes;
  Reduction reduction;
  Type type;
  Space space;
};

// op 0 [address], 1 value or {values}, 2 [mbarrier]
void remote_write(Warp& w, const Instr& in) {
  const RemoteMods m = unpack_aux<RemoteMods>(in);
  auto op = std::make_unique<RemoteWrites>();
  op->lanes = w.active, op->bytes = uint32_t(m.elements) * m.element_bytes, op->reduction = m.reduction,
  op->type = m.type;
  const char* what = op->name();
  for_lanes(w.active, [&](unsigned lane) {
    op->to[lane] = shared_ref(w, m.space, in.op[0], lane, what);
    require_peers(w, what, lane);
    op->barrier[lane] = beside(w, op->to[lane], shared_ref(w, m.space, in.op[2], lane, what), lane, what);
    if (op->to[lane].offset % op->bytes)
      fault(FaultKind::misaligned_address, lane, "{} of {} bytes to shared {:#x}: not aligned", what,
            op->bytes, op->to[lane].offset);
    op->barrier[lane].cta->state->mbarrier(op->barrier[lane].offset, what);
  });
  for (unsigned e = 0; e < m.elements; ++e) {
    const Operand& o = in.op[1].kind == Operand::Kind::vector ? w.element(in.op[1], e) : in.op[1];
    if (m.element_bytes == 8) {
      const uint64_t* v = w.source<uint64_t>(o);
      for_lanes(w.active, [&](unsigned lane) { std::memcpy(op->data[lane] + e * 8, &v[lane], 8); });
    } else {
      const uint32_t* v = w.source<uint32_t>(o);
      for_lanes(w.active, [&](unsigned lane) { std::memcpy(op->data[lane] + e * 4, &v[lane], 4); });
    }
  }
  w.cta.cluster.submit(std::move(op), w, in, static_cast<unsigned>(std::countr_zero(w.active)));
}

Body bind_remote(Instr& in, const Source& s, Reduction reduction) {
  RemoteMods m{};
  m.type = s.type();
  m.reduction = reduction;
  m.space = shared_space(s);
  m.element_bytes = static_cast<uint8_t>(bits_of(m.type) / 8);
  m.elements = s.has("v4") ? 4 : s.has("v2") ? 2 : 1;
  const unsigned given = in.op[1].kind == Operand::Kind::vector ? in.op[1].count : 1;
  if (given != m.elements) fault(FaultKind::misuse, 0, "{} values given, {} needed", given, m.elements);
  if (m.elements * m.element_bytes > 16) fault(FaultKind::misuse, 0, ".v4 of 64-bit values does not exist");
  if (reduction != Reduction::none) {
    std::byte zero[8]{}, memory[8]{};
    if (!reduce_elements(reduction, m.type, false, zero, memory, 1))
      fault(FaultKind::misuse, 0, "this reduction is not defined on .{}", name_of(m.type));
  }
  in.aux = pack_aux(m);
  return remote_write;
}

Body bind_copy(Instr& in, const Source& s, bool sized, bool ignore) {
  const int64_t n = in.op[2].displacement;
  if (sized && in.op[3].immediate && in.op[3].displacement > n)
    fault(FaultKind::misuse, 0, "src-size is {}, cp-size {}", in.op[3].displacement, n);
  const bool ok = s.has("cg") ? n == 16 : n == 4 || n == 8 || n == 16;
  if (!ok) fault(FaultKind::misuse, 0, "cp-size is {}: .ca takes 4, 8 or 16, .cg takes 16", n);
  in.aux = pack_aux(Mods{static_cast<uint8_t>(n), ignore, sized});
  return copy;
}

}  // namespace

Body bind_cp_async(Instr& in, const Source& s) {
  return bind_copy(in, s, in.op[3].kind != Operand::Kind::none, false);
}
Body bind_cp_async_ignore(Instr& in, const Source& s) {
  in.op[4] = in.op[3];
  return bind_copy(in, s, false, true);
}
Body bind_cp_async_commit_group(Instr&, const Source&) { return commit; }
Body bind_cp_async_wait_group(Instr& in, const Source&) {
  if (in.op[0].displacement < 0) fault(FaultKind::misuse, 0, "a negative number of groups");
  in.aux = static_cast<uint64_t>(in.op[0].displacement);
  return wait_group;
}
Body bind_cp_async_wait_all(Instr&, const Source&) { return wait_all; }
Body bind_cp_async_mbarrier_arrive(Instr& in, const Source& s) {
  in.aux = pack_aux(ArriveMods{shared_space(s), s.has("noinc")});
  return arrive;
}
Body bind_st_async(Instr& in, const Source& s) { return bind_remote(in, s, Reduction::none); }
Body bind_red_async(Instr& in, const Source& s) { return bind_remote(in, s, reduction_named(s)); }

}  // namespace fp4lab::emu
