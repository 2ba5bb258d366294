// mbarrier instructions (PTX ISA 9.7.13.15).
#include <cstring>
#include <utility>

#include "emulator/engine/describe.h"
#include "emulator/engine/operand.h"
#include "fp4lab/error.h"

namespace fp4lab::emu {

namespace {

constexpr uint64_t kRetry = 16;  // instructions from a failed wait to the same one again: a loop around it

struct Mods {
  Space space;
  bool parity, expect, no_complete, cluster_scope;  // cluster_scope: spelled, and not relaxed
};

Mods mods(const Source& s) {
  return {shared_space(s), s.has("parity"), s.has("expect_tx"), s.has("noComplete"),
          s.has("cluster") && !s.has("relaxed")};
}

void tell(Warp& w, BarrierEvent::What what, const SharedRef& r, int64_t amount, uint32_t phase,
          unsigned lane) {
  if (Watcher* watch = w.cta.cluster.watcher) [[unlikely]]
    watch->barrier({what, r.cta, r.offset, amount, phase, &w, 1u << lane, nullptr});
}

// Whether `holds` of an mbarrier that an active lane is about to change, and a warp that could run has not
// moved since its last phase ended, or since it could go on. Nothing makes the change wait for that warp, and
// it would sleep through a whole phase; hardware lets no warp stand for that long, and public kernels count
// on it (ThunderKittens' producers look at slots that are free from the start; Mirage's MLA makes the
// mbarrier again that its warps have just waited for). Where the schedule tolerates that, the change waits
// for it.
template <typename Holds>
bool sleepers(Warp& w, const Mods& m, const Operand& address, const char* what, Holds holds) {
  const Cluster& cluster = w.cta.cluster;
  if (!cluster.grid.schedule.tolerant) return false;
  bool any = false;
  try {
    for_lanes(w.active, [&](unsigned lane) {
      const SharedRef r = shared_ref(w, m.space, address, lane, what);
      const Mbarrier* b = r.cta->state->mbarriers.find(r.offset);
      any |= b && holds(*b) && !cluster.all_awake_since(b->turn);
    });
  } catch (const Fault&) {  // the instruction's own
    return false;
  }
  return any;
}

// Whether `sleepers` would sleep through the phase that these arrivals might end.
bool ends_over_sleepers(Warp& w, const Instr& in, const Mods& m, const uint32_t* amount) {
  if (m.expect) return false;
  uint64_t arriving = 0;
  for_lanes(w.active, [&](unsigned lane) { arriving += amount ? amount[lane] : 1; });
  return sleepers(w, m, in.op[1], "mbarrier.arrive",
                  [&](const Mbarrier& b) { return b.pending <= arriving; });
}

void init(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  const uint32_t* count = w.source<uint32_t>(in.op[1]);
  if (sleepers(w, m, in.op[0], "mbarrier.init", [](const Mbarrier&) { return true; })) return w.again(in);
  for_lanes(w.active, [&](unsigned lane) {
    SharedRef r = shared_ref(w, m.space, in.op[0], lane, "mbarrier.init");
    CtaState& state = *r.cta->state;
    if (r.cta != &w.cta)
      fault(FaultKind::illegal_address, lane, "mbarrier.init of an mbarrier of another CTA (rank {})",
            r.cta->rank);
    if (r.offset % 8)
      fault(FaultKind::misaligned_address, lane,
            "mbarrier.init at shared offset {:#x}: not aligned to 8 bytes", r.offset);
    r.cta->window(r.offset, 8, "mbarrier.init");
    if (Mbarrier* live = state.mbarriers.find(r.offset)) {
      uint64_t bits;
      std::memcpy(&bits, r.cta->window(r.offset, 8, "mbarrier.init"), 8);
      const Fault again(
          FaultKind::mbarrier_again, lane,
          fmt::format("mbarrier.init of the live mbarrier at shared offset {:#x} without mbarrier.inval "
                      "before ({}{})",
                      r.offset, live->describe(),
                      bits == live->state().bits ? "" : "; its bytes were overwritten in between"));
      // Hardware starts it afresh, and kernels that make their barriers again for every tile count on it. Not
      // so where somebody waits for it or bytes are on their way.
      if (live->waiters || live->tx) throw again;
      w.cta.cluster.note_or_throw(again, w);
      state.mbarriers.remove(r.offset);
    }
    state.check_payload(r.offset, 8, "mbarrier.init");
    Mbarrier& b = state.mbarriers.add(r.offset, Mbarrier::fresh(count[lane]));
    b.note(MbarrierParty::What::inits, 0, &in, w.group->function, w.cta.rank, w.id, 1u << lane, count[lane]);
    state.store(r.offset, b);
    r.cta->define(r.offset, 8);
    tell(w, BarrierEvent::What::init, r, count[lane], 0, lane);
  });
  w.cta.cluster.notify();  // see await_init
}

void inval(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  if (sleepers(w, m, in.op[0], "mbarrier.inval", [](const Mbarrier&) { return true; })) return w.again(in);
  for_lanes(w.active, [&](unsigned lane) {
    SharedRef r = shared_ref(w, m.space, in.op[0], lane, "mbarrier.inval");
    if (w.cta.cluster.grid.schedule.tolerant && !r.cta->state->mbarriers.find(r.offset)) {
      // Hardware only writes the word: destructors of libcu++ run for every thread that comes there.
      w.cta.cluster.tolerated(
          Fault(FaultKind::mbarrier_inval, lane,
                fmt::format("mbarrier.inval at shared offset {:#x}, where there is no mbarrier", r.offset)),
          w);
      return;
    }
    Mbarrier& b = r.cta->state->mbarrier(r.offset, "mbarrier.inval");
    if (b.waiters)
      fault(FaultKind::mbarrier_inval, lane,
            "mbarrier.inval of the mbarrier at shared offset {:#x} while warp {} waits on it", r.offset,
            std::countr_zero(b.waiters));
    tell(w, BarrierEvent::What::inval, r, 0, b.phase, lane);
    r.cta->state->mbarriers.remove(r.offset);
    r.cta->undefine(r.offset, 8);
  });
}

// What a warp did in place of waiting for the phase of `b` that runs; empty: it has waited well.
std::string waited_badly(const Warp& w, uint32_t offset, const Mbarrier& b) {
  const CtaState& own = *w.cta.state;
  std::string text = fmt::format("warp {} has not waited for it", w.id);
  own.warps[w.id].newest_pass_first([&](const PassedWait& p) {
    if (p.offset != offset) return false;
    text = p.phase != kNoPhase && !p.again
               ? ""
               : fmt::format("wrong parity: warp {} waited for it by line {} with parity {}, and got {}",
                             w.id, own.ptx_line(p.function, *p.at), p.parity,
                             p.phase == kNoPhase
                                 ? "the phase before the first, which counts as over"
                                 : fmt::format("phase {}, that it had waited for before", p.phase));
    return true;
  });
  return text.empty() ? text : fmt::format("{}, whose phase {} has parity {}", text, b.phase, b.phase & 1);
}

// The warp waited for the buffer to be free, and it was given back before what this mbarrier counts was
// there.
std::string given_back_early(const Warp& w, uint32_t offset, const Mbarrier& b, const PassedWait& wait) {
  const CtaState& own = *w.cta.state;
  const Mbarrier* empty = own.mbarriers.find(wait.offset);
  for (const MbarrierParty& p : empty ? empty->parties : std::vector<MbarrierParty>{}) {
    if (p.what != MbarrierParty::What::arrives || !p.at || p.rank != w.cta.rank || p.warp == w.id) continue;
    const std::string why = waited_badly(*w.cta.warps[p.warp], offset, b);
    return fmt::format(
        "; the buffer was given back too early, by warp {}, line {} (on the mbarrier at {:#x}{}), while "
        "phase {} of this "
        "one was running{}{}",
        p.warp, own.ptx_line(p.function, *p.at), w.cta.address_of(wait.offset), symbol_of(w.cta, wait.offset),
        b.phase, why.empty() ? "" : ": ", why);
  }
  return {};
}

// Why there is an arrival too many: nothing made the warp wait since its last one, or what it waited for came
// too early.
std::string came_before(const Warp& w, uint32_t offset, const Mbarrier& b) {
  const CtaState& own = *w.cta.state;
  std::string text;
  for (const MbarrierParty& p : b.parties)
    if (p.what == MbarrierParty::What::arrives && p.phase == b.phase && p.rank == w.cta.rank &&
        p.warp == w.id && p.at)
      text = fmt::format(
          "; warp {} has arrived in this phase before, by line {}: a wait is missing between the two, for "
          "the phase to "
          "end or for the buffer to be given back",
          w.id, own.ptx_line(p.function, *p.at));
  if (text.empty() || own.warps.empty()) return text;
  const WarpEngines& e = own.warps[w.id];
  const PassedWait* last = nullptr;
  e.newest_pass_first([&](const PassedWait& p) { return (last = &p) != nullptr; });
  if (!last) return text + fmt::format(" (warp {} has waited for no mbarrier so far)", w.id);
  const bool since = last->instructions > e.arrived_at, held = last->phase != kNoPhase && !last->again;
  if (since && held)
    if (const std::string early = given_back_early(w, offset, b, *last); !early.empty()) return early;
  text += fmt::format(" (the last wait of warp {} was line {}, with parity {} for the mbarrier at {:#x}{}",
                      w.id, own.ptx_line(last->function, *last->at), last->parity,
                      w.cta.address_of(last->offset), symbol_of(w.cta, last->offset));
  if (since && !held)
    text +=
        fmt::format("; wrong parity: it got {}",
                    last->phase == kNoPhase ? "the phase before the first, which counts as over"
                                            : fmt::format("phase {}, which it had seen before", last->phase));
  return text + ")";
}

// One operation on a barrier by one lane; bookkeeping after the change.
template <class F>
void change(Warp& w, const SharedRef& r, const char* what, unsigned lane, BarrierEvent::What event,
            int64_t amount, F&& f) {
  CtaState& state = *r.cta->state;
  Mbarrier& b = state.mbarrier(r.offset, what);
  uint32_t phase = b.phase;
  bool flipped = false;
  try {
    flipped = state.counted(b, [&] { return f(b); });
  } catch (const Fault& e) {
    if (!std::string_view(e.what()).starts_with("too many arrivals")) throw;
    throw Fault(e.kind, e.lane, e.what() + came_before(w, r.offset, b));
  }
  using Party = MbarrierParty::What;
  b.note(event == BarrierEvent::What::arrive      ? Party::arrives
         : event == BarrierEvent::What::expect_tx ? Party::expects
                                                  : Party::delivers,
         phase, w.current(), w.group->function, w.cta.rank, w.id, 1u << lane, amount);
  w.note();
  if (event == BarrierEvent::What::arrive) w.cta.state->warp(w.id).arrived_at = w.instructions;
  state.store(r.offset, b);
  tell(w, event, r, amount, phase, lane);
  if (flipped) {
    b.turn = w.cta.cluster.turns();
    b.ended = w.cta.cluster.next_event();
    b.ender = &w;
    tell(w, BarrierEvent::What::phase, r, 0, b.phase, lane);
    w.cta.cluster.notify();
  }
}

void expect_tx(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  const uint32_t* bytes = w.source<uint32_t>(in.op[1]);
  for_lanes(w.active, [&](unsigned lane) {
    SharedRef r = shared_ref(w, m.space, in.op[0], lane, "mbarrier.expect_tx");
    change(w, r, "mbarrier.expect_tx", lane, BarrierEvent::What::expect_tx, bytes[lane],
           [&](Mbarrier& b) { return b.expect_tx(bytes[lane], r.cta->address_of(r.offset)); });
  });
}

void complete_tx(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  const uint32_t* bytes = w.source<uint32_t>(in.op[1]);
  for_lanes(w.active, [&](unsigned lane) {
    SharedRef r = shared_ref(w, m.space, in.op[0], lane, "mbarrier.complete_tx");
    change(w, r, "mbarrier.complete_tx", lane, BarrierEvent::What::complete_tx, bytes[lane],
           [&](Mbarrier& b) { return b.complete_tx(bytes[lane], r.cta->address_of(r.offset)); });
  });
}

bool initialised(Warp& w, const LaneGroup& g) {
  const Cta& there = *w.cta.cluster.ctas[g.wait.value];
  return there.exited || there.state->mbarriers.overlapping(g.wait.address, 8) >= 0;
}

// An arrival on another CTA's mbarrier, and nothing has made that CTA come to its `mbarrier.init` first.
// Hardware starts the CTAs of a cluster together, and the way to another SM is longer than a few
// instructions, so programs without a cluster barrier between get by. Where the schedule tolerates that, the
// warp waits here, as if it had come later, with a note. True: it is parked.
bool await_init(Warp& w, const Mods& m, const Operand& address, const char* what) {
  Cluster& cluster = w.cta.cluster;
  if (!cluster.grid.schedule.tolerant || cluster.ctas.size() == 1) return false;
  const bool in_vain = std::exchange(w.group->timed_out, false);
  bool parked = false;
  for_lanes(w.active, [&](unsigned lane) {
    if (parked || in_vain) return;
    SharedRef r;
    try {
      r = shared_ref(w, m.space, address, lane, what);
      if (r.cta != &w.cta && r.offset % 8 == 0) r.cta->state->mbarrier(r.offset, what);
    } catch (const Fault& early) {
      if (early.kind != FaultKind::mbarrier_absent) return;  // the instruction's own
      cluster.tolerated(early, w);
      w.block({Wait::Kind::mbarrier, r.offset, r.cta->rank, initialised});
      parked = true;
    }
  });
  return parked;
}

// mbarrier.arrive and arrive_drop: op 0 the state or a sink, op 1 the address, op 2 the count, or the bytes
// of .expect_tx.
template <bool drop>
void arrive(Warp& w, const Instr& in) {
  constexpr const char* what = drop ? "mbarrier.arrive_drop" : "mbarrier.arrive";
  const Mods m = unpack_aux<Mods>(in);
  const uint32_t* amount = in.op[2] ? w.source<uint32_t>(in.op[2]) : nullptr;
  const bool wants_state = in.op[0].kind == Operand::Kind::value;
  if (await_init(w, m, in.op[1], what)) return;
  if (ends_over_sleepers(w, in, m, amount)) return w.again(in);
  settle_tensor_memory(w);
  uint64_t states[kLanes];
  for_lanes(w.active, [&](unsigned lane) {
    SharedRef r;
    try {
      r = shared_ref(w, m.space, in.op[1], lane, what);
    } catch (const Fault& gone) {
      // Persistent kernels give the last slot back to a CTA that may have ended: nobody is there to miss it.
      if (gone.kind != FaultKind::peer_exited || !w.cta.cluster.grid.schedule.tolerant) throw;
      Fault noted = gone;
      noted.serious = m.cluster_scope;
      return w.cta.cluster.tolerated(noted, w);
    }
    if (wants_state && r.cta != &w.cta)
      fault(FaultKind::mbarrier_state, lane,
            "{} on an mbarrier of CTA rank {} must not ask for the state (use _)", what, r.cta->rank);
    const uint32_t address = r.cta->address_of(r.offset);
    const uint32_t count = m.expect || !amount ? 1 : amount[lane];
    if (m.expect)
      change(w, r, what, lane, BarrierEvent::What::expect_tx, amount[lane], [&](Mbarrier& b) {
        states[lane] = b.state().bits;
        return b.expect_tx(amount[lane], address);
      });
    change(w, r, what, lane, BarrierEvent::What::arrive, count, [&](Mbarrier& b) {
      if (!m.expect) states[lane] = b.state().bits;
      return drop ? b.drop(count, address) : b.arrive(count, address, !m.no_complete);
    });
  });
  if (wants_state) {
    uint64_t* d = w.target<uint64_t>(in.op[0]);
    for_lanes(w.active, [&](unsigned lane) { d[lane] = states[lane]; });
  }
}

// By the phase's number, not its parity: who waits when it ends is released, however late it looks.
bool wait_over(Warp& w, const LaneGroup& g) {
  const Mbarrier* b = w.cta.state->mbarriers.find(g.wait.address);
  return !b || b->phase != g.asked.phase;
}

// Whether the group asked for this phase at this instruction a moment ago, in vain, and it has ended since:
// hardware would have answered then, even if the next phase has ended too by now.
bool missed(const Warp& w, const Instr& in, const Mbarrier& b, uint32_t offset, uint32_t parity) {
  const Asked& asked = w.group->asked;
  return asked.at == &in && asked.offset == offset && (asked.phase & 1) == parity && b.phase != asked.phase &&
         w.instructions - asked.instructions <= kRetry;
}

// What the lanes of a wait see.
struct Look {
  uint32_t done = 0;    // lanes whose phase is over
  bool uniform = true;  // all ask for the same: the first lane's barrier and parity
  uint32_t offset = 0, parity = 0;
  uint32_t phase = 0;     // that the last lane asked for
  bool is_known = false;  // of a phase that is over the warp knows so
};

// DeeperGEMM counts its phases and gives the number. An H200 takes the lowest bit (seen with 2, 3, 4, 7, 2^31
// and 2^32 - 1).
uint32_t lowest_bit(Warp& w, uint32_t parity, unsigned lane, const char* what) {
  w.cta.cluster.note_or_throw(
      Fault(FaultKind::mbarrier_state, lane,
            fmt::format("{}.parity with parity {}: must be 0 or 1; hardware takes the lowest bit", what,
                        parity)),
      w);
  return parity & 1;
}

// Whether a warp knows that a phase is over: it has ended the phase, a barrier has let it go on since, or it
// has been told already.
bool knows_end(const Warp& w, const Mbarrier& b, uint32_t phase) {
  return b.ender == &w || b.ended < w.synchronised || b.seen_by(w.cta.rank, w.id) > phase;
}

// op 1 the address, op 2 the parity or state.
Look look(Warp& w, const Instr& in, const char* what) {
  const Mods m = unpack_aux<Mods>(in);
  const uint32_t* parity = m.parity ? w.source<uint32_t>(in.op[2]) : nullptr;
  const uint64_t* state = m.parity ? nullptr : w.source<uint64_t>(in.op[2]);
  Look seen;
  bool first = true, last_done = false;
  uint64_t last_key = ~0ull;  // address and parity of the lane before
  for_lanes(w.active, [&](unsigned lane) {
    uint32_t p;
    if (m.parity) {
      p = parity[lane];
      if (p > 1) [[unlikely]]
        p = lowest_bit(w, p, lane, what);
    } else {
      MbarrierState s{state[lane]};
      if (!s.plausible())
        fault(FaultKind::mbarrier_state, lane, "{} with {:#x}, which no mbarrier.arrive returned", what,
              s.bits);
      p = s.parity();
    }
    const uint64_t key = w.address(in.op[1], lane) << 1 | p;
    if (key != last_key) {
      SharedRef r = shared_ref(w, m.space, in.op[1], lane, what);
      if (r.cta != &w.cta)
        fault(FaultKind::illegal_address, lane, "{} on an mbarrier of another CTA (rank {})", what,
              r.cta->rank);
      Mbarrier& b = w.cta.state->mbarrier(r.offset, what);
      b.waiters &= ~(uint64_t(1) << (w.id & 63));
      const bool late = missed(w, in, b, r.offset, p);
      last_done = late || b.done(p);
      seen.phase = late ? w.group->asked.phase : b.done(p) ? b.phase - 1 : b.phase;
      seen.is_known |= last_done && knows_end(w, b, seen.phase);
      last_key = key;
      seen.uniform = first;
      if (first) seen.offset = r.offset, seen.parity = p;
      first = false;
    }
    if (last_done) seen.done |= 1u << lane;
  });
  return seen;
}

// One event for the lanes that have seen the same barrier's phase end.
void tell_waits_done(Warp& w, const Instr& in, uint32_t done, uint32_t phase, bool at_once,
                     const char* what) {
  const Mods m = unpack_aux<Mods>(in);
  uint32_t told = 0;
  for_lanes(done, [&](unsigned lane) {
    if (told >> lane & 1) return;
    const uint64_t address = w.address(in.op[1], lane);
    uint32_t same = 0;
    for_lanes(done, [&](unsigned l) { same |= uint32_t(w.address(in.op[1], l) == address) << l; });
    told |= same;
    const SharedRef r = shared_ref(w, m.space, address, lane, what);
    w.cta.cluster.watcher->barrier(
        {BarrierEvent::What::wait_done, r.cta, r.offset, at_once, phase, &w, same, nullptr});
  });
}

// op 0 the predicate. A failed try_wait parks the group until the phase is over or the scheduler ends the
// wait (Warp::time_out_waits). The end of a phase may also come a little later to a warp that asks, unless it
// knows of it (knows_end): the adversarial schedule makes use of that.
template <bool may_park>
void wait(Warp& w, const Instr& in) {
  constexpr const char* what = may_park ? "mbarrier.try_wait" : "mbarrier.test_wait";
  const Look seen = look(w, in, what);
  Cluster& cluster = w.cta.cluster;
  const bool adversarial = cluster.grid.schedule.kind == Schedule::Kind::adversarial;
  LaneGroup& group = *w.group;
  const Asked before = std::exchange(group.asked, {});
  const bool at_once = before.at != &in || before.offset != seen.offset || before.phase != seen.phase;
  w.put_off = false;
  if (seen.uniform) group.asked = {&in, seen.offset, seen.phase, w.instructions};
  const bool timed_out = std::exchange(group.timed_out, false);
  if (seen.done == 0 && may_park && seen.uniform && !timed_out && !(adversarial && cluster.rng() % 8 == 0)) {
    w.cta.state->mbarriers.find(seen.offset)->waiters |= uint64_t(1) << (w.id & 63);
    w.block({Wait::Kind::mbarrier, seen.offset, seen.parity, wait_over});
    return;
  }
  w.put_off = may_park && seen.done && adversarial && cluster.rng() % 8 == 0 && !seen.is_known;
  const uint32_t done = w.put_off ? 0 : seen.done;
  if (done == w.active) group.asked = {};
  if (cluster.watcher && done) [[unlikely]]
    tell_waits_done(w, in, done, seen.phase, at_once, what);
  if (done) {
    w.note();
    if (seen.uniform)
      w.cta.state->warp(w.id).pass(
          {&in, group.function, seen.offset, seen.parity, seen.phase, at_once, false, w.instructions});
    if (Mbarrier* b = seen.uniform ? w.cta.state->mbarriers.find(seen.offset) : nullptr)
      b->note(MbarrierParty::What::waits, b->seen_after(seen.parity, w.cta.rank, w.id), &in, group.function,
              w.cta.rank, w.id, done, 1);
  }
  if (done != w.active) w.yield();
  w.set_mask(in.op[0], done);
}

void pending_count(Warp& w, const Instr& in) {
  const uint64_t* state = w.source<uint64_t>(in.op[1]);
  uint32_t counts[kLanes];
  for_lanes(w.active, [&](unsigned lane) {
    MbarrierState s{state[lane]};
    if (!s.plausible())
      fault(FaultKind::mbarrier_state, lane,
            "mbarrier.pending_count of {:#x}, which no mbarrier.arrive returned", s.bits);
    counts[lane] = s.pending();
  });
  uint32_t* d = w.target<uint32_t>(in.op[0]);
  for_lanes(w.active, [&](unsigned lane) { d[lane] = counts[lane]; });
}

Body with(Body body, Instr& in, const Source& s) {
  in.aux = pack_aux(mods(s));
  return body;
}

}  // namespace

Body bind_mbarrier_init(Instr& in, const Source& s) { return with(init, in, s); }
Body bind_mbarrier_inval(Instr& in, const Source& s) { return with(inval, in, s); }
Body bind_mbarrier_expect_tx(Instr& in, const Source& s) { return with(expect_tx, in, s); }
Body bind_mbarrier_complete_tx(Instr& in, const Source& s) { return with(complete_tx, in, s); }
namespace {

// The manual's restrictions on where the state goes and which operands there must be.
Body checked(Body body, Instr& in, const Source& s) {
  if ((s.has("expect_tx") || s.has("noComplete")) && !in.op[2]) fail("the count is missing");
  if (s.has("shared::cluster") && in.op[0].kind != Operand::Kind::sink)
    fail("an arrival at .shared::cluster has no state to return: write '_'");
  if (s.has("noComplete") && (s.has("relaxed") || s.has("cluster"))) fail(".noComplete is for .release.cta");
  if (s.has("shared::cluster") && s.has("noComplete")) fail(".noComplete is not for .shared::cluster");
  return with(body, in, s);
}

}  // namespace

Body bind_mbarrier_arrive(Instr& in, const Source& s) { return checked(arrive<false>, in, s); }
Body bind_mbarrier_arrive_drop(Instr& in, const Source& s) { return checked(arrive<true>, in, s); }
Body bind_mbarrier_test_wait(Instr& in, const Source& s) { return with(wait<false>, in, s); }
Body bind_mbarrier_test_wait_parity(Instr& in, const Source& s) { return with(wait<false>, in, s); }
Body bind_mbarrier_try_wait(Instr& in, const Source& s) { return with(wait<true>, in, s); }
Body bind_mbarrier_try_wait_parity(Instr& in, const Source& s) { return with(wait<true>, in, s); }
Body bind_mbarrier_pending_count(Instr&, const Source&) { return pending_count; }

}  // namespace fp4lab::emu
