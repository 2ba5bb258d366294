// cp.async.bulk.tensor: global memory to shared memory (PTX ISA 9.7.9.27.1).
#include "emulator/engine/tma.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/engine/tma_box.h"

namespace fp4lab::emu {

void TensorMapRef::point_to(uint64_t to, const Cluster& cluster) {
  address = to;
  const GlobalMemory& memory = cluster.grid.memory;
  if (!cluster.grid.schedule.tolerant || !memory.find(address, kTensorMapBytes).end) return;
  std::memcpy(issued.emplace().data(), memory.host(address), kTensorMapBytes);
}

TensorMap TensorMapRef::read(Cluster& cluster, const AsyncOp& op) const {
  const char* what = op.name();
  if (address % 64)
    fault(FaultKind::misaligned_address, op.lane, "{}: the tensor map at {:#x} is not aligned to 64 bytes",
          what, address);
  const std::byte* bytes;
  if (address >= kParamWindow && address - kParamWindow < kWindowBytes) {
    const uint64_t offset = address - kParamWindow;
    const auto& params = cluster.grid.config.params;
    if (offset + kTensorMapBytes > params.size())
      fault(FaultKind::illegal_address, op.lane,
            "{}: the tensor map at offset {} ends behind the {} bytes of kernel parameters", what, offset,
            params.size());
    bytes = params.data() + offset;
  } else {
    if ((address >= kSharedWindow && address - kSharedWindow < kWindowBytes) ||
        (address >= kLocalWindow && address - kLocalWindow < kWindowBytes))
      fault(FaultKind::illegal_address, op.lane,
            "{}: the tensor map at {:#x} is in {} memory; it must be a kernel parameter, or in .const or "
            ".global",
            what, address, address < kLocalWindow ? "shared" : "local");
    global_range(cluster.grid, address, kTensorMapBytes, what);
    bytes = cluster.grid.memory.host(address);
    watch_access(cluster, AccessKind::read, Space::global, address, kTensorMapBytes, nullptr, op,
                 Proxy::tensormap);
    if (issued && std::memcmp(issued->data(), bytes, kTensorMapBytes)) {
      cluster.tolerated(Fault(FaultKind::tensor_map, op.lane,
                              fmt::format("{}: the tensor map at {:#x} was replaced while the copy was under "
                                          "way; it goes by the map as it was at issue",
                                          what, address)),
                        op);
      bytes = issued->data();
    }
  }
  bool ok;
  TensorMap m = decode_tensor_map(bytes, ok);
  if (!ok)
    fault(FaultKind::tensor_map, op.lane,
          "{}: the 128 bytes at {:#x} are no tensor map (none that cuTensorMapEncodeTiled made)", what,
          address);
  if (std::string why = m.invalid(cluster.grid.device.major < 10, true); !why.empty())
    fault(FaultKind::tensor_map, op.lane, "{}: the tensor map at {:#x} is not valid: {}", what, address, why);
  return m;
}

void check_coordinates(const TensorMap& m, const int32_t* c, unsigned count, bool im2col) {
  if (im2col != m.im2col)
    fault(FaultKind::tensor_map, 0, "{} tensor map used by an instruction for {} ones",
          m.im2col ? "an im2col" : "a tiled", im2col ? "im2col" : "tiled");
  if (count != m.rank)
    fault(FaultKind::tensor_map, 0, "a tensor map of rank {} used by an instruction for {} dimensions",
          m.rank, count);
  for (unsigned d = 0; d < m.rank; ++d)
    if (m.dim[d] > uint64_t(1) << 31)
      fault(FaultKind::illegal_instruction, 0,
            "a tensor map with {} elements in dimension {}: cuTensorMapEncodeTiled takes it, but beyond 2^31 "
            "the hardware traps (seen on an H200)",
            m.dim[d], d);
  if (m.interleave) return;  // units
  if (m.padded() ? c[0] % 128 : int64_t(c[0]) * m.element_bits() % 128)
    fault(FaultKind::coordinates, 0,
          "the innermost start coordinate {} of a {} map is not a multiple of {}: the hardware traps", c[0],
          name_of(m.type), m.padded() ? "128 elements" : "16 bytes");
}

namespace {

Layout layout_of(TensorSwizzle s) {
  switch (s) {
    case TensorSwizzle::none:
      return Layout::none;
    case TensorSwizzle::b32:
      return Layout::b32;
    case TensorSwizzle::b64:
      return Layout::b64;
    case TensorSwizzle::b128:
      return Layout::b128;
    case TensorSwizzle::b128_atom32:
      return Layout::b128_atom32;
    default:
      return Layout::other;
  }
}

struct TmaLoad final : AsyncOp {
  TensorMapRef map;
  TensorCoordinates coordinates{};
  unsigned dimensions = 0;
  uint32_t destination = 0, barrier = 0;  // offsets, the same in every target CTA
  std::vector<TmaTarget> targets;

  struct Part {
    uint32_t target, first, count;
  };
  std::vector<Part> parts;
  bool started = false, gather = false, im2col = false;
  std::array<uint16_t, 3> offsets{};      // im2col
  std::vector<TensorCoordinates> pixels;  // im2col
  TensorMap m;

  TensorRun run_number(uint32_t r) const {
    return im2col   ? tensor_run(m, pixels[r].data(), 0)
           : gather ? tensor_run_of_four(m, coordinates.data(), r)
                    : tensor_run(m, coordinates.data(), r);
  }

  const char* name() const override { return "cp.async.bulk.tensor"; }
  bool holds_exit() const override {
    return started ? any_part_concerns(parts, targets, *cta) : any_concerns(targets, *cta);
  }
  bool held(const Cluster& cluster) const override {
    return !started && (too_soon(cluster, *this) || any_ahead_of_init(targets, barrier, *this) ||
                        cluster.behind_product(*this));
  }

  // A box may arrive in pieces and in any order.
  void plan(Cluster& cluster) {
    m = map.read(cluster, *this);
    check_coordinates(m, coordinates.data(), gather ? 2 : dimensions, im2col);
    if (m.made_tf32 && !m.is_f32())
      fault(FaultKind::illegal_instruction, lane,
            "{}: the tensor map was made for TFLOAT32, and tensormap.replace has made its type {}: the "
            "hardware traps (seen on an H200)",
            name(), name_of(m.type));
    split_units(m, coordinates);
    if (gather) four_rows(m);
    if (im2col) pixels = im2col_pixels(m, coordinates.data(), offsets.data());
    const uint32_t runs = m.runs();
    const bool whole = cluster.grid.schedule.kind == Schedule::Kind::eager;
    for (uint32_t t = 0; t < targets.size(); ++t) {
      uint32_t pieces = whole || cluster.rng() % 2 ? 1 : 1 + static_cast<uint32_t>(cluster.rng() % 4);
      pieces = std::min(pieces, runs);
      for (uint32_t p = 0, first = 0; p < pieces; ++p) {
        uint32_t end = static_cast<uint32_t>(uint64_t(runs) * (p + 1) / pieces);
        parts.push_back({t, first, end - first});
        first = end;
      }
    }
    if (!whole) std::shuffle(parts.begin(), parts.end(), cluster.rng);
    started = true;
  }

  void deliver(Cluster& cluster, const Part& part) {
    const TmaTarget& target = targets[part.target];
    Cta& to = *target.cta;
    if (to.exited)
      fault(FaultKind::peer_exited, lane, "{} arrives in CTA rank {}, which has exited", name(), to.rank);
    const uint32_t pitch = m.pitch(), line = m.line(), run_bytes = m.run_bytes();
    // The swizzle permutes within its period, so whole periods around the box bound every address.
    const uint32_t begin = destination, end = destination + m.shared_bytes();
    const uint32_t unit = std::max<uint32_t>(swizzle_period(m.swizzle) / 8, 16);  // one line of the pattern
    const uint32_t lo = begin / unit * unit, hi = (end + unit - 1) / unit * unit;
    std::byte* window = to.window(lo, hi - lo, name()) - lo;
    const bool lines = line == pitch && pitch % 128 == 0 && destination % 128 == 0;
    const unsigned pad = m.type == TensorType::u4_align16 ? 8 : 12;  // data bytes of 16

    std::byte fill[16];
    fill_pattern(m, fill);
    std::byte row[2048], padded[256];
    GlobalMemory::Range range;
    for (uint32_t r = part.first; r < part.first + part.count; ++r) {
      const TensorRun run = run_number(r);
      const uint32_t linear = destination + r * pitch;
      const std::byte* image = row;
      if (run.inside) {
        const uint32_t n = run.hi - run.lo;
        if (!range.contains(run.global, n)) range = global_range(cluster.grid, run.global, n, name());
        const std::byte* source = cluster.grid.memory.host(run.global);
        if (n == run_bytes && !m.rounds()) {
          image = source;
        } else {
          for (uint32_t i = 0; i < run_bytes; i += 16) std::memcpy(row + i, fill, 16);
          std::memcpy(row + run.lo, source, n);
          if (m.rounds()) round_to_tf32(row + run.lo, n);
        }
        watch_access(cluster, AccessKind::read, Space::global, run.global, n, nullptr, *this);
      } else {
        for (uint32_t i = 0; i < run_bytes; i += 16) std::memcpy(row + i, fill, 16);
      }
      if (m.padded()) {  // 16 elements take 16 bytes; what is in the padding is not specified
        std::memset(padded, 0xcb, sizeof padded);
        for (uint32_t i = 0; i < line / 16; ++i) std::memcpy(padded + i * 16, image + i * pad, pad);
        image = padded;
      }
      scatter_run(m.swizzle, linear, line, image, window);
      if (lines) {
        to.state->check_payload(linear, pitch, name());
        to.define(linear, pitch);
        watch_access(cluster, AccessKind::write, Space::shared, linear, pitch, &to, *this, Proxy::async,
                     layout_of(m.swizzle));
      } else {
        const uint32_t atom = std::min<uint32_t>(swizzle_atom(m.swizzle), 16);
        for (uint32_t i = 0; i < line; i += atom) {
          const uint32_t where = swizzled(m.swizzle, linear + i);
          to.state->check_payload(where, atom, name());
          to.define(where, atom);
          watch_access(cluster, AccessKind::write, Space::shared, where, atom, &to, *this, Proxy::async,
                       layout_of(m.swizzle));
        }
      }
    }
    cluster.statistics.tma_bytes += part.count * run_bytes;
    Cta& signalled = *target.barrier_cta;
    if (signalled.exited)
      fault(FaultKind::peer_exited, lane, "{} signals an mbarrier of CTA rank {}, which has exited", name(),
            signalled.rank);
    signalled.state->engine_complete_tx(barrier, part.count * run_bytes, *this);
  }

  bool run(Cluster& cluster) override {
    if (!started) plan(cluster);
    do {
      Part part = parts.back();
      parts.pop_back();
      deliver(cluster, part);
    } while (!parts.empty() && cluster.grid.schedule.kind == Schedule::Kind::eager);
    return parts.empty();
  }
};

struct LoadMods {
  Space destination;
  bool multicast;
  uint8_t group;       // 0 when not given
  uint8_t dimensions;  // coordinates: 5 for gather4
  bool gather, im2col;
};

// op 0 [dst], 1 [map, 2 {c}], 3 [mbar], with .im2col {offsets}, then mask, cache policy
void load(Warp& w, const Instr& in) {
  constexpr const char* what = "cp.async.bulk.tensor";
  const LoadMods mods = unpack_aux<LoadMods>(in);
  Cluster& cluster = w.cta.cluster;
  for_lanes(w.active, [&](unsigned lane) {
    auto op = std::make_unique<TmaLoad>();
    const SharedRef dst = shared_ref(w, mods.destination, in.op[0], lane, what);
    // With .cta_group::2 it may be the pair's other CTA's, of a destination in shared::cta too (FlashMLA).
    const SharedRef bar =
        shared_ref(w, mods.group == 2 ? Space::shared_cluster : mods.destination, in.op[3], lane, what);
    op->map.point_to(w.address(in.op[1], lane), cluster);
    op->dimensions = mods.dimensions;
    op->gather = mods.gather, op->im2col = mods.im2col;
    for (unsigned d = 0; mods.im2col && d + 2 < mods.dimensions; ++d)
      op->offsets[d] = w.source<uint16_t>(w.element(in.op[4], d))[lane] & 0xffff;
    for (unsigned d = 0; d < mods.dimensions; ++d)
      op->coordinates[d] = static_cast<int32_t>(w.source<uint32_t>(w.element(in.op[2], d))[lane]);
    if (dst.offset % 128)
      fault(FaultKind::misaligned_address, lane,
            "{}: the shared destination {:#x} is not aligned to 128 bytes", what,
            dst.cta->address_of(dst.offset));
    op->destination = dst.offset;
    op->barrier = bar.offset;
    auto barrier_cta = [&](Cta& to) -> Cta* {
      uint32_t rank = to.rank;
      if (mods.group == 2)  // the mbarrier may be the pair's other CTA's
        rank = (rank & ~1u) | (bar.cta->rank & 1);
      if (rank >= cluster.ctas.size())
        fault(FaultKind::illegal_address, lane, "{}.cta_group::2: CTA rank {} does not exist", what, rank);
      return cluster.ctas[rank].get();
    };
    if (mods.multicast) {
      const uint32_t mask = w.source<uint16_t>(in.op[mods.im2col ? 5 : 4])[lane] & 0xffff;
      if (mask == 0 || mask >> cluster.ctas.size()) {
        const Fault nobody(FaultKind::multicast, lane,
                           fmt::format("{}.multicast::cluster with mask {:#06x} in a cluster of {} CTAs",
                                       what, mask, cluster.ctas.size()));
        if (mask) throw nobody;
        cluster.note_or_throw(nobody, w);  // an H200 loads for nobody, and traps at CTAs that are not there
        return;
      }
      for (uint32_t rank = 0; rank < cluster.ctas.size(); ++rank)
        if (mask >> rank & 1) {
          Cta& to = *cluster.ctas[rank];
          op->targets.push_back({&to, barrier_cta(to)});
        }
    } else {
      if (mods.group != 2 && dst.cta != bar.cta)
        fault(FaultKind::multicast, lane,
              "{}: the destination is in CTA rank {}, the mbarrier in rank {}; without .cta_group::2 they "
              "must be in the same CTA",
              what, dst.cta->rank, bar.cta->rank);
      if (mods.group == 2 && (dst.cta->rank ^ bar.cta->rank) > 1)
        fault(FaultKind::multicast, lane,
              "{}.cta_group::2: the destination is in CTA rank {}, the mbarrier in rank {}, which is not its "
              "pair",
              what, dst.cta->rank, bar.cta->rank);
      op->targets.push_back({dst.cta, bar.cta});
    }
    for (const TmaTarget& t : op->targets) t.barrier_cta->state->expect_signal(w, op->barrier, what);
    cluster.submit(std::move(op), w, in, lane);
  });
}

}  // namespace

Body bind_tma_load(Instr& in, const Source& s) {
  LoadMods m{};
  m.destination = shared_space(s);
  m.multicast = s.has("multicast::cluster");
  if (m.multicast && m.destination == Space::shared)
    fault(FaultKind::misuse, 0, "multicast is for .shared::cluster");
  m.group = s.has("cta_group::2") ? 2 : s.has("cta_group::1") ? 1 : 0;
  for (unsigned d = 1; d <= 5; ++d)
    if (s.has(fmt::format("{}d", d))) m.dimensions = static_cast<uint8_t>(d);
  m.gather = s.has("tile::gather4");
  m.im2col = s.has("im2col");
  if (m.im2col && in.op[4].count + 2u != m.dimensions)
    fault(FaultKind::misuse, 0, "{} im2col offsets for {} dimensions, must be {}", in.op[4].count,
          m.dimensions, m.dimensions - 2);
  if (m.gather) m.dimensions = 5;
  if (in.op[2].count != m.dimensions)
    fault(FaultKind::misuse, 0, "{} coordinates for {} dimensions", in.op[2].count, m.dimensions);
  in.aux = pack_aux(m);
  return load;
}

Body bind_tma_load_im2col(Instr& in, const Source& s) { return bind_tma_load(in, s); }
Body bind_tma_gather4(Instr& in, const Source& s) { return bind_tma_load(in, s); }

}  // namespace fp4lab::emu
