// tcgen05.alloc, dealloc and relinquish_alloc_permit (PTX ISA 9.7.16.7). They run in the serial phase,
// because CTAs of other clusters share the SM's tensor memory.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "emulator/core/place.h"
#include "emulator/engine/tcgen05.h"

namespace fp4lab::emu {

TensorMemory& tensor_memory(Cta& cta) {
  if (cta.sm.tmem) return *cta.sm.tmem;
  if (cta.cluster.grid.device.tmem_columns == 0)
    fault(FaultKind::illegal_instruction, kLanes, "{} has no tensor memory", cta.cluster.grid.device.name);
  // Nobody has allocated on this SM: nothing may be accessed, and TensorMemory::check says so.
  thread_local TensorMemory none;
  return none;
}

void use_group(Cta& cta, unsigned group) {
  int& used = cta.state->tmem_group;
  if (used && used != static_cast<int>(group))
    fault(FaultKind::tmem_life, kLanes,
          "tcgen05 with .cta_group::{} in a kernel that used .cta_group::{} before", group, used);
  used = static_cast<int>(group);
}

Cta& pair_of(Cta& cta, const char* what) {
  const uint32_t rank = cta.rank ^ 1;
  if (rank >= cta.cluster.ctas.size())
    fault(FaultKind::tmem_life, kLanes,
          "{} with .cta_group::2 in a cluster of {} CTAs: CTA rank {} has no pair", what,
          cta.cluster.ctas.size(), cta.rank);
  Cta& peer = *cta.cluster.ctas[rank];
  if (peer.exited)
    fault(FaultKind::peer_exited, kLanes, "{} with .cta_group::2: the pair's CTA rank {} has exited", what,
          rank);
  return peer;
}

Cta& leader_of(Cta& cta, const char* what) { return cta.rank & 1 ? pair_of(cta, what) : cta; }

// ptxas makes nothing of .sync.aligned behind an exit: the threads that are left do it, so where that is
// tolerated it is a note.
void require_whole(Warp& w, const Instr& in) {
  w.require_full(in);
  if (const uint32_t gone = w.exited & w.lanes; gone) [[unlikely]]
    w.cta.cluster.note_or_throw(
        Fault(
            FaultKind::collective, static_cast<unsigned>(std::countr_zero(w.active)),
            fmt::format("all threads of the warp must execute this instruction together, but only {} of warp "
                        "{} do; exited: {}",
                        lane_list(w.active), w.id, lane_list(gone))),
        w);
}

namespace {

// The value of the first active lane, which the instruction takes from a uniform register; by the manual all
// lanes bring the same. CuTe DSL (mixed_input_fmha_prefill_d512) gives each lane of tcgen05.ld its own row's
// address, so where that is tolerated it is a note.
template <class Value>
uint32_t uniform(Warp& w, const char* what, Value&& value) {
  const uint32_t first = value(static_cast<unsigned>(std::countr_zero(w.active)));
  for_lanes(w.active, [&](unsigned lane) {
    if (const uint32_t other = value(lane); other != first) [[unlikely]] {
      const Fault differs(
          FaultKind::collective, lane,
          fmt::format("{} differs between the lanes of a warp: {:#x} and {:#x}", what, first, other));
      w.cta.cluster.note_or_throw(differs, w);
    }
  });
  return first;
}

}  // namespace

uint32_t uniform_operand(Warp& w, const Operand& o, const char* what) {
  const uint32_t* v = w.source<uint32_t>(o);
  return uniform(w, what, [v](unsigned lane) { return v[lane]; });
}

SharedMatrix shared_matrix(Warp& w, unsigned lane, uint64_t bits, const char* what) {
  if (bits & kTcgen05Constant) return decode_tcgen05_descriptor(bits, what);
  const SharedMatrix meant =
      decode_tcgen05_descriptor(bits | kTcgen05ConstantValue, what);  // no other mistake
  try {
    decode_tcgen05_descriptor(bits, what);
  } catch (const Fault& zero) {
    w.cta.cluster.note_or_throw(Fault(zero.kind, lane, zero.what()), w);
  }
  return meant;
}

uint32_t uniform_address(Warp& w, const Operand& o, const char* what) {
  const auto address = [&](unsigned lane) { return static_cast<uint32_t>(w.address(o, lane)); };
  if (!o.has_base) return address(static_cast<unsigned>(std::countr_zero(w.active)));
  return uniform(w, what, address);
}

namespace {

struct Mods {
  Space space;
  uint8_t group;
};

void check_columns(uint32_t n, const char* what) {
  if (n < 32 || n > kTmemColumns || !std::has_single_bit(n))
    fault(FaultKind::tmem_life, kLanes, "{} of {} columns: must be a power of two from 32 to 512", what, n);
}

int common_free(Cta& a, Cta& b, unsigned columns) {
  TensorMemory &x = tensor_memory(a), &y = tensor_memory(b);
  for (unsigned first = 0; first + columns <= kTmemColumns; first += columns) {
    bool free = true;
    for (unsigned c = first; free && c < first + columns; ++c) free = !x.owner[c] && !y.owner[c];
    if (free) return static_cast<int>(first);
  }
  return -1;
}

// Whether a CTA of a cluster that started earlier waits for columns of this SM. Where the schedule is
// tolerant it gets them first: else two clusters could each hold the columns of one SM and wait for those of
// another (clusters of pairs that take all columns, two of which find room on an SM). Who holds columns goes
// on: those that wait may be waiting for them.
bool is_behind(Cta& cta) {
  return cta.cluster.grid.schedule.tolerant && cta.state->tmem.empty() &&
         std::ranges::any_of(tensor_memory(cta).waiting,
                             [&](const Cta* other) { return other->cluster.id < cta.cluster.id; });
}

bool columns_free(Warp& w, const LaneGroup& g) {
  return !is_behind(w.cta) && tensor_memory(w.cta).find_free(static_cast<uint32_t>(g.wait.value)) >= 0;
}

bool pair_ready(Warp& w, const LaneGroup& g) {
  const CtaState& me = *w.cta.state;
  if (me.pair_granted >= 0) return true;
  Cta& peer = *w.cta.cluster.ctas[w.cta.rank ^ 1];
  return !peer.exited && peer.state->pair_wanted && !is_behind(w.cta) && !is_behind(peer) &&
         common_free(w.cta, peer, static_cast<uint32_t>(g.wait.value)) >= 0;
}

void give(Cta& cta, const Instr& in, uint32_t function, unsigned column, unsigned columns, unsigned group) {
  CtaState& state = *cta.state;
  std::erase(tensor_memory(cta).waiting, &cta);
  tensor_memory(cta).allocate(column, columns, &cta);
  state.tmem.push_back({column, columns, group, &in, function});
  state.last_alloc_columns = columns;
}

void check_request(const CtaState& state, uint32_t columns) {
  check_columns(columns, "tcgen05.alloc");
  if (!state.alloc_permit)
    fault(FaultKind::tmem_life, kLanes,
          "tcgen05.alloc after this CTA executed tcgen05.relinquish_alloc_permit");
  if (state.last_alloc_columns && columns > state.last_alloc_columns)
    fault(FaultKind::tmem_life, kLanes,
          "tcgen05.alloc of {} columns after one of {}: the sizes of successive allocations of a CTA must "
          "not grow",
          columns, state.last_alloc_columns);
}

void wait_for_columns(Warp& w, uint32_t columns, unsigned group, bool (*ready)(Warp&, const LaneGroup&)) {
  auto& waiting = tensor_memory(w.cta).waiting;
  if (std::ranges::find(waiting, &w.cta) == waiting.end()) waiting.push_back(&w.cta);
  w.block({Wait::Kind::tmem_alloc, group - 1, columns, ready});
}

// The first column; or nothing, and the warp waits until there is room.
std::optional<unsigned> columns_of_one(Warp& w, const Instr& in, uint32_t columns) {
  const int column = is_behind(w.cta) ? -1 : tensor_memory(w.cta).find_free(columns);
  if (column < 0) {
    wait_for_columns(w, columns, 1, columns_free);
    return std::nullopt;
  }
  give(w.cta, in, w.source_of(in).function, static_cast<unsigned>(column), columns, 1);
  return static_cast<unsigned>(column);
}

// The same for a pair: one warp of each CTA comes, and both get the same columns, when the second has come.
std::optional<unsigned> columns_of_pair(Warp& w, const Instr& in, uint32_t columns) {
  Cta& peer = pair_of(w.cta, "tcgen05.alloc");
  CtaState &mine = *w.cta.state, &other = *peer.state;
  int column = mine.pair_granted;
  if (column < 0) {
    if (other.pair_wanted && other.pair_wanted != columns)
      fault(FaultKind::tmem_life, kLanes,
            "tcgen05.alloc with .cta_group::2 of {} columns, the pair's other CTA wants {}", columns,
            other.pair_wanted);
    mine.pair_wanted = columns;
    column =
        other.pair_wanted && !is_behind(w.cta) && !is_behind(peer) ? common_free(w.cta, peer, columns) : -1;
    if (column < 0) {
      wait_for_columns(w, columns, 2, pair_ready);
      return std::nullopt;
    }
    for (Cta* cta : {&w.cta, &peer})
      give(*cta, in, w.source_of(in).function, static_cast<unsigned>(column), columns, 2);
    // The other goes on when it comes to it: what this CTA asks for next has nothing to do with it.
    other.pair_granted = column, other.pair_wanted = 0;
    w.cta.cluster.notify();
  }
  mine.pair_wanted = 0;
  mine.pair_granted = -1;
  return static_cast<unsigned>(column);
}

void store_address(Warp& w, const Instr& in, Space space, uint32_t column) {
  const unsigned lane = static_cast<unsigned>(std::countr_zero(w.active));
  const uint64_t address = w.address(in.op[0], lane);
  if (space == Space::generic && shared_ref(w, space, address, lane, "tcgen05.alloc").cta != &w.cta)
    fault(FaultKind::illegal_address, lane,
          "tcgen05.alloc: the generic address {:#x} is in the shared memory of another CTA", address);
  std::memcpy(w.memory(in, space, AccessKind::write, address, 4, lane), &column, 4);
  // The whole warp has executed it (.sync.aligned), so that each of its lanes may read what it stored:
  // FlashMLA does at once.
  if (Watcher* watch = w.cta.cluster.watcher) [[unlikely]]
    watch->barrier({BarrierEvent::What::warp_sync, &w.cta, 0, 0, 0, &w, w.active, nullptr});
}

// op 0 [dst] in shared memory, op 1 the number of columns
void alloc(Warp& w, const Instr& in) {
  require_whole(w, in);
  const Mods m = unpack_aux<Mods>(in);
  const uint32_t columns = uniform_operand(w, in.op[1], "the number of TMEM columns");
  use_group(w.cta, m.group);
  check_request(*w.cta.state, columns);
  if (!w.in_serial_phase()) {
    w.block({Wait::Kind::serial, 0, 0, nullptr});
    return;
  }
  for (Cta* cta : {&w.cta, m.group == 2 ? &pair_of(w.cta, "tcgen05.alloc") : &w.cta})
    if (!cta->sm.tmem) {
      tensor_memory(*cta);  // faults on a device without
      cta->sm.tmem = std::make_unique<TensorMemory>();
    }
  const auto column = m.group == 1 ? columns_of_one(w, in, columns) : columns_of_pair(w, in, columns);
  if (!column) return;
  if (Watcher* watch = w.cta.cluster.watcher) [[unlikely]]
    watch->tmem({TmemAccess::What::alloc, &w.cta, 0, kTmemLanes, *column, columns, &w, nullptr});
  store_address(w, in, m.space, *column);
}

// op 0 the address, op 1 the number of columns
void dealloc(Warp& w, const Instr& in) {
  require_whole(w, in);
  const Mods m = unpack_aux<Mods>(in);
  const TmemAddress address{uniform_operand(w, in.op[0], "the TMEM address")};
  const uint32_t columns = uniform_operand(w, in.op[1], "the number of TMEM columns");
  check_columns(columns, "tcgen05.dealloc");
  use_group(w.cta, m.group);
  if (!w.in_serial_phase()) {
    w.block({Wait::Kind::serial, 0, 0, nullptr});
    return;
  }
  auto& live = w.cta.state->tmem;
  for (size_t i = 0; i < live.size(); ++i)
    if (live[i].column == address.column() && live[i].columns == columns && address.lane() == 0) {
      if (Watcher* watch = w.cta.cluster.watcher) [[unlikely]]
        watch->tmem(
            {TmemAccess::What::dealloc, &w.cta, 0, kTmemLanes, address.column(), columns, &w, nullptr});
      tensor_memory(w.cta).release(live[i].column, columns);
      live.erase(live.begin() + static_cast<ptrdiff_t>(i));
      w.cta.cluster.notify();
      return;
    }
  std::string have;
  for (const TmemAllocation& a : live)
    have += fmt::format(" [{}, {}) by line {}", a.column, a.column + a.columns,
                        w.cta.state->ptx_line(a.function, *a.origin));
  fault(FaultKind::tmem_life, kLanes,
        "tcgen05.dealloc of {} columns at TMEM address {:#010x}, which tcgen05.alloc did not return "
        "(allocated:{})",
        columns, address.bits, have.empty() ? " none" : have);
}

void relinquish(Warp& w, const Instr& in) {
  require_whole(w, in);
  use_group(w.cta, unpack_aux<Mods>(in).group);
  w.cta.state->alloc_permit = false;
}

Body with(Body body, Instr& in, const Source& s) {
  if (const Operand& columns = in.op[1]; columns.kind == Operand::Kind::value && columns.immediate)
    check_columns(static_cast<uint32_t>(columns.displacement), "an allocation");
  in.aux = pack_aux(Mods{shared_space(s), cta_group(s)});
  return body;
}

}  // namespace

Body bind_tcgen05_alloc(Instr& in, const Source& s) { return with(alloc, in, s); }
Body bind_tcgen05_dealloc(Instr& in, const Source& s) { return with(dealloc, in, s); }
Body bind_tcgen05_relinquish(Instr& in, const Source& s) { return with(relinquish, in, s); }

}  // namespace fp4lab::emu
