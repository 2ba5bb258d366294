// cp.async.bulk, cp.reduce.async.bulk and the bulk groups (PTX ISA 9.7.9.25.4).
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/engine/tma.h"

namespace fp4lab::emu {

namespace {

// .add.f32 keeps denormals here (seen on an H200), whatever the manual says of flushing.
enum class Way : uint8_t { global_to_shared, shared_to_shared, shared_to_global };

struct BulkCopy final : AsyncOp {
  Way way{};
  Reduction reduction = Reduction::none;
  Type type = Type::none;
  uint16_t byte_mask = 0xffff;
  uint32_t bytes = 0;
  uint64_t global = 0;
  uint32_t source = 0, destination = 0, barrier = 0;  // shared offsets
  std::vector<TmaTarget> targets;
  uint64_t group = 0;
  std::vector<std::byte> data;
  bool has_read = false;
  std::vector<Delivery> parts;  // in units of 16 bytes, that have not arrived

  const char* name() const override {
    return reduction == Reduction::none ? "cp.async.bulk" : "cp.reduce.async.bulk";
  }
  Counted counted() const override { return counted_by(targets, barrier); }
  bool serial() const override {
    return has_read && reduction != Reduction::none && way == Way::shared_to_global;
  }
  bool holds_exit() const override {
    if (way == Way::shared_to_global) return false;  // see tma_store.cpp
    if (way == Way::shared_to_shared && !has_read) return true;
    return has_read ? any_part_concerns(parts, targets, *cta) : any_concerns(targets, *cta);
  }
  bool reads_shared() const override { return way == Way::shared_to_global && !has_read; }
  bool held(const Cluster& cluster) const override {
    if (has_read) return false;
    return too_soon(cluster, *this) || any_ahead_of_init(targets, barrier, *this) ||
           (way == Way::global_to_shared && cluster.behind_product(*this));
  }

  void read_shared(Cluster& cluster) {
    const std::byte* from = cta->window(source, bytes, name());
    if (byte_mask == 0xffff && !cta->is_defined(source, bytes)) {
      uint32_t i = 0;
      while (cta->is_defined(source + i, 1)) ++i;
      cluster.note_or_throw(
          Fault(FaultKind::uninitialized, lane,
                fmt::format("{} reads shared [{:#x}, {:#x}) of CTA rank {}: byte {} was never written",
                            name(), source, source + bytes, cta->rank, i))
              .at(*cta, source + i),
          *this);
    }
    data.assign(from, from + bytes);
    watch_access(cluster, AccessKind::read, Space::shared, source, bytes, cta, *this);
  }

  void deliver(Cluster& cluster, const Delivery& part) {
    Cta& to = *targets[part.target].cta;
    Cta& signalled = *targets[part.target].barrier_cta;
    if (to.exited || signalled.exited)
      fault(FaultKind::peer_exited, lane, "{} arrives in CTA rank {}, which has exited", name(),
            to.exited ? to.rank : signalled.rank);
    const uint32_t first = part.first * 16, size = part.count * 16, at = destination + first;
    std::byte* out = to.window(at, size, name());
    cluster.statistics.tma_bytes += size;
    to.state->check_payload(at, size, name());
    const std::byte* from;
    if (way == Way::global_to_shared) {
      global_source(cluster, global + first, size, *this);
      from = cluster.grid.memory.host(global + first);
      watch_access(cluster, AccessKind::read, Space::global, global + first, size, nullptr, *this);
    } else {
      from = data.data() + first;
    }
    if (reduction == Reduction::none) {
      std::memcpy(out, from, size);
      to.define(at, size);
    } else {
      if (!to.is_defined(at, size))
        fault(FaultKind::uninitialized, lane,
              "{} adds to shared [{:#x}, {:#x}) of CTA rank {}, not all of it written before", name(), at,
              at + size, to.rank);
      reduce_elements(reduction, type, false, from, out, size * 8 / bits_of(type));
    }
    watch_access(cluster, reduction == Reduction::none ? AccessKind::write : AccessKind::atomic,
                 Space::shared, at, size, &to, *this);
    signalled.state->engine_complete_tx(barrier, size, *this, targets[part.target].phase);
  }

  // Of each 16 bytes those whose bit is set: nothing else is touched, and CUB's scan of CCCL 3.2 ends its
  // output within the last ones.
  void write_masked(Cluster& cluster) {
    for (uint32_t i = 0; i < bytes; ++i) {
      if (!(byte_mask >> (i % 16) & 1)) continue;
      uint32_t end = i + 1;
      while (end < bytes && byte_mask >> (end % 16) & 1) ++end;
      global_range(cluster.grid, global + i, end - i, name());
      std::memcpy(cluster.grid.memory.host(global + i), &data[i], end - i);
      watch_access(cluster, AccessKind::write, Space::global, global + i, end - i, nullptr, *this);
      i = end;
    }
  }

  void write_global(Cluster& cluster) {
    if (byte_mask != 0xffff) {
      cluster.statistics.tma_bytes += bytes / 16 * static_cast<uint32_t>(std::popcount(byte_mask));
      return write_masked(cluster);
    }
    global_range(cluster.grid, global, bytes, name());
    std::byte* out = cluster.grid.memory.host(global);
    cluster.statistics.tma_bytes += bytes;
    if (reduction != Reduction::none) {
      cluster.grid.watch_change(out, bytes);
      reduce_elements(reduction, type, false, data.data(), out, bytes * 8 / bits_of(type));
    } else {
      std::memcpy(out, data.data(), bytes);
    }
    watch_access(cluster, reduction == Reduction::none ? AccessKind::write : AccessKind::atomic,
                 Space::global, global, bytes, nullptr, *this);
  }

  bool run(Cluster& cluster) override {
    const bool eager = cluster.grid.schedule.kind == Schedule::Kind::eager;
    if (!has_read) {
      if (way != Way::global_to_shared) read_shared(cluster);
      if (way == Way::shared_to_global)
        --cta->state->bulk[warp * kLanes + lane].at(group).reading;
      else
        parts = deliveries(cluster, targets.size(), bytes / 16);
      has_read = true;
      cluster.notify();
      if (!eager) return false;
      if (serial()) return false;
    }
    if (way == Way::shared_to_global) {
      write_global(cluster);
      --cta->state->bulk[warp * kLanes + lane].at(group).writing;
      cluster.notify();
      return true;
    }
    do {
      const Delivery part = parts.back();
      parts.pop_back();
      deliver(cluster, part);
    } while (!parts.empty() && eager);
    return parts.empty();
  }
};

struct Mods {
  Way way;
  Space destination;
  Reduction reduction;
  Type type;
  bool multicast, masked, hint;
};

// The manual wants a multiple of 16, and more than 0. An H200 leaves off what is beyond one, and does nothing
// at all of 0 bytes (2026-11-22).
uint32_t size_of(Warp& w, uint32_t size, const char* name, unsigned lane) {
  if (size && size % 16 == 0) return size;
  const Fault odd(FaultKind::misaligned_address, lane,
                  size ? fmt::format("{}: the size {:#x} is not a multiple of 16 bytes", name, size)
                       : fmt::format("{} of 0 bytes", name));
  w.cta.cluster.note_or_throw(odd, w);
  return size / 16 * 16;
}

void require_multiple(uint64_t value, const char* what, const char* name, unsigned lane) {
  if (value % 16)
    fault(FaultKind::misaligned_address, lane, "{}: {} {:#x} is not a multiple of 16 bytes", name, what,
          value);
}

// op 0 [dst], 1 [src], 2 size, then policy and byte mask
void store(Warp& w, const Instr& in, const Mods& m, BulkCopy& op, unsigned lane) {
  op.global = w.address(in.op[0], lane);
  op.source = shared_ref(w, Space::shared, in.op[1], lane, op.name()).offset;
  require_multiple(op.global, "the global destination", op.name(), lane);
  require_multiple(op.source, "the shared source", op.name(), lane);
  if (m.masked) op.byte_mask = static_cast<uint16_t>(w.source<uint16_t>(in.op[4])[lane]);
  AsyncGroups& groups = w.cta.state->bulk[w.id * kLanes + lane];
  op.group = groups.open();
  ++groups.groups.back().reading, ++groups.groups.back().writing;
}

Cta* barrier_cta(Warp& w, const Mods& m, const SharedRef& dst, const SharedRef& bar, const char* what,
                 unsigned lane) {
  if (m.way == Way::shared_to_shared) require_peers(w, what, lane);
  return beside(w, dst, bar, lane, what).cta;
}

// op 0 [dst], 1 [src], 2 size, 3 [mbar], then mask and policy. No targets: there is nothing to do.
void load(Warp& w, const Instr& in, const Mods& m, BulkCopy& op, unsigned lane) {
  const char* what = op.name();
  const SharedRef dst = shared_ref(w, m.destination, in.op[0], lane, what);
  const SharedRef bar = shared_ref(w, m.destination, in.op[3], lane, what);
  require_multiple(dst.offset, "the shared destination", what, lane);
  op.destination = dst.offset;
  op.barrier = bar.offset;
  if (m.way == Way::global_to_shared) {
    op.global = w.address(in.op[1], lane);
    require_multiple(op.global, "the global source", what, lane);
  } else {
    op.source = shared_ref(w, Space::shared, in.op[1], lane, what).offset;
    require_multiple(op.source, "the shared source", what, lane);
  }
  if (m.multicast) {
    for (Cta* to : multicast_ctas(w, in.op[4], lane, what, true)) op.targets.push_back({to, to});
  } else {
    op.targets.push_back({dst.cta, barrier_cta(w, m, dst, bar, what, lane)});
  }
  for (TmaTarget& t : op.targets) t.phase = t.barrier_cta->state->expect_signal(w, op.barrier, what);
}

void copy(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  const uint32_t* size = w.source<uint32_t>(in.op[2]);
  for_lanes(w.active, [&](unsigned lane) {
    auto op = std::make_unique<BulkCopy>();
    op->way = m.way, op->reduction = m.reduction, op->type = m.type;
    op->bytes = size_of(w, size[lane], op->name(), lane);
    if (op->bytes == 0) return;
    if (m.way == Way::shared_to_global) {
      store(w, in, m, *op, lane);
    } else {
      load(w, in, m, *op, lane);
      if (op->targets.empty()) return;
    }
    w.cta.cluster.submit(std::move(op), w, in, lane);
  });
}

// A hint; the range must be valid all the same. An H200 passes by addresses that nothing is mapped at, 0 too.
// A contest's dual GEMM prefetches two tiles of scales where there may be one.
void prefetch(Warp& w, const Instr& in) {
  const uint32_t* size = w.source<uint32_t>(in.op[1]);
  for_lanes(w.active, [&](unsigned lane) {
    require_multiple(size[lane], "the size", "cp.async.bulk.prefetch", lane);
    try {
      global_range(w.cta.cluster.grid, w.address(in.op[0], lane), size[lane], "cp.async.bulk.prefetch");
    } catch (const Fault& outside) {
      w.cta.cluster.note_or_throw(outside, w);
    }
  });
}

void tell(Warp& w, BarrierEvent::What what, int64_t groups, bool read) {
  if (Watcher* watch = w.cta.cluster.watcher) [[unlikely]]
    watch->barrier({what, &w.cta, 0, groups, read, &w, w.active, nullptr});
}

void commit(Warp& w, const Instr&) {
  tell(w, BarrierEvent::What::bulk_commit, 0, false);
  for_lanes(w.active, [&](unsigned lane) { w.cta.state->bulk[w.id * kLanes + lane].commit(); });
}

// On hardware the write of a store follows its read closely, and what a thread does behind wait_group.read to
// tell others takes longer: Tencent's HPC-Ops hands partial sums over so. Where the schedule is tolerant
// .read waits for the writes, too.
bool groups_done(Warp& w, uint32_t lanes, uint64_t value) {
  const bool read = value >> 32 != 0 && !w.cta.cluster.grid.schedule.tolerant;
  bool done = true;
  for_lanes(lanes, [&](unsigned lane) {
    auto it = w.cta.state->bulk.find(w.id * kLanes + lane);
    if (it != w.cta.state->bulk.end()) done = done && it->second.reached(static_cast<uint32_t>(value), read);
  });
  return done;
}
bool wait_over(Warp& w, const LaneGroup& g) { return groups_done(w, g.mask & g.wait.address, g.wait.value); }

// aux: N in the low half, 1 in the high half for .read
void wait_group(Warp& w, const Instr& in) {
  if (!groups_done(w, w.active, in.aux)) {
    w.block({Wait::Kind::async_ops, w.active, in.aux, wait_over});
    return;
  }
  tell(w, BarrierEvent::What::bulk_waited, static_cast<uint32_t>(in.aux), in.aux >> 32 != 0);
}

void check_constant_size(const Operand& size) {
  if (size.kind == Operand::Kind::value && size.immediate && size.displacement % 16)
    fault(FaultKind::misuse, 0, "a size of {} bytes: must be a multiple of 16", size.displacement);
}

Body bind(Instr& in, const Source& s, Way way) {
  check_constant_size(in.op[2]);
  Mods m{};
  m.way = way;
  m.destination = shared_space(s);
  if (way == Way::shared_to_shared) m.destination = Space::shared_cluster;
  m.reduction = reduction_named(s);
  m.type = s.type();
  m.multicast = s.has("multicast::cluster");
  if (m.multicast && m.destination == Space::shared)
    fault(FaultKind::misuse, 0, "multicast is for .shared::cluster");
  m.masked = s.has("cp_mask");
  m.hint = s.has("L2::cache_hint");
  if (m.reduction != Reduction::none) {
    alignas(16) std::byte zero[16]{}, memory[16]{};
    if (!reduce_elements(m.reduction, m.type, false, zero, memory, 128 / bits_of(m.type)))
      fault(FaultKind::misuse, 0, "this reduction is not defined on .{}", name_of(m.type));
  }
  in.aux = pack_aux(m);
  return copy;
}

}  // namespace

Body bind_bulk_load(Instr& in, const Source& s) { return bind(in, s, Way::global_to_shared); }
Body bind_bulk_copy_cluster(Instr& in, const Source& s) { return bind(in, s, Way::shared_to_shared); }
Body bind_bulk_store(Instr& in, const Source& s) { return bind(in, s, Way::shared_to_global); }
Body bind_bulk_reduce_global(Instr& in, const Source& s) { return bind(in, s, Way::shared_to_global); }
Body bind_bulk_reduce_cluster(Instr& in, const Source& s) { return bind(in, s, Way::shared_to_shared); }
Body bind_bulk_prefetch(Instr& in, const Source&) {
  check_constant_size(in.op[1]);
  return prefetch;
}
Body bind_bulk_commit_group(Instr&, const Source&) { return commit; }
Body bind_bulk_wait_group(Instr& in, const Source& s) {
  if (in.op[0].displacement < 0) fault(FaultKind::misuse, 0, "a negative number of groups");
  in.aux = static_cast<uint32_t>(in.op[0].displacement) | (s.has("read") ? uint64_t(1) << 32 : 0);
  return wait_group;
}

}  // namespace fp4lab::emu
