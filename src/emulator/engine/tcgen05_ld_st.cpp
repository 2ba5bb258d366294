// tcgen05.ld, tcgen05.st and their waits (PTX ISA 9.7.16.8).
//
// A load reads tensor memory at some moment between its issue and tcgen05.wait::ld, and its registers count
// as never written until then; a store takes its registers at issue and writes some time before
// tcgen05.wait::st.
#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "emulator/core/hooks.h"
#include "emulator/core/place.h"
#include "emulator/engine/tcgen05.h"

namespace fp4lab::emu {

namespace {

enum class Shape : uint8_t { s32x32b, s16x64b, s16x128b, s16x256b, s16x32bx2 };

struct Mods {
  Shape shape;
  uint8_t pack;  // .pack::16b or .unpack::16b
  uint16_t registers;
  int32_t split;  // 16x32bx2: from the address of the first half to that of the second
};

struct Cell {
  unsigned lane, column;
};

// Which cell register r of thread t holds, relative to the address of its access (PTX ISA 9.7.16.2.3);
// packed, the first of the two.
inline Cell cell(const Mods& m, unsigned r, unsigned t) {
  const unsigned wide = m.pack ? 2 : 1;
  switch (m.shape) {
    case Shape::s32x32b:
      return {t, wide * r};
    case Shape::s16x64b:
      return {(t >> 2) + 8 * (t & 1), wide * (((t >> 1) & 1) + 2 * r)};
    case Shape::s16x128b:
      return {(t >> 2) + 8 * (r & 1), wide * ((t & 3) + 4 * (r >> 1))};
    case Shape::s16x256b:
      return {(t >> 2) + 8 * ((r >> 1) & 1), wide * (2 * (t & 3) + (r & 1) + 8 * (r >> 2))};
    case Shape::s16x32bx2:
      return {t & 15, wide * r};
  }
  return {};
}

unsigned columns_of(const Mods& m) {
  unsigned n = m.registers;
  if (m.shape == Shape::s16x64b || m.shape == Shape::s16x128b || m.shape == Shape::s16x256b) n *= 2;
  return m.pack ? 2 * n : n;
}

struct Window {
  unsigned lane, column, lanes, columns;
};

// Base lane and columns; each warp reaches the 32 lanes of its rank in the warpgroup. In a pair some kernels
// count the lanes through both CTAs, 128 to 255 for the odd one: the manual says nothing of it, and they run
// on a B200 (gau-nernst/learn-cuda, 02e_matmul_sm100, v5 to v7). Another warp's lanes are taken to be its own
// ones, as those of lane 0 are, where that is tolerated, with a note: stephendliang/siglip ran so on a B200,
// but all its rows are equal, which shows no more than that hardware does not stop.
Window window(Warp& w, const Mods& m, uint32_t bits, const char* what) {
  TmemAddress a{bits};
  if (a.lane() >= kTmemLanes && a.lane() < 2 * kTmemLanes && w.cta.state->tmem_group == 2)
    a.bits -= kTmemLanes << 16;
  const unsigned quarter = w.id % 4, named = a.lane() >> 5;
  if (a.lane() >= kTmemLanes || (named != 0 && named != quarter)) [[unlikely]] {
    const Fault beyond(
        FaultKind::tmem_address, kLanes,
        fmt::format(
            "{} at TMEM lane {} by warp {}: a warp reaches only lanes 32 * (warp % 4) to + 31, here {} to {}",
            what, a.lane(), w.id, 32 * quarter, 32 * quarter + 31));
    if (a.lane() >= kTmemLanes) throw beyond;
    w.cta.cluster.note_or_throw(beyond, w);
  }
  const unsigned offset = a.lane() & 31;
  const bool half = m.shape != Shape::s32x32b;
  if (offset != 0 && !(half && offset == 16))
    fault(FaultKind::tmem_address, kLanes, "{} at TMEM lane {}: the lane must be a multiple of {}", what,
          a.lane(), half ? 16 : 32);
  Window win{32 * quarter + offset, a.column(), half ? 16u : 32u, columns_of(m)};
  tensor_memory(w.cta).check(w.cta, win.column, win.columns, what);
  return win;
}

// What an instruction touches: 16x32bx2 makes two accesses, threads 16 to 31 the second one.
struct Access {
  Window at[2];
  unsigned count;

  std::span<const Window> windows() const { return {at, count}; }
};

Access access(Warp& w, const Mods& m, uint32_t bits, const char* what) {
  Access a{{window(w, m, bits, what), {}}, 1};
  if (m.shape == Shape::s16x32bx2)
    a.at[1] = window(w, m, bits + static_cast<uint32_t>(m.split), what), a.count = 2;
  return a;
}

template <class Each>
void for_cells(const Mods& m, const Access& a, Each&& each) {
  const unsigned threads = kLanes / a.count;
  for (unsigned h = 0; h < a.count; ++h)
    for (unsigned r = 0; r < m.registers; ++r)
      for (unsigned t = h * threads; t < (h + 1) * threads; ++t) {
        const Cell c = cell(m, r, t);
        each(r, t, a.at[h].lane + c.lane, a.at[h].column + c.column);
      }
}

struct TmemLoad final : AsyncOp {
  Mods m;
  Access from;
  Warp* issuer = nullptr;
  uint32_t lanes = 0;
  std::vector<Operand> registers;

  const char* name() const override { return "tcgen05.ld"; }
  bool lost_at_exit() const override { return true; }
  bool loads_registers() const override { return true; }
  bool run(Cluster& cluster) override {
    TensorMemory& tmem = tensor_memory(*cta);
    for (const Window& win : from.windows()) {
      tmem.check(*cta, win.column, win.columns, name(), this);
      if (!written(tmem, win)) unwritten(cluster, win);
    }
    std::vector<Row> rows(m.registers);
    for (unsigned r = 0; r < m.registers; ++r) rows[r] = row(cluster, r);
    if (m.shape == Shape::s32x32b && !m.pack) {
      for (unsigned r = 0; r < m.registers; ++r) {
        const uint32_t* words = &tmem.column(from.at[0].column + r)[from.at[0].lane];
        if (!rows[r].kept)
          std::memcpy(rows[r].words, words, kLanes * sizeof *words);
        else
          for_lanes(~rows[r].kept, [&](unsigned t) { rows[r].words[t] = words[t]; });
      }
    } else {
      for_cells(m, from, [&](unsigned r, unsigned t, unsigned lane, unsigned column) {
        const uint32_t word = tmem.column(column)[lane];
        if (rows[r].kept >> t & 1) return;
        rows[r].words[t] = m.pack ? (word & 0xffff) | tmem.column(column + 1)[lane] << 16 : word;
      });
    }
    for (const Window& win : from.windows())
      watch_tmem(cluster, false, cta, win.lane, win.lanes, win.column, win.columns, *this);
    --cta->state->warps[warp].tmem_loads;
    cluster.notify();
    return true;
  }

 private:
  static bool written(const TensorMemory& tmem, const Window& win) {
    for (unsigned c = win.column; c < win.column + win.columns; ++c)
      if ((tmem.defined[c][win.lane / 64] >> (win.lane % 64)) & ((uint64_t(1) << win.lanes) - 1)) return true;
    return false;
  }

  struct Row {
    uint32_t* words;
    uint32_t kept;  // lanes
  };

  // A register that was written behind the load, before the wait, keeps that where the schedule tolerates it:
  // machine code holds the write back until the load is done, and compilers move the wait over a write (masks
  // of attention scores), where nothing in the source ties the two.
  Row row(Cluster& cluster, unsigned r) const {
    const uint32_t kept = issuer->written_since(registers[r], lanes);
    if (kept)
      cluster.note_or_throw(
          Fault(FaultKind::misuse, static_cast<unsigned>(std::countr_zero(kept)),
                fmt::format("register {} of tcgen05.ld was written, in {}, before the load was waited for "
                            "(tcgen05.wait::ld)",
                            r, lane_list(kept))),
          *this);
    return {issuer->awaited_row(registers[r]), kept};
  }

  // Where the schedule tolerates it the poison is loaded, with a note, as from shared memory: epilogues load
  // columns that are nobody's and discard them, probes ask only whether the load works.
  void unwritten(Cluster& cluster, const Window& win) const {
    const Fault nobody(
        FaultKind::uninitialized, kLanes,
        fmt::format(
            "tcgen05.ld of TMEM columns [{}, {}), lanes [{}, {}): none of these cells was ever written",
            win.column, win.column + win.columns, win.lane, win.lane + win.lanes));
    cluster.note_or_throw(nobody, *this);
  }
};

struct TmemStore final : AsyncOp {
  Mods m;
  Access to;
  std::vector<std::array<uint32_t, kLanes>> data;

  const char* name() const override { return "tcgen05.st"; }
  bool lost_at_exit() const override {
    return std::ranges::none_of(to.windows(), [this](const Window& win) {
      return tensor_memory(*cta).owns_any(*cta, win.column, win.columns);
    });
  }
  bool run(Cluster& cluster) override {
    TensorMemory& tmem = tensor_memory(*cta);
    for (const Window& win : to.windows()) tmem.check(*cta, win.column, win.columns, name(), this);
    for_cells(m, to, [&](unsigned r, unsigned t, unsigned lane, unsigned column) {
      const auto put = [&](unsigned c, uint32_t word) {
        tmem.column(c)[lane] = word;
        tmem.define(*cta, c, lane, 1);
      };
      put(column, m.pack ? data[r][t] & 0xffff : data[r][t]);
      if (m.pack) put(column + 1, data[r][t] >> 16);
    });
    for (const Window& win : to.windows())
      watch_tmem(cluster, true, cta, win.lane, win.lanes, win.column, win.columns, *this);
    --cta->state->warps[warp].tmem_stores;
    cluster.notify();
    return true;
  }
};

WarpEngines& engines(Warp& w) { return w.cta.state->warp(w.id); }

// A warp's loads and stores of tensor memory stay in order, where the schedule tolerates that a tcgen05.wait
// is missing: CUTLASS's stream-K stores sums that its epilogue loads (sm100_tile_scheduler_stream_k.hpp), and
// waits for nothing between.
bool ordered(const Warp& w) { return w.cta.cluster.grid.schedule.tolerant; }

// op 0 {registers}, op 1 [taddr], op 2 the half split of 16x32bx2
void load(Warp& w, const Instr& in) {
  require_whole(w, in);
  auto op = std::make_unique<TmemLoad>();
  op->m = unpack_aux<Mods>(in);
  op->from = access(w, op->m, uniform_address(w, in.op[1], "the TMEM address"), "tcgen05.ld");
  WarpEngines& e = engines(w);
  if (e.tmem_stores && ordered(w)) w.cta.cluster.finish_now(w, "tcgen05.st");
  op->issuer = &w;
  op->lanes = w.active;
  for (unsigned r = 0; r < op->m.registers; ++r) {
    const Operand& element = w.element(in.op[0], r);
    op->registers.push_back(element);
    w.await(element, w.active);
    e.loaded.push_back({element, w.active});
  }
  ++e.tmem_loads;
  w.cta.cluster.submit(std::move(op), w, in, static_cast<unsigned>(std::countr_zero(w.active)));
}

// op 0 [taddr], op 1 {registers} (16x32bx2: op 1 the split, op 2 the registers)
void store(Warp& w, const Instr& in) {
  require_whole(w, in);
  auto op = std::make_unique<TmemStore>();
  op->m = unpack_aux<Mods>(in);
  op->to = access(w, op->m, uniform_address(w, in.op[0], "the TMEM address"), "tcgen05.st");
  const Operand& registers = in.op[op->m.shape == Shape::s16x32bx2 ? 2 : 1];
  op->data.resize(op->m.registers);
  for (unsigned r = 0; r < op->m.registers; ++r)
    std::memcpy(op->data[r].data(), w.source<uint32_t>(w.element(registers, r)), sizeof op->data[r]);
  WarpEngines& e = engines(w);
  if (e.tmem_loads && ordered(w)) w.cta.cluster.finish_now(w, "tcgen05.ld");
  ++e.tmem_stores;
  op->queue = {Queue::tmem_load, w.cta.rank << 16 | w.id};
  w.cta.cluster.submit(std::move(op), w, in, static_cast<unsigned>(std::countr_zero(w.active)));
}

bool loads_done(Warp& w, const LaneGroup&) { return engines(w).tmem_loads == 0; }
bool stores_done(Warp& w, const LaneGroup&) { return engines(w).tmem_stores == 0; }

void tell_waited(Warp& w, int64_t stores) {
  if (Watcher* watch = w.cta.cluster.watcher) [[unlikely]]
    watch->barrier({BarrierEvent::What::tmem_waited, &w.cta, 0, stores, 0, &w, w.active, nullptr});
}

void wait_ld(Warp& w, const Instr& in) {
  w.require_full(in);
  WarpEngines& e = engines(w);
  if (e.tmem_loads) {
    w.block({Wait::Kind::async_ops, 0, 0, loads_done});
    return;
  }
  for (const PendingRegister& r : e.loaded) w.target<uint32_t>(r.operand);  // defined from now on
  e.loaded.clear();
  tell_waited(w, 0);
}

}  // namespace

void settle_tensor_memory(Warp& w) {
  if (!ordered(w)) return;
  const WarpEngines& e = engines(w);
  if (e.tmem_loads) w.cta.cluster.finish_now(w, "tcgen05.ld");
  if (e.tmem_stores) w.cta.cluster.finish_now(w, "tcgen05.st");
}

bool hooks::finish_loads(Warp& w) {
  WarpEngines& e = engines(w);
  if (e.loaded.empty()) return false;
  w.cta.cluster.finish_now(w, "tcgen05.ld");
  const uint32_t active = w.active;
  for (const PendingRegister& r : e.loaded) w.active = r.lanes, w.target<uint32_t>(r.operand);
  e.loaded.clear();
  w.active = w.lanes & ~w.exited;  // a load is for the whole warp
  tell_waited(w, 0);
  w.active = active;
  return true;
}

namespace {

void wait_st(Warp& w, const Instr& in) {
  w.require_full(in);
  if (engines(w).tmem_stores) {
    w.block({Wait::Kind::async_ops, 1, 0, stores_done});
    return;
  }
  tell_waited(w, 1);
}

Mods decode(Instr& in, const Source& s, unsigned vector_operand) {
  Mods m{};
  unsigned per = 1, limit = 128;
  if (s.has("32x32b")) m.shape = Shape::s32x32b;
  if (s.has("16x64b")) m.shape = Shape::s16x64b;
  if (s.has("16x128b")) m.shape = Shape::s16x128b, per = 2, limit = 64;
  if (s.has("16x256b")) m.shape = Shape::s16x256b, per = 4, limit = 32;
  if (s.has("16x32bx2")) m.shape = Shape::s16x32bx2;
  unsigned num = 0;
  for (unsigned n = 1; n <= 128; n *= 2)
    if (s.has(fmt::format("x{}", n))) num = n;
  if (num > limit) fault(FaultKind::misuse, 0, ".x{} is too many for this shape, at most .x{}", num, limit);
  m.registers = static_cast<uint16_t>(num * per);
  m.pack = s.has("pack::16b") || s.has("unpack::16b");
  const Operand& v = in.op[vector_operand];
  const unsigned given = v.kind == Operand::Kind::vector ? v.count : 1;
  if (given != m.registers)
    fault(FaultKind::misuse, 0, "{} registers given, this shape with .x{} takes {}", given, num, m.registers);
  return m;
}

}  // namespace

Body bind_tcgen05_ld(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 0));
  return load;
}
Body bind_tcgen05_ld_split(Instr& in, const Source& s) {
  Mods m = decode(in, s, 0);
  m.split = static_cast<int32_t>(in.op[2].displacement);
  in.aux = pack_aux(m);
  return load;
}
Body bind_tcgen05_st(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 1));
  return store;
}
Body bind_tcgen05_st_split(Instr& in, const Source& s) {
  Mods m = decode(in, s, 2);
  m.split = static_cast<int32_t>(in.op[1].displacement);
  in.aux = pack_aux(m);
  return store;
}
Body bind_tcgen05_wait_ld(Instr&, const Source&) { return wait_ld; }
Body bind_tcgen05_wait_st(Instr&, const Source&) { return wait_st; }

}  // namespace fp4lab::emu
