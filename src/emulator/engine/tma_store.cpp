// cp.async.bulk.tensor from shared to global memory, its reducing form, and prefetches (PTX ISA 9.7.9.27.1).
#include <algorithm>
#include <cstring>

#include "emulator/engine/tma.h"
#include "emulator/engine/tma_box.h"

namespace fp4lab::emu {

namespace {

Type element_type(TensorType t) {
  constexpr Type types[] = {Type::b8,  Type::u16, Type::u32,  Type::s32, Type::u64, Type::s64, Type::f16,
                            Type::f32, Type::f64, Type::bf16, Type::f32, Type::f32, Type::f32};
  return t < TensorType::u4_align8 ? types[static_cast<int>(t)] : Type::none;
}

// Two moments: it reads shared memory (wait_group.read waits for that), and later writes global memory.
struct TmaStore final : AsyncOp {
  TensorMapRef map;
  TensorCoordinates coordinates{};
  unsigned dimensions = 0;
  uint32_t source = 0;
  uint64_t group = 0;
  Reduction reduction = Reduction::none;
  bool has_read = false, scatter = false, im2col = false;
  std::vector<std::byte> image;
  std::vector<TensorRun> runs;
  TensorMap m;

  const char* name() const override {
    return reduction == Reduction::none ? "cp.async.bulk.tensor (store)" : "cp.reduce.async.bulk.tensor";
  }
  bool serial() const override { return has_read && reduction != Reduction::none; }
  // The manual wants shared memory to last until it has been read. Hardware sees to that: DeepGEMM's bf16
  // GEMMs exit behind their last stores, and are in daily use. The order checker has a note for it.
  bool holds_exit() const override { return false; }
  bool reads_shared() const override { return !has_read; }
  bool held(const Cluster& cluster) const override { return !has_read && too_soon(cluster, *this); }
  AsyncGroups::Group& counts() const { return cta->state->bulk[warp * kLanes + lane].at(group); }

  // Rows end at a multiple of 16 bytes in global memory (strides are multiples), and a store that crosses the
  // end of the tensor fills those bytes as well (seen on an H200), unless they are not there.
  static void round_up(Cluster& cluster, TensorRun& run, uint32_t line) {
    const uint64_t end = run.global + (run.hi - run.lo), more = std::min<uint64_t>(-end % 16, line - run.hi);
    if (more && cluster.grid.memory.find(run.global, end + more - run.global).end)
      run.hi += static_cast<uint32_t>(more);
  }

  // Faults where the map and the coordinates are not what this operation can store by.
  void check_map() const {
    check_coordinates(m, coordinates.data(), scatter ? 2 : dimensions, im2col);
    for (unsigned d = 0; im2col && d + 2u < m.rank; ++d)
      if (m.lower[d] < 0 || m.upper[d] > 0)
        fault(FaultKind::illegal_instruction, lane,
              "{}: the im2col bounding box leaves the tensor in dimension {} (corners {} and {}): the "
              "hardware traps (seen on an H200)",
              name(), d + 1, m.lower[d], m.upper[d]);
    for (unsigned d = 0; d < dimensions; ++d)
      if (coordinates[d] < 0 && !im2col)
        fault(FaultKind::coordinates, lane, "{}: start coordinate {} of dimension {} is negative", name(),
              coordinates[d], d);
    if (m.padded())
      fault(FaultKind::tensor_map, lane, "{}: maps of type {} cannot be stored to", name(), name_of(m.type));
    if (m.type == TensorType::s64 && (reduction == Reduction::add || reduction >= Reduction::bit_and))
      fault(FaultKind::illegal_instruction, lane,
            "{}: add, and, or and xor of a map of type {} trap (seen on an H200)", name(), name_of(m.type));
    if (m.sub_byte() && reduction != Reduction::none)
      fault(FaultKind::tensor_map, lane, "{}: no reductions on type {}", name(), name_of(m.type));
  }

  // One line of the box, at `linear` before the swizzle, is read. Notes bytes that were never written, once.
  void reading(Cluster& cluster, uint32_t r, uint32_t linear, bool& noted) {
    const uint32_t atom = std::min<uint32_t>(swizzle_atom(m.swizzle), 16);
    for (uint32_t i = 0; i < runs[r].hi; i += atom) {
      const uint32_t where = swizzled(m.swizzle, linear + i), n = std::min(atom, runs[r].hi - i);
      if (!noted && !cta->is_defined(where, n)) {
        noted = true;
        cluster.note_or_throw(
            Fault(FaultKind::uninitialized, lane,
                  fmt::format("{} reads shared [{:#x}, {:#x}) of CTA rank {}, which was never written (byte "
                              "{} of the box)",
                              name(), where, where + n, cta->rank, r * m.pitch() + i))
                .at(*cta, where),
            *this);
      }
      watch_access(cluster, AccessKind::read, Space::shared, where, n, cta, *this);
    }
  }

  void read(Cluster& cluster) {
    m = map.read(cluster, *this);
    check_map();
    if (scatter) four_rows(m);
    split_units(m, coordinates);
    constexpr uint16_t kNone[3] = {};
    std::vector<TensorCoordinates> pixels;
    if (im2col) pixels = im2col_pixels(m, coordinates.data(), kNone);
    const uint32_t pitch = m.pitch(), line = m.line(), count = m.runs();
    image.resize(m.shared_bytes());
    runs.resize(count);
    const uint32_t unit = std::max<uint32_t>(swizzle_period(m.swizzle) / 8, 16);
    const uint32_t lo = source / unit * unit, hi = (source + m.shared_bytes() + unit - 1) / unit * unit;
    const std::byte* window = cta->window(lo, hi - lo, name()) - lo;
    bool noted = false;
    for (uint32_t r = 0; r < count; ++r) {
      runs[r] = im2col    ? tensor_run(m, pixels[r].data(), 0)
                : scatter ? tensor_run_of_four(m, coordinates.data(), r)
                          : tensor_run(m, coordinates.data(), r);
      if (!runs[r].inside) continue;
      round_up(cluster, runs[r], line);
      const uint32_t linear = source + r * pitch;
      gather_run(m.swizzle, linear, line, image.data() + r * pitch, window);
      reading(cluster, r, linear, noted);
    }
    has_read = true;
    --counts().reading;
    cluster.notify();
  }

  void write(Cluster& cluster) {
    const uint32_t pitch = m.pitch();
    GlobalMemory::Range range;
    for (uint32_t r = 0; r < runs.size(); ++r) {
      const TensorRun& run = runs[r];
      if (!run.inside) continue;
      const uint32_t n = run.hi - run.lo;
      cluster.statistics.tma_bytes += n;
      if (!range.contains(run.global, n)) range = global_range(cluster.grid, run.global, n, name());
      std::byte* to = cluster.grid.memory.host(run.global);
      const std::byte* from = image.data() + r * pitch + run.lo;
      if (reduction == Reduction::none) {
        std::memcpy(to, from, n);
      } else {
        cluster.grid.watch_change(to, n);
        const Type type = element_type(m.type);
        const bool flush = m.type == TensorType::f32_ftz || m.type == TensorType::tf32_ftz;
        if (!reduce_elements(reduction, type, flush, from, to, n * 8 / m.element_bits()))
          fault(FaultKind::tensor_map, lane, "{}: this reduction is not defined on type {}", name(),
                name_of(m.type));
      }
      watch_access(cluster, reduction == Reduction::none ? AccessKind::write : AccessKind::atomic,
                   Space::global, run.global, n, nullptr, *this);
    }
    --counts().writing;
    cluster.notify();
  }

  bool run(Cluster& cluster) override {
    if (!has_read) {
      read(cluster);
      return false;
    }
    write(cluster);
    return true;
  }
};

struct StoreMods {
  uint8_t dimensions;  // coordinates: 5 for scatter4
  Reduction reduction;
  bool scatter, im2col;
};

// op 0 [map, 1 {c}], 2 [src], 3 cache policy
void store(Warp& w, const Instr& in) {
  const StoreMods mods = unpack_aux<StoreMods>(in);
  for_lanes(w.active, [&](unsigned lane) {
    auto op = std::make_unique<TmaStore>();
    op->map.point_to(w.address(in.op[0], lane), w.cta.cluster);
    op->dimensions = mods.dimensions;
    op->scatter = mods.scatter, op->im2col = mods.im2col;
    op->reduction = mods.reduction;
    for (unsigned d = 0; d < mods.dimensions; ++d)
      op->coordinates[d] = static_cast<int32_t>(w.source<uint32_t>(w.element(in.op[1], d))[lane]);
    const SharedRef src = shared_ref(w, Space::shared, in.op[2], lane, op->name());
    if (src.offset % 128)
      fault(FaultKind::misaligned_address, lane, "{}: the shared source {:#x} is not aligned to 128 bytes",
            op->name(), src.offset);
    op->source = src.offset;
    AsyncGroups& groups = w.cta.state->bulk[w.id * kLanes + lane];
    op->group = groups.open();
    ++groups.groups.back().reading, ++groups.groups.back().writing;
    w.cta.cluster.submit(std::move(op), w, in, lane);
  });
}

void prefetch(Warp&, const Instr&) {}  // a hint: caches are not modelled

uint8_t dimensions_of(const Source& s, const Instr& in, unsigned coordinates) {
  uint8_t n = 0;
  for (unsigned d = 1; d <= 5; ++d)
    if (s.has(fmt::format("{}d", d))) n = static_cast<uint8_t>(d);
  if (s.has("tile::gather4") || s.has("tile::scatter4")) n = 5;  // a column and four rows
  if (in.op[coordinates].count != n)
    fault(FaultKind::misuse, 0, "{} coordinates for {} dimensions", in.op[coordinates].count, n);
  return n;
}

}  // namespace

Body bind_tma_store(Instr& in, const Source& s) {
  in.aux = pack_aux(
      StoreMods{dimensions_of(s, in, 1), Reduction::none, s.has("tile::scatter4"), s.has("im2col_no_offs")});
  return store;
}
Body bind_tma_reduce(Instr& in, const Source& s) {
  in.aux = pack_aux(StoreMods{dimensions_of(s, in, 1), reduction_named(s), false, s.has("im2col_no_offs")});
  return store;
}
Body bind_tma_store_im2col(Instr& in, const Source& s) { return bind_tma_store(in, s); }
Body bind_tma_reduce_im2col(Instr& in, const Source& s) { return bind_tma_reduce(in, s); }
Body bind_tma_prefetch_im2col(Instr& in, const Source& s) {
  if (const unsigned n = dimensions_of(s, in, 1); in.op[2].count + 2u != n)
    fault(FaultKind::misuse, 0, "{} im2col offsets for {} dimensions, must be {}", in.op[2].count, n, n - 2);
  return prefetch;
}
Body bind_tma_scatter4(Instr& in, const Source& s) { return bind_tma_store(in, s); }
Body bind_tma_prefetch_gather4(Instr& in, const Source& s) {
  dimensions_of(s, in, 1);
  return prefetch;
}
Body bind_tma_prefetch(Instr& in, const Source& s) {
  dimensions_of(s, in, 1);
  return prefetch;
}

}  // namespace fp4lab::emu
