#include "emulator/watch/inspect.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "emulator/core/cta_state.h"
#include "emulator/core/machine.h"
#include "emulator/core/place.h"
#include "emulator/engine/operand.h"
#include "emulator/engine/tcgen05_mma.h"
#include "fp4lab/error.h"
#include "fp4lab/ue4m3.h"

namespace fp4lab::emu {

namespace {

constexpr uint32_t kStops = 8, kLines = 400;  // of a launch; what comes later is not told

std::string name_of_row(const Function& f, uint32_t offset) {
  for (const auto& [row, name] : f.register_names)
    if (row == offset) return name;
  return "";
}

// "%r5 = 0x36400", or a list when the lanes differ.
std::string register_text(Warp& w, const Operand& o, uint32_t lanes, const std::string& name) {
  uint64_t value[kLanes] = {};
  try {
    if (bits_of(o.type) == 64) {
      const uint64_t* row = w.source<uint64_t>(o);
      for_lanes(lanes, [&](unsigned l) { value[l] = row[l]; });
    } else {
      const uint32_t* row = w.source<uint32_t>(o);
      for_lanes(lanes, [&](unsigned l) { value[l] = row[l]; });
    }
  } catch (const Fault&) {
    return name + " was never written, at least in some lanes";
  }
  const uint64_t first = value[std::countr_zero(lanes | 0x80000000u)];
  bool same = true;
  for_lanes(lanes, [&](unsigned l) { same &= value[l] == first; });
  if (same) return fmt::format("{} = {:#x} ({})", name, first, first);
  std::string text = name + " =";
  for_lanes(lanes, [&](unsigned l) { text += fmt::format(" {}:{:#x}", l, value[l]); });
  return text;
}

}  // namespace

void Inspect::say(const std::string& line) {
  seen_ = true;
  if (lines_++ < kLines) report_ += line + "\n";
  if (lines_ == kLines) report_ += "(the rest is not shown)\n";
}

std::string Inspect::missed() const {
  if (seen_) return "";
  if (stop_line) return fmt::format("stop-at {}: no warp has reached that PTX line", *stop_line);
  if (tile) return fmt::format("no launch has reached product {} of CTA 0", tile->product);
  return fmt::format("watch {}: there was no access", *watched);
}

void Inspect::launch_begin(const Grid& grid) {
  report_.clear();
  stops_ = lines_ = 0;
  products_ = 0;
  watching_ = false;
  if (!watched) return;
  for (const Symbol& s : grid.function.variables)
    if (s.space == Space::shared && s.name == *watched) {
      address_ = static_cast<uint32_t>(s.address);
      watching_ = true;
      return;
    }
  char* end = nullptr;
  address_ = static_cast<uint32_t>(std::strtoul(watched->c_str(), &end, 0));
  watching_ = *end == 0 && end != watched->c_str();
  if (watching_) return;
  say(fmt::format("watch: {} has no shared variable '{}', and it is not an address", grid.function.name,
                  *watched));
  seen_ = false;  // nothing was watched
}

void Inspect::step(Warp& w, const Instr& i, uint32_t lanes) {
  if (!stop_line || stops_ >= kStops) return;
  const Source& s = w.source_of(i);
  if (s.line != *stop_line) return;
  ++stops_;
  say(fmt::format("stop {}: {}, warp {}, {}, step {}\n  {}", stops_, w.cta.name(), w.id, lane_list(lanes),
                  w.cta.cluster.clock(), one_line(w.cta.cluster.grid.module, s)));
  registers(w, i, lanes);
  shared_memory(w, i, lanes);
  for (const uint32_t offset : w.cta.state->mbarriers.offsets())
    say(fmt::format("  mbarrier {:#x}: {}", offset, w.cta.state->mbarriers.find(offset)->describe()));
}

void Inspect::registers(Warp& w, const Instr& i, uint32_t lanes) {
  const Function& f = w.cta.cluster.grid.function;
  const auto show = [&](const Operand& o) {
    if (o.kind == Operand::Kind::predicate) {
      uint32_t held = 0;
      try {
        Operand plain = o;
        plain.negated = false;
        held = w.mask(plain) & lanes;
      } catch (const Fault&) {
      }
      std::string name;
      for (const auto& [index, text] : f.predicate_names)
        if (index == o.index) name = text;
      say(fmt::format("  {} is true in {}", name, lane_list(held)));
    } else if ((o.kind == Operand::Kind::value && !o.immediate) ||
               (o.kind == Operand::Kind::address && o.has_base)) {
      if (const std::string name = name_of_row(f, o.offset); !name.empty())
        say("  " + register_text(w, o, lanes, name));
    }
  };
  if (i.guard > 0) {
    Operand guard;
    guard.kind = Operand::Kind::predicate, guard.index = static_cast<uint32_t>(i.guard);
    show(guard);
  }
  for (const Operand& o : i.op) {
    if (o.kind == Operand::Kind::vector)
      for (unsigned k = 0; k < o.count; ++k) show(w.element(o, k));
    else if (o)
      show(o);
  }
}

// The 16 bytes in front of the first lane where it points into shared memory.
void Inspect::shared_memory(Warp& w, const Instr& i, uint32_t lanes) {
  const Space space = shared_space(w.source_of(i));
  const unsigned lane = static_cast<unsigned>(std::countr_zero(lanes));
  for (const Operand& o : i.op) {
    if (o.kind != Operand::Kind::address || !lanes) continue;
    try {
      const uint64_t address = w.address(o, lane);
      const bool inside = space == Space::generic
                              ? address >= kSharedWindow && address - kSharedWindow < kWindowBytes
                              : address >> 32 == 0;  // not a tensor map's or a tile's in global memory
      if (!inside) continue;
      const SharedRef at = shared_ref(w, space, address, lane, "stop-at");
      const uint32_t from = at.offset / 4 * 4;
      std::string words;
      for (uint32_t word = from; word < from + 16 && word + 4 <= at.cta->shared.size(); word += 4) {
        uint32_t value;
        std::memcpy(&value, at.cta->shared.data() + word, 4);
        words += at.cta->is_defined(word, 4) ? fmt::format(" {:08x}", value) : " never written";
      }
      say(fmt::format("  shared {:#x} of {} (lane {}):{}", from, at.cta->name(), lane, words));
    } catch (const Fault&) {  // the instruction's own, when it is executed
    }
  }
}

void Inspect::access(const Access& a) {
  if (!watching_ || a.space != Space::shared || address_ < a.address || address_ >= a.address + a.bytes)
    return;
  const Grid& grid = a.cta->cluster.grid;
  const char* what = a.kind == AccessKind::read    ? "read"
                     : a.kind == AccessKind::write ? "written"
                                                   : "changed";
  uint32_t value = 0;
  std::memcpy(&value, a.cta->shared.data() + address_ / 4 * 4, 4);
  const std::string bytes = fmt::format("[{:#x}, {:#x})", a.address, a.address + a.bytes);
  if (a.op)
    say(fmt::format("step {}: {} {} by {} of warp {}, lane {}: {}", a.cta->cluster.clock(), bytes, what,
                    a.op->name(), a.op->warp, a.op->lane,
                    one_line(grid.module, grid.module.functions[a.op->function].source[a.op->origin->pc])));
  else
    say(fmt::format("step {}: {} {} by warp {}, lane {} (before: {:#010x}): {}", a.cta->cluster.clock(),
                    bytes, what, a.warp->id, a.lane, value,
                    one_line(grid.module, a.warp->source_of(*a.warp->current()))));
}

void Inspect::barrier(const BarrierEvent& e) {
  using What = BarrierEvent::What;
  if (!watching_ || e.what > What::wait_done || e.address / 8 != address_ / 8 || !e.cta) return;
  constexpr const char* names[] = {"init",           "inval",      "arrival", "expect_tx", "bytes delivered",
                                   "phase complete", "wait passed"};
  const Mbarrier* b = e.cta->state->mbarriers.find(e.address);
  const Module& m = e.cta->cluster.grid.module;
  std::string by;
  if (e.warp)
    by = fmt::format(" by warp {}, {}: {}", e.warp->id, lane_list(e.lanes),
                     one_line(m, e.warp->source_of(*e.warp->current())));
  else if (e.op)
    by = fmt::format(" by {}: {}", e.op->name(),
                     one_line(m, m.functions[e.op->function].source[e.op->origin->pc]));
  say(fmt::format("step {}: {} mbarrier {:#x}: {} {}{}{}", e.cta->cluster.clock(), e.cta->name(), e.address,
                  names[static_cast<int>(e.what)], e.amount, b ? fmt::format(" ({})", b->describe()) : "",
                  by));
}

void Inspect::complete(const AsyncOp& op) {
  if (!tile || op.cta->cluster.id != 0) return;
  const auto* product = dynamic_cast<const MatrixProduct*>(&op);
  const auto* mma = dynamic_cast<const MmaOp*>(&op);
  if (!product || (!mma && op.warp % 4)) return;  // of a warpgroup its first warp
  if (products_++ != tile->product) return;
  const Module& m = op.cta->cluster.grid.module;
  say(fmt::format("{} {} of {}: {}", op.name(), tile->product, op.cta->name(),
                  one_line(m, m.functions[op.function].source[op.origin->pc])));
  if (tile->operand != 'D')
    operand(*product);
  else if (mma)
    accumulator(*mma);
  else
    say("  D is in registers: stop at a line that uses them");
}

// Row by row, as the product took them: with scales the 16 or 32 values that share one, else the values of
// 16 bytes.
void Inspect::operand(const MatrixProduct& product) {
  const auto stored = product.stored(tile->operand);
  if (!stored) return say(fmt::format("  {} does not come from shared memory", tile->operand));
  const auto* mma = dynamic_cast<const MmaOp*>(&product);
  const bool scaled = mma && mma->scale_vec, is_a = tile->operand == 'A';
  const SharedMatrix& at = stored->at;
  const unsigned scale_column = scaled ? TmemAddress{(is_a ? mma->sfa : mma->sfb) & 0x3fffffff}.column() : 0;
  say(fmt::format(
      "  {}: {} rows of this CTA x {}, {}-major, start {:#x}, LBO {} B, SBO {} B, {} B a row of the "
      "swizzle{}",
      tile->operand, stored->rows, stored->columns, at.k_major ? "K" : "MN", at.start, at.lbo, at.sbo,
      at.span(), scaled ? fmt::format("; scales at TMEM column {}", scale_column) : ""));
  for (unsigned r = tile->row0; r <= tile->row1 && r < stored->rows; ++r) {
    if (scaled)
      scaled_row(*mma, *stored, r, scale_column + r / 32);
    else
      for (unsigned k = 0; k < stored->columns; k += stored->per_chunk)
        say(fmt::format("  row {:3} {}", r, values(product, *stored, r, k, stored->per_chunk)));
  }
}

void Inspect::scaled_row(const MmaOp& mma, const StoredOperand& stored, unsigned row, unsigned scale_column) {
  Cta& cta = *mma.cta;
  uint32_t word = 0;
  if (cta.sm.tmem && scale_column < kTmemColumns) word = cta.sm.tmem->column(scale_column)[row % 32];
  say(fmt::format("  row {} (scales in TMEM column {}, lane {}: {:#010x})", row, scale_column, row % 32,
                  word));
  const uint32_t id = tile->operand == 'A' ? mma.idesc.sfa_id : mma.idesc.sfb_id;
  const unsigned quarters = mma.scale_vec, step = stored.columns / quarters;
  for (unsigned i = 0; i < quarters; ++i) {
    const auto code = static_cast<uint8_t>(word >> 8 * mma.scale_byte(i * 4 / quarters, id));
    const float scale = mma.idesc.scale_ue8m0 ? std::ldexp(1.0f, int(code) - 127) : ue4m3_value(code);
    say(fmt::format("    {}", values(mma, stored, row, i * step, step, fmt::format(", scale {:g}", scale))));
  }
}

// "k 16..31 at 0x440, scale 2: 0 1.5 ..."
std::string Inspect::values(const AsyncOp& op, const StoredOperand& stored, unsigned row, unsigned k,
                            unsigned count, const std::string& scale) const {
  const Cta& cta = *op.cta;
  std::string line =
      fmt::format("k {:2}..{:2} at {:#x}{}:", k, k + count - 1, stored.place(row, k).address(), scale);
  for (unsigned i = k; i < k + count; ++i) {
    const StoredOperand::Place place = stored.place(row, i);
    if (place.chunk + 16 > cta.shared.size()) return line + " past the end of shared memory";
    unsigned __int128 chunk;
    std::memcpy(&chunk, cta.shared.data() + place.chunk, 16);
    auto bits = static_cast<uint32_t>(static_cast<uint64_t>(chunk >> place.shift));
    if (stored.bits < 32) bits &= (1u << stored.bits) - 1;
    if (stored.format == ElementFormat::tf32) bits >>= 13;
    line += fmt::format(" {:g}", element_value(stored.format, bits));
  }
  return line;
}

void Inspect::accumulator(const MmaOp& mma) {
  Cta& cta = *mma.cta;
  for (const MmaOp::Part& p : mma.layout())
    for (unsigned r = tile->row0; r <= tile->row1; ++r) {
      if (r < p.row || r >= p.row + p.rows) continue;
      const unsigned lane = p.lane + r - p.row;
      std::string line = fmt::format("  row {} (lane {}), columns {}..{} at TMEM {}:", r, lane, tile->column0,
                                     tile->column1, p.column + tile->column0 - std::min(tile->column0, p.n));
      for (unsigned c = tile->column0; c <= tile->column1; ++c)
        if (c >= p.n && c < p.n + p.columns)
          line += fmt::format(" {:g}", std::bit_cast<float>(cta.sm.tmem->column(p.column + c - p.n)[lane]));
      say(line);
    }
}

}  // namespace fp4lab::emu
