// cp.async.bulk.tensor: global memory to shared memory (PTX ISA 9.7.9.27.1).
#include "emulator/engine/tma.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/core/poison.h"
#include "emulator/engine/tma_box.h"

namespace fp4lab::emu {

void TensorMapRef::point_to(uint64_t to, const Cluster& cluster) {
  address = to;
  const GlobalMemory& memory = cluster.grid.memory;
  if (!cluster.grid.schedule.tolerant || !memory.find(address, kTensorMapBytes).end) return;
  std::memcpy(issued.emplace().data(), memory.host(address), kTensorMapBytes);
}

namespace {

// A stride in elements or of the wrong operand, most often. 0 is one row for everybody; im2col's windows are
// made of strides, and slices of an interleaved map are narrower than its rows.
void note_overlap(const TensorMap& m, uint64_t address, Cluster& cluster, const AsyncOp& op) {
  const uint64_t row = m.dim[0] * m.element_bits() / 8;
  for (unsigned d = 1; d < m.rank && !m.im2col && !m.interleave; ++d)
    if (m.stride[d] && m.stride[d] < row && m.dim[d] > 1) {
      cluster.tolerated(
          Fault(FaultKind::tensor_map, op.lane,
                fmt::format("{}: in the tensor map at {:#x} rows overlap: the stride of dimension {} is {} "
                            "bytes, and dimension 0 has {} elements of {} bits, {} bytes (right for windows "
                            "that slide)",
                            op.name(), address, d, m.stride[d], m.dim[0], m.element_bits(), row)),
          op);
      return;
    }
}

}  // namespace

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
            "{}: the tensor map at offset {} ends past the {} bytes of kernel parameters", what, offset,
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
                                          "way; it uses the map as it was at issue",
                                          what, address)),
                        op);
      bytes = issued->data();
    }
  }
  bool ok;
  TensorMap m = decode_tensor_map(bytes, ok);
  if (!ok)
    fault(FaultKind::tensor_map, op.lane,
          "{}: the 128 bytes at {:#x} are not a tensor map (none that cuTensorMapEncodeTiled made)", what,
          address);
  if (m.patched)
    cluster.note_or_throw(
        Fault(FaultKind::tensor_map, op.lane,
              fmt::format("{}: the program wrote into the tensor map at {:#x} by itself, neither by "
                          "cuTensorMapReplaceAddress nor by tensormap.replace; its layout is not documented. "
                          "The copy uses what is there now",
                          what, address)),
        op);
  if (std::string why = m.invalid(cluster.grid.device.major < 10, true); !why.empty())
    fault(FaultKind::tensor_map, op.lane, "{}: the tensor map at {:#x} is not valid: {}", what, address, why);
  note_overlap(m, address, cluster, op);
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

constexpr const char* kLoad = "cp.async.bulk.tensor";

struct TmaLoad final : AsyncOp {
  TensorMapRef map;
  TensorCoordinates coordinates{};
  unsigned dimensions = 0;
  uint32_t destination = 0, barrier = 0;  // offsets, the same in every target CTA
  std::vector<TmaTarget> targets;
  std::vector<Delivery> parts;  // that have not arrived
  bool started = false, gather = false, im2col = false;
  std::array<uint16_t, 3> offsets{};      // im2col
  std::vector<TensorCoordinates> pixels;  // im2col
  TensorMap m;

  TensorRun run_number(uint32_t r) const {
    return im2col   ? tensor_run(m, pixels[r].data(), 0)
           : gather ? tensor_run_of_four(m, coordinates.data(), r)
                    : tensor_run(m, coordinates.data(), r);
  }

  const char* name() const override { return kLoad; }
  Counted counted() const override { return counted_by(targets, barrier); }
  bool holds_exit() const override {
    return started ? any_part_concerns(parts, targets, *cta) : any_concerns(targets, *cta);
  }
  bool held(const Cluster& cluster) const override {
    return !started && (too_soon(cluster, *this) || any_ahead_of_init(targets, barrier, *this) ||
                        cluster.behind_product(*this));
  }

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
    parts = deliveries(cluster, targets.size(), m.runs());
    started = true;
  }

  // The bytes of a run as they come from global memory, or are filled: in place, or in `row`.
  const std::byte* fetch(Cluster& cluster, const TensorRun& run, const std::byte* fill, std::byte* row,
                         GlobalMemory::Range& range) {
    const uint32_t run_bytes = m.run_bytes(), n = run.hi - run.lo;
    const bool as_it_is = run.inside && n == run_bytes && !m.rounds();
    for (uint32_t i = 0; !as_it_is && i < run_bytes; i += 16) std::memcpy(row + i, fill, 16);
    if (!run.inside) return row;
    if (!range.contains(run.global, n)) range = global_source(cluster, run.global, n, *this);
    const std::byte* source = cluster.grid.memory.host(run.global);
    watch_access(cluster, AccessKind::read, Space::global, run.global, n, nullptr, *this);
    if (as_it_is) return source;
    std::memcpy(row + run.lo, source, n);
    if (m.rounds()) round_to_tf32(row + run.lo, n);
    return row;
  }

  // One run at `linear` (before the swizzle) has been written.
  void written(Cluster& cluster, Cta& to, uint32_t linear) {
    const auto piece = [&](uint32_t where, uint32_t bytes) {
      to.state->check_payload(where, bytes, name());
      to.define(where, bytes);
      watch_access(cluster, AccessKind::write, Space::shared, where, bytes, &to, *this, Proxy::async,
                   layout_of(m.swizzle));
    };
    const uint32_t line = m.line();
    if (line == m.pitch() && line % 128 == 0 && destination % 128 == 0) return piece(linear, line);
    const uint32_t atom = std::min<uint32_t>(swizzle_atom(m.swizzle), 16);
    for (uint32_t i = 0; i < line; i += atom) piece(swizzled(m.swizzle, linear + i), atom);
  }

  void deliver(Cluster& cluster, const Delivery& part) {
    const TmaTarget& target = targets[part.target];
    Cta& to = *target.cta;
    if (to.exited)
      fault(FaultKind::peer_exited, lane, "{} arrives in CTA rank {}, which has exited", name(), to.rank);
    const uint32_t pitch = m.pitch(), line = m.line();
    // The swizzle permutes within its period, so whole periods around the box bound every address.
    const uint32_t begin = destination, end = destination + m.shared_bytes();
    const uint32_t unit = std::max<uint32_t>(swizzle_period(m.swizzle) / 8, 16);  // one line of the pattern
    const uint32_t lo = begin / unit * unit, hi = (end + unit - 1) / unit * unit;
    std::byte* window = to.window(lo, hi - lo, name()) - lo;
    const unsigned pad = m.type == TensorType::u4_align16 ? 8 : 12;  // data bytes of 16

    std::byte fill[16];
    fill_pattern(m, fill);
    std::byte row[2048], padded[256];
    GlobalMemory::Range range;
    for (uint32_t r = part.first; r < part.first + part.count; ++r) {
      const uint32_t linear = destination + r * pitch;
      const std::byte* image = fetch(cluster, run_number(r), fill, row, range);
      if (m.padded()) {  // 16 elements take 16 bytes; what is in the padding is not specified
        std::memset(padded, kPoison, sizeof padded);
        for (uint32_t i = 0; i < line / 16; ++i) std::memcpy(padded + i * 16, image + i * pad, pad);
        image = padded;
      }
      scatter_run(m.swizzle, linear, line, image, window);
      written(cluster, to, linear);
    }
    const uint32_t bytes = part.count * m.run_bytes();
    cluster.statistics.tma_bytes += bytes;
    Cta& signalled = *target.barrier_cta;
    if (signalled.exited)
      fault(FaultKind::peer_exited, lane, "{} signals an mbarrier of CTA rank {}, which has exited", name(),
            signalled.rank);
    signalled.state->engine_complete_tx(barrier, bytes, *this, target.phase);
  }

  bool run(Cluster& cluster) override {
    if (!started) plan(cluster);
    do {
      const Delivery part = parts.back();
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

// With .cta_group::2 the mbarrier may be the pair's other CTA's: that of a CTA `to` is where `bar` is in its
// pair.
Cta* barrier_cta(const LoadMods& mods, Cta& to, const SharedRef& bar, unsigned lane) {
  if (mods.group != 2) return &to;
  const auto& ctas = to.cluster.ctas;
  const uint32_t rank = (to.rank & ~1u) | (bar.cta->rank & 1);
  if (rank >= ctas.size())
    fault(FaultKind::illegal_address, lane, "{}.cta_group::2: CTA rank {} does not exist", kLoad, rank);
  return ctas[rank].get();
}

// The same for the one destination of a copy that is no multicast.
Cta* barrier_cta_of_one(Warp& w, const LoadMods& mods, const SharedRef& dst, const SharedRef& bar,
                        unsigned lane) {
  if (mods.group != 2) return beside(w, dst, bar, lane, kLoad).cta;
  if ((dst.cta->rank ^ bar.cta->rank) > 1)
    fault(
        FaultKind::multicast, lane,
        "{}.cta_group::2: the destination is in CTA rank {}, the mbarrier in rank {}, which is not its pair",
        kLoad, dst.cta->rank, bar.cta->rank);
  return bar.cta;
}

// op 0 [dst], 1 [map, 2 {c}], 3 [mbar], with .im2col {offsets}, then mask, cache policy
void load(Warp& w, const Instr& in) {
  const LoadMods mods = unpack_aux<LoadMods>(in);
  Cluster& cluster = w.cta.cluster;
  for_lanes(w.active, [&](unsigned lane) {
    auto op = std::make_unique<TmaLoad>();
    const SharedRef dst = shared_ref(w, mods.destination, in.op[0], lane, kLoad);
    // With .cta_group::2 it may be the pair's other CTA's, of a destination in shared::cta too (FlashMLA).
    const SharedRef bar =
        shared_ref(w, mods.group == 2 ? Space::shared_cluster : mods.destination, in.op[3], lane, kLoad);
    op->map.point_to(w.address(in.op[1], lane), cluster);
    op->dimensions = mods.dimensions;
    op->gather = mods.gather, op->im2col = mods.im2col;
    for (unsigned d = 0; mods.im2col && d + 2 < mods.dimensions; ++d)
      op->offsets[d] = w.source<uint16_t>(w.element(in.op[4], d))[lane] & 0xffff;
    for (unsigned d = 0; d < mods.dimensions; ++d)
      op->coordinates[d] = static_cast<int32_t>(w.source<uint32_t>(w.element(in.op[2], d))[lane]);
    if (dst.offset % 128)
      fault(FaultKind::misaligned_address, lane,
            "{}: the shared destination {:#x} is not aligned to 128 bytes", kLoad,
            dst.cta->address_of(dst.offset));
    op->destination = dst.offset;
    op->barrier = bar.offset;
    if (mods.multicast) {
      for (Cta* to : multicast_ctas(w, in.op[mods.im2col ? 5 : 4], lane, kLoad, true))
        op->targets.push_back({to, barrier_cta(mods, *to, bar, lane)});
      if (op->targets.empty()) return;
    } else {
      op->targets.push_back({dst.cta, barrier_cta_of_one(w, mods, dst, bar, lane)});
    }
    for (TmaTarget& t : op->targets) t.phase = t.barrier_cta->state->expect_signal(w, op->barrier, kLoad);
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
