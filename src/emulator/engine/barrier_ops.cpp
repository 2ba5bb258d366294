// bar / barrier.cta (PTX ISA 9.7.13.1) and barrier.cluster (9.7.13.4).
#include <bit>

#include "emulator/engine/operand.h"
#include "fp4lab/error.h"

namespace fp4lab::emu {

namespace {

struct Mods {
  bool aligned;
  enum Reduce : uint8_t { none, popc, all, any } reduce;
};

// One operand that must be the same in all active lanes.
uint32_t uniform(Warp& w, const Operand& o, const char* what) {
  const uint32_t* v = w.source<uint32_t>(o);
  uint32_t first = v[std::countr_zero(w.active)];
  for_lanes(w.active, [&](unsigned lane) {
    if (v[lane] != first)
      fault(FaultKind::collective, lane, "{} differs between the lanes of a warp: {} and {}", what, first,
            v[lane]);
  });
  return first;
}

struct Arrival {
  unsigned id;
  uint32_t count;
};

Arrival operands(Warp& w, const Operand& id, const Operand& count) {
  Arrival a{uniform(w, id, "the barrier's number"),
            count ? uniform(w, count, "the barrier's thread count") : 0};
  if (a.id > 15) fault(FaultKind::named_barrier, kLanes, "barrier {}: there are barriers 0 to 15", a.id);
  if (count && (a.count == 0 || a.count % kLanes))
    fault(FaultKind::named_barrier, kLanes, "barrier {} with a thread count of {}: must be a multiple of {}",
          a.id, a.count, kLanes);
  return a;
}

void tell(Warp& w, BarrierEvent::What what, uint32_t id, uint32_t lanes) {
  w.note();
  if (Watcher* watch = w.cta.cluster.watcher) [[unlikely]]
    watch->barrier({what, &w.cta, id, std::popcount(lanes), 0, &w, lanes, nullptr});
}

bool released(Warp& w, const LaneGroup& g) {
  NamedBarrier& b = w.cta.state->named[g.wait.address];
  if ((b.parts[w.id].released & g.mask) == g.mask) return true;
  b.settle(w.cta);  // lanes that it waited for may have exited
  return (b.parts[w.id].released & g.mask) == g.mask;
}

void settle(Warp& w, NamedBarrier& b) {
  if (b.settle(w.cta)) w.cta.cluster.notify();
}

// Returns true when the active lanes may go on: the generation they arrived in is complete.
bool sync(Warp& w, const Arrival& a, uint32_t predicate) {
  NamedBarrier& b = w.cta.state->named[a.id];
  auto gone = [&] { return !b.parts.empty() && (b.parts[w.id].released & w.active) == w.active; };
  if (!gone()) {
    if (b.parts.empty() || !(b.parts[w.id].waiting & w.active)) {
      settle_tensor_memory(w);
      tell(w, BarrierEvent::What::bar_arrive, a.id, w.active);
      b.arrive(w.cta, a.id, w.id, w.active, a.count, true, predicate);
      settle(w, b);
    }
    if (!gone()) {
      w.block({Wait::Kind::named_barrier, a.id, a.count, released});
      return false;
    }
  }
  b.parts[w.id].released &= ~w.active;
  tell(w, BarrierEvent::What::bar_done, a.id, w.active);
  return true;
}

void bar_sync(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  if (m.aligned) w.require_full(in);
  sync(w, operands(w, in.op[0], in.op[1]), 0);
}

void bar_arrive(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  if (m.aligned) w.require_full(in);
  const Arrival a = operands(w, in.op[0], in.op[1]);
  NamedBarrier& b = w.cta.state->named[a.id];
  settle_tensor_memory(w);
  tell(w, BarrierEvent::What::bar_arrive, a.id, w.active);
  b.arrive(w.cta, a.id, w.id, w.active, a.count, false, 0);
  settle(w, b);
}

// op 0 the result, op 1 the barrier, op 2 the count (optional), op 3 the predicate
void bar_red(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  if (m.aligned) w.require_full(in);
  const Arrival a = operands(w, in.op[1], in.op[2]);
  if (!sync(w, a, w.mask(in.op[3]) & w.active)) return;
  const NamedBarrier::Part& p = w.cta.state->named[a.id].parts[w.id];
  if (m.reduce == Mods::popc) {
    uint32_t* d = w.target<uint32_t>(in.op[0]);
    for_lanes(w.active, [&](unsigned lane) { d[lane] = p.result; });
  } else {
    bool holds = m.reduce == Mods::all ? p.result == p.all : p.result != 0;
    w.set_mask(in.op[0], holds ? ~0u : 0u);
  }
}

Body with(Body body, Instr& in, const Source& s) {
  const unsigned first = s.has("red") ? 1 : 0;  // the barrier's number, then the count of threads
  if (const Operand& id = in.op[first]; id.immediate && id.displacement > 15)
    fail("barrier {}: they are numbered 0 to 15", id.displacement);
  if (const Operand& n = in.op[first + 1];
      n.kind == Operand::Kind::value && n.immediate && n.displacement % 32)
    fail("{} threads are not a multiple of a warp's 32", n.displacement);
  Mods m{s.tokens[0] == "bar" || s.has("aligned"), Mods::none};
  if (s.has("popc")) m.reduce = Mods::popc;
  if (s.has("and")) m.reduce = Mods::all;
  if (s.has("or")) m.reduce = Mods::any;
  in.aux = pack_aux(m);
  return body;
}

// --- barrier.cluster

std::vector<ClusterBarrierPart>& parts(Cta& cta) {
  auto& p = cta.state->cluster_barrier;
  if (p.empty()) p.resize(cta.warps.size());
  return p;
}

// Completes the phase when every live lane of every CTA has arrived.
bool settle_cluster(Cluster& cluster) {
  bool any = false;
  for (auto& cta : cluster.ctas)
    for (auto& warp : cta->warps) {
      uint32_t live = warp->lanes & ~warp->exited;
      uint32_t arrived = parts(*cta)[warp->id].arrived;
      if ((arrived & live) != live) return false;
      any |= arrived != 0;
    }
  if (!any) return false;
  const uint64_t now = cluster.next_event();
  for (auto& cta : cluster.ctas) {
    for (ClusterBarrierPart& p : parts(*cta)) p.finish_phase();
    for (auto& warp : cta->warps) warp->synchronised = now;
  }
  return true;
}

bool cluster_released(Warp& w, const LaneGroup& g) {
  auto gone = [&] { return parts(w.cta)[w.id].ends_wait(g.mask); };
  if (gone()) return true;
  settle_cluster(w.cta.cluster);
  return gone();
}

// "Each thread must arrive at the barrier only once before the barrier completes" (PTX ISA 9.7.13.4).
// FlashAttention 4's MLA kernels arrive twice and then wait twice: where the schedule tolerates it the second
// arrival is one for the next phase, with a note, as on an H200.
void arrive_again(Warp& w, ClusterBarrierPart& p, uint32_t lanes) {
  const Fault again(FaultKind::cluster_barrier, static_cast<unsigned>(std::countr_zero(lanes)),
                    "barrier.cluster.arrive by a thread that arrived before and has not executed "
                    "barrier.cluster.wait since");
  const uint32_t full = p.next | p.complete_twice | (p.complete & p.arrived);
  if (full & lanes) throw again;
  w.cta.cluster.note_or_throw(again, w);
}

void cluster_arrive(Warp& w, const Instr& in) {
  if (unpack_aux<Mods>(in).aligned) w.require_full(in);
  ClusterBarrierPart& p = parts(w.cta)[w.id];
  if (uint32_t twice = (p.arrived | p.complete) & w.active) arrive_again(w, p, twice);
  settle_tensor_memory(w);
  p.next |= p.arrived & w.active;
  p.arrived |= w.active;
  tell(w, BarrierEvent::What::cluster_arrive, 0, w.active);
  if (settle_cluster(w.cta.cluster)) w.cta.cluster.notify();
}

void cluster_wait(Warp& w, const Instr& in) {
  if (unpack_aux<Mods>(in).aligned) w.require_full(in);
  ClusterBarrierPart& p = parts(w.cta)[w.id];
  if (uint32_t never = ~(p.arrived | p.complete) & w.active)
    fault(FaultKind::cluster_barrier, static_cast<unsigned>(std::countr_zero(never)),
          "barrier.cluster.wait by a thread that has not executed barrier.cluster.arrive");
  settle_cluster(w.cta.cluster);
  if (!p.ends_wait(w.active)) {
    w.block({Wait::Kind::cluster_barrier, 0, 0, cluster_released});
    return;
  }
  p.waited(w.active);
  tell(w, BarrierEvent::What::cluster_done, 0, w.active);
}

}  // namespace

Body bind_bar_sync(Instr& in, const Source& s) { return with(bar_sync, in, s); }
Body bind_bar_arrive(Instr& in, const Source& s) { return with(bar_arrive, in, s); }
Body bind_bar_red_popc(Instr& in, const Source& s) { return with(bar_red, in, s); }
Body bind_bar_red_pred(Instr& in, const Source& s) { return with(bar_red, in, s); }
Body bind_barrier_sync(Instr& in, const Source& s) { return with(bar_sync, in, s); }
Body bind_barrier_arrive(Instr& in, const Source& s) { return with(bar_arrive, in, s); }
Body bind_barrier_red_popc(Instr& in, const Source& s) { return with(bar_red, in, s); }
Body bind_barrier_red_pred(Instr& in, const Source& s) { return with(bar_red, in, s); }
Body bind_barrier_cluster_arrive(Instr& in, const Source& s) { return with(cluster_arrive, in, s); }
Body bind_barrier_cluster_wait(Instr& in, const Source& s) { return with(cluster_wait, in, s); }

}  // namespace fp4lab::emu
