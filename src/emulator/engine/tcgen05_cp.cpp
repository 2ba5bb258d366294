// tcgen05.cp, tcgen05.commit and tcgen05.fence (PTX ISA 9.7.16.9, 9.7.16.12).

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/engine/delivery.h"
#include "emulator/engine/shared_matrix.h"
#include "emulator/engine/tcgen05.h"

namespace fp4lab::emu {

namespace {

enum class Shape : uint8_t { s128x256b, s128x128b, s4x256b, s64x128b_02_13, s64x128b_01_23, s32x128b };

struct ShapeRow {
  const char* name;
  uint32_t rows, bytes;
};
constexpr ShapeRow kShapes[] = {{"128x256b", 128, 32}, {"128x128b", 128, 16}, {"4x256b", 4, 32},
                                {"64x128b", 64, 16},   {"64x128b", 64, 16},   {"32x128b", 32, 16}};

// TMEM lanes of source row r, relative to the base lane.
unsigned lanes_of(Shape s, unsigned r, unsigned out[4]) {
  switch (s) {
    case Shape::s128x256b:
    case Shape::s128x128b:
      out[0] = r;
      return 1;
    case Shape::s4x256b:
      out[0] = 32 * r;
      return 1;
    case Shape::s64x128b_02_13:
      out[0] = r, out[1] = r + 64;
      return 2;
    case Shape::s64x128b_01_23:
      out[0] = r < 32 ? r : r + 32, out[1] = out[0] + 32;
      return 2;
    case Shape::s32x128b:
      for (unsigned p = 0; p < 4; ++p) out[p] = r + 32 * p;
      return 4;
  }
  return 0;
}

struct Mods {
  Shape shape;
  uint8_t group;
  uint8_t decompress;  // 0 no, 4 from 4 bits, 6 from 6 bits
};

struct TmemCopy final : AsyncOp {
  Mods m{};
  uint32_t address = 0;
  SharedMatrix source;

  const char* name() const override { return "tcgen05.cp"; }
  bool held(const Cluster& cluster) const override { return cluster.at_once(*this); }
  bool of_pair() const override { return m.group == 2; }

  void check(Cta& to) const {
    const TmemAddress a{address};
    const uint32_t limit = m.shape == Shape::s4x256b ? 31 : 0;
    if (a.lane() > limit)
      fault(FaultKind::tmem_address, lane,
            "tcgen05.cp.{} to TMEM address {:#010x}: its lane is {}, must be {}",
            kShapes[static_cast<int>(m.shape)].name, address, a.lane(), limit ? "0 to 31" : "0");
    tensor_memory(to).check(to, a.column(), kShapes[static_cast<int>(m.shape)].bytes / 4, "tcgen05.cp", this);
  }

  // 16 elements of 4 or 6 bits in the first bytes of 16 get a byte each. A reading of figures that the text
  // of the manual lacks: those of 4 bits stand in bits 5 to 2, because the only reader of such bytes,
  // kind::f8f6f4 with A in TMEM, takes e2m1 from there. (ldmatrix leaves them in the low bits, and the kernel
  // shifts; here no kernel could.)
  void decompress(std::byte* row, uint32_t bytes) const {
    const int shift = m.decompress == 4 ? 2 : 0;
    for (unsigned g = 0; g < bytes / 16; ++g) {
      unsigned __int128 all;
      std::memcpy(&all, row + g * 16, 16);
      for (unsigned i = 0; i < 16; ++i)
        row[g * 16 + i] = std::byte{static_cast<uint8_t>(
            (static_cast<uint64_t>(all >> (i * m.decompress)) & ((1u << m.decompress) - 1)) << shift)};
    }
  }

  void copy(Cluster& cluster, Cta& to) {
    check(to);
    const auto [_, rows, bytes] = kShapes[static_cast<int>(m.shape)];
    std::byte data[128 * 32];
    uint16_t defined[128];  // bits of a row's words
    // Bytes that nobody wrote make their cells undefined; whoever reads those hears of it. Padding rows of a
    // scale block may well be such.
    read_k_major(cluster, to, source, rows, bytes, data, *this, "the source", defined);
    TensorMemory& tmem = tensor_memory(to);
    const TmemAddress a{address};
    const bool all = std::all_of(defined, defined + rows, [](uint16_t d) { return d == kAllWords; });
    // Every lane of the columns gets something, but for 4x256b.
    if (all && m.shape != Shape::s4x256b)
      for (unsigned c = 0; c < bytes / 4; ++c) tmem.define(to, a.column() + c, 0, kTmemLanes);
    for (unsigned r = 0; r < rows; ++r) {
      unsigned lanes[4];
      const unsigned count = lanes_of(m.shape, r, lanes);
      uint32_t row[8];
      std::memcpy(row, data + r * bytes, bytes);
      if (m.decompress) decompress(reinterpret_cast<std::byte*>(row), bytes);
      for (unsigned c = 0; c < bytes / 4; ++c) {
        auto& column = tmem.column(a.column() + c);
        for (unsigned i = 0; i < count; ++i) column[a.lane() + lanes[i]] = row[c];
      }
      if (!all || m.shape == Shape::s4x256b)
        for (unsigned i = 0; i < count; ++i)
          for (unsigned c = 0; c < bytes / 4; ++c) {
            if (defined[r] >> c & 1)
              tmem.define(to, a.column() + c, a.lane() + lanes[i], 1);
            else
              tmem.undefine(a.column() + c, a.lane() + lanes[i], 1);
          }
    }
    tmem.note_copy({to.state->ptx_line(function, *origin), a.column(), bytes / 4, !all});
    watch_tmem(cluster, true, &to, a.lane(), 128 - a.lane(), a.column(), bytes / 4, *this);
  }

  bool lost_at_exit() const override {
    const TensorMemory& tmem = tensor_memory(*cta);
    const unsigned first = TmemAddress{address}.column(),
                   columns = kShapes[static_cast<int>(m.shape)].bytes / 4;
    return m.group == 1 && !tmem.owns_any(*cta, first, columns);
  }

  bool run(Cluster& cluster) override {
    copy(cluster, *cta);
    if (m.group == 2) copy(cluster, pair_of(*cta, name()));  // each CTA from its own shared memory
    return true;
  }
};

// op 0 [taddr], op 1 the descriptor
void cp(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  use_group(w.cta, m.group);
  const uint64_t* descriptor = w.source<uint64_t>(in.op[1]);
  for_lanes(w.active, [&](unsigned lane) {
    auto op = std::make_unique<TmemCopy>();
    op->m = m;
    op->lane = lane;
    op->address = static_cast<uint32_t>(w.address(in.op[0], lane));
    op->source = shared_matrix(w, lane, descriptor[lane], "tcgen05.cp: descriptor");
    if (m.decompress) op->source.data_bytes = 2u * m.decompress;
    op->check(w.cta);
    if (m.group == 2) op->check(pair_of(w.cta, "tcgen05.cp"));
    op->queue = pipe_of(w, lane);
    w.cta.cluster.submit(std::move(op), w, in, lane);
  });
}

struct Commit final : AsyncOp {
  uint32_t barrier = 0;  // offset
  std::vector<Cta*> targets;

  const char* name() const override { return "tcgen05.commit"; }
  bool held(const Cluster&) const override {
    return std::ranges::any_of(targets,
                               [&](const Cta* to) { return to->state->ahead_of_init(*this, barrier); });
  }
  // CuTe DSL's fmha_bwd and mla_decode give slots back behind the last product, and nobody waits for them:
  // run() notes the targets that have exited.
  bool holds_exit() const override { return !cta->cluster.grid.schedule.tolerant; }
  bool run(Cluster& cluster) override {
    for (Cta* to : targets) {
      if (!to->exited) {
        to->state->engine_arrive(barrier, *this);
        continue;
      }
      const Fault gone(
          FaultKind::peer_exited, lane,
          fmt::format("tcgen05.commit arrives on an mbarrier of CTA rank {}, which has exited", to->rank));
      cluster.note_or_throw(gone, *this);
    }
    return true;
  }
};

struct CommitMods {
  Space space;
  uint8_t group;
  bool multicast;
};

// op 0 [mbar], op 1 the mask of CTAs. In the pipe of its thread, so it follows what that thread issued
// before.
void commit(Warp& w, const Instr& in) {
  const CommitMods m = unpack_aux<CommitMods>(in);
  use_group(w.cta, m.group);
  Cluster& cluster = w.cta.cluster;
  for_lanes(w.active, [&](unsigned lane) {
    auto op = std::make_unique<Commit>();
    const SharedRef bar = shared_ref(w, m.space, in.op[0], lane, "tcgen05.commit");
    op->barrier = bar.offset;
    if (m.multicast) {
      op->targets = multicast_ctas(w, in.op[1], lane, "tcgen05.commit", false);
    } else {
      op->targets.push_back(bar.cta);
    }
    for (Cta* to : op->targets) to->state->expect_signal(w, bar.offset, "tcgen05.commit");
    op->queue = pipe_of(w, lane);
    cluster.submit(std::move(op), w, in, lane);
  });
}

}  // namespace

Body bind_tcgen05_cp(Instr& in, const Source& s) {
  Mods m{};
  m.group = cta_group(s);
  if (s.has("128x256b")) m.shape = Shape::s128x256b;
  if (s.has("128x128b")) m.shape = Shape::s128x128b;
  if (s.has("4x256b")) m.shape = Shape::s4x256b;
  if (s.has("32x128b")) {
    m.shape = Shape::s32x128b;
    if (!s.has("warpx4")) fault(FaultKind::misuse, 0, ".32x128b needs .warpx4");
  }
  if (s.has("64x128b")) {
    if (!s.has("warpx2::02_13") && !s.has("warpx2::01_23"))
      fault(FaultKind::misuse, 0, ".64x128b needs .warpx2::02_13 or .warpx2::01_23");
    m.shape = s.has("warpx2::02_13") ? Shape::s64x128b_02_13 : Shape::s64x128b_01_23;
  }
  if (s.has("b4x16_p64")) m.decompress = 4;
  if (s.has("b6x16_p32")) m.decompress = 6;
  in.aux = pack_aux(m);
  return cp;
}
Body bind_tcgen05_cp_unpack(Instr& in, const Source& s) { return bind_tcgen05_cp(in, s); }
Body bind_tcgen05_commit(Instr& in, const Source& s) {
  CommitMods m{Space::shared_cluster, cta_group(s), s.has("multicast::cluster")};
  if (!s.has("shared::cluster")) m.space = Space::generic;
  in.aux = pack_aux(m);
  return commit;
}

}  // namespace fp4lab::emu
