// wgmma, the warpgroup products of sm_90a (PTX ISA 9.7.15). Each warp of the warpgroup carries out its own 16
// of the 64 rows; its accumulator registers count as never written until wgmma.wait_group. With a sparse A
// the metadata of those rows lies in the same warp's registers, as mma.sp's does.
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/core/hooks.h"
#include "emulator/core/reschedule.h"
#include "emulator/engine/fragment.h"
#include "emulator/engine/mma_float.h"
#include "emulator/engine/shared_matrix.h"
#include "emulator/engine/sparse.h"
#include "emulator/engine/stored_operand.h"
#include "emulator/isa/wgmma_operands.h"

namespace fp4lab::emu {

namespace {

enum class Family : uint8_t { half, tf32, fp8, integer, bits };

struct Mods {
  Family family;
  ElementFormat a, b;
  uint8_t n8;  // N / 8
  bool half_output, a_in_registers, saturate, sparse;
};

unsigned element_bytes(const Mods& m) {
  return m.family == Family::half ? 2 : m.family == Family::tf32 ? 4 : 1;
}

// A row's metadata: chunks of four units; what the text allows need not be in order.
SparseRows sparse_rows(const Mods& m) {
  SparseRows s;
  s.unit_bytes = element_bytes(m) == 1 ? 1 : 2;
  s.chunks = 16 / s.unit_bytes;
  s.tf32 = m.family == Family::tf32;
  s.ordered = false;
  return s;
}

struct Wgmma final : MatrixProduct {
  Mods m{};
  bool accumulate = false, negate_a = false, negate_b = false;
  SharedMatrix a, b;
  SparseRows sparse;  // of this warp's 16 rows
  // Registers of A, as they are at issue. The manual leaves undefined what happens when they change before
  // the product is done (PTX ISA 9.7.15.2); ptxas keeps program order there, by other registers or by
  // waiting, and public kernels count on it (Triton decodes the next operand while a product runs).
  uint32_t a_rows[4][kLanes] = {};
  std::vector<uint32_t*> d_rows;  // registers of D
  uint64_t group = 0;
  uint64_t nth = 0;  // wgmma of its warp

  const char* name() const override { return "wgmma.mma_async"; }
  // The four warps of a warpgroup execute it together (.aligned): a product begins when all have come to it.
  bool held(const Cluster&) const override {
    for (unsigned id = warp & ~3u; id <= (warp | 3); ++id)
      if (cta->state->warp(id).wgmma_count <= nth) return true;
    return false;
  }

  // Of the whole warpgroup, whose warps share the descriptors; its first warp speaks for all.
  std::optional<StoredOperand> stored(char operand) const override {
    const bool is_a = operand == 'A';
    if (warp % 4 || m.family == Family::bits || (is_a && m.a_in_registers)) return {};
    const unsigned size = element_bytes(m);
    return StoredOperand{
        is_a ? a : b, is_a ? m.a : m.b, is_a ? 64u : m.n8 * 8u, (!is_a && m.sparse ? 64u : 32u) / size,
        size * 8,     16 / size};
  }

  // Registers of A, as 16 rows of 32 bytes (PTX ISA 9.7.15.5.1 figures; table 8.3 of the layouts in CUTLASS).
  void gather_a(std::byte* out) const {
    const unsigned size = element_bytes(m), per = 4 / size;  // elements in a register
    for (unsigned r = 0; r < 4; ++r)
      for (unsigned t = 0; t < kLanes; ++t) {
        const unsigned q = t / 4, i = t % 4;
        const unsigned row = q + 8 * (r & 1), k = i * per + 4 * per * (r >> 1);
        std::memcpy(out + row * 32 + k * size, &a_rows[r][t], 4);
      }
  }

  // Register v of lane t holds row t / 4, column 2 (t % 4) of an 8 x 8 block, every other column: this is
  // where that begins in `d`, whose columns have 16 rows. Blocks go 8 rows down, then 8 columns right (PTX
  // ISA 9.7.15.5.1).
  static unsigned first_of(unsigned v) { return (8 * (v >> 2) + (v & 1)) * 16 + 8 * ((v >> 1) & 1); }

  static uint32_t common_bits(const std::byte* x, const std::byte* y) {
    uint64_t a[4], b[4];
    std::memcpy(a, x, 32);
    std::memcpy(b, y, 32);
    int count = 0;
    for (unsigned i = 0; i < 4; ++i) count += std::popcount(a[i] & b[i]);
    return static_cast<uint32_t>(count);
  }

  bool run(Cluster& cluster) override {
    const unsigned n = m.n8 * 8u, size = element_bytes(m), first_row = warp % 4 * 16;
    const unsigned b_row = m.sparse ? 64 : 32, k = b_row / size, stored = 32 / size;
    std::byte a_bytes[16 * 32];  // as it is stored
    thread_local std::vector<std::byte> b_bytes;
    thread_local std::vector<uint32_t> d;
    thread_local MmaElements x, y;
    b_bytes.resize(n * b_row), d.resize(n * 16);
    if (m.a_in_registers)
      gather_a(a_bytes);
    else if (a.k_major)
      read_k_major(cluster, *cta, a, 16, 32, a_bytes, *this, "A", nullptr, first_row);
    else
      read_mn_major(cluster, *cta, a, 16, stored, size, a_bytes, *this, "A", first_row);
    if (b.k_major)
      read_k_major(cluster, *cta, b, n, b_row, b_bytes.data(), *this, "B");
    else
      read_mn_major(cluster, *cta, b, n, k, size, b_bytes.data(), *this, "B");
    if (m.sparse) sparse.check_tolerantly(cluster, *this, a_bytes, first_row);
    if (m.family != Family::bits) {
      if (m.sparse)
        decode_sparse(x, m.a, sparse, a_bytes, size, negate_a);
      else
        x.decode(m.a, a_bytes, 16, k, negate_a);
      y.decode(m.b, b_bytes.data(), n, k, negate_b);
    }
    if (accumulate)
      for (unsigned v = 0; v < n / 2; ++v) {
        uint32_t* const tile = d.data() + first_of(v);
        const uint32_t* const registers = d_rows[m.half_output ? v / 2 : v];
        for (unsigned i = 0; i < 4; ++i)
          for (unsigned q = 0; q < 8; ++q) tile[32 * i + q] = registers[4 * q + i];
        if (m.half_output)
          for (unsigned i = 0; i < 4; ++i)
            for (unsigned q = 0; q < 8; ++q) tile[32 * i + q] = tile[32 * i + q] >> (v % 2 * 16) & 0xffff;
      }
    if (m.family == Family::bits) {
      for (unsigned i = 0; i < 16 * n; ++i)
        d[i] = (accumulate ? d[i] : 0) + common_bits(a_bytes + i % 16 * 32, b_bytes.data() + i / 16 * 32);
    } else if (m.family == Family::integer) {
      IntMma f;
      f.a = &x, f.b = &y, f.accumulate = accumulate, f.saturate = m.saturate, f.d = d.data(),
      f.column_stride = 16;
      mma_int(f);
    } else {
      FloatMma f;
      f.format_a = m.a, f.format_b = m.b;
      // Hopper adds fp8 products with 13 fraction bits and keeps as many of the result.
      if (m.family == Family::fp8) f.fraction_bits = 13, f.output_bits = 13;
      f.half_output = m.half_output, f.accumulate = accumulate;
      f.a = &x, f.b = &y, f.d = d.data(), f.column_stride = 16;
      mma_float(f);
    }
    for (unsigned v = 0; v < n / 2; ++v) {
      const uint32_t* const tile = d.data() + first_of(v);
      uint32_t* const registers = d_rows[m.half_output ? v / 2 : v];
      for (unsigned q = 0; q < 8; ++q)
        for (unsigned i = 0; i < 4; ++i) {
          const uint32_t value = tile[32 * i + q];
          uint32_t& to = registers[4 * q + i];
          to = m.half_output && v % 2 ? to | value << 16 : value;
        }
    }
    ++cluster.statistics.mma_count;
    --cta->state->warp(warp).wgmma.at(group).writing;
    cluster.notify();
    return true;
  }
};

void issue(Warp& w, const Instr& in) {
  w.require_whole(in);
  const Mods m = unpack_aux<Mods>(in);
  if ((w.id | 3) >= w.cta.warps.size())
    fault(FaultKind::collective, kLanes, "wgmma by warp {} of {}: its warpgroup is not complete", w.id,
          w.cta.warps.size());
  WarpEngines& e = w.cta.state->warp(w.id);
  if (!e.wgmma_fenced)
    fault(FaultKind::wgmma_fence, kLanes,
          "the first wgmma.mma_async of warp {} comes without a wgmma.fence before it", w.id);
  const unsigned lane = static_cast<unsigned>(std::countr_zero(w.active));
  auto op = std::make_unique<Wgmma>();
  op->m = m;
  const uint32_t scale_d = w.mask(in.op[wgmma_scale_d(m.sparse)]) & w.active;
  if (scale_d != 0 && scale_d != w.active)
    fault(FaultKind::collective, kLanes, "wgmma.mma_async: scale-d differs between the lanes of a warp");
  op->accumulate = scale_d != 0;
  op->negate_a = in.op[wgmma_scale_a(m.sparse)].displacement == -1;
  op->negate_b = in.op[wgmma_scale_b(m.sparse)].displacement == -1;
  if (m.sparse) {
    op->sparse = sparse_rows(m);
    gather_metadata(w, in.op[3], static_cast<unsigned>(in.op[4].displacement), op->sparse);
  }
  auto descriptor = [&](const Operand& o, const char* what) {
    const uint64_t* v = w.source<uint64_t>(o);
    for_lanes(w.active, [&](unsigned l) {
      if (v[l] != v[lane])
        fault(FaultKind::collective, l, "{} differs between the lanes of a warp: {:#x} and {:#x}", what,
              v[lane], v[l]);
    });
    if (!w.cta.cluster.grid.schedule.tolerant) return decode_wgmma_descriptor(v[lane], what);
    // Hopper passes the reserved bits by: KnowingNothing/MatmulTutorial's this-sm90/matmul-v6.cu sets 15:14.
    if (v[lane] & kWgmmaReserved) [[unlikely]] {
      try {
        decode_wgmma_descriptor(v[lane], what);
      } catch (const Fault& reserved) {
        w.cta.cluster.tolerated(reserved, w);
      }
    }
    return decode_wgmma_descriptor(v[lane] & ~kWgmmaReserved, what);
  };
  unsigned transpositions = wgmma_transpositions(m.sparse);
  if (m.a_in_registers) {
    for (unsigned r = 0; r < 4; ++r)
      std::memcpy(op->a_rows[r], w.source<uint32_t>(w.element(in.op[1], r)), sizeof op->a_rows[r]);
  } else {
    op->a = descriptor(in.op[1], "wgmma.mma_async: descriptor of A");
    if (m.family == Family::half) op->a.k_major = in.op[transpositions++].displacement == 0;
  }
  op->b = descriptor(in.op[2], "wgmma.mma_async: descriptor of B");
  if (m.family == Family::half) op->b.k_major = in.op[transpositions].displacement == 0;

  op->group = e.wgmma.open();
  const unsigned registers = m.half_output ? m.n8 * 2u : m.n8 * 4u;
  op->d_rows.resize(registers);
  for (unsigned r = 0; r < registers; ++r) {
    const Operand& o = w.element(in.op[0], r);
    auto known =
        std::find_if(e.accumulators.begin(), e.accumulators.end(),
                     [&](const WarpEngines::Accumulator& x) { return x.operand.offset == o.offset; });
    if (known != e.accumulators.end()) {
      known->group = op->group;
    } else {
      if (op->accumulate) w.source<uint32_t>(o);  // must have been written
      e.accumulators.push_back({o, op->group});
    }
    op->d_rows[r] = w.target<uint32_t>(o);
    w.await(o, w.active);
  }
  ++e.wgmma.groups.back().writing;
  op->nth = e.wgmma_count++;
  op->queue = {Queue::wgmma, w.cta.rank << 16 | w.id};
  w.cta.cluster.submit(std::move(op), w, in, lane);
}

void fence(Warp& w, const Instr& in) {
  w.require_full(in);
  w.cta.state->warp(w.id).wgmma_fenced = true;
  if (Watcher* watch = w.cta.cluster.watcher) watch->fence(w, in);
}

void commit(Warp& w, const Instr& in) {
  w.require_full(in);
  w.cta.state->warp(w.id).wgmma.commit();
  if (Watcher* watch = w.cta.cluster.watcher) [[unlikely]]
    watch->barrier({BarrierEvent::What::wgmma_commit, &w.cta, 0, 0, 0, &w, w.active, nullptr});
  w.cta.cluster.notify();
}

// A wgmma-group is the warpgroup's, not the warp's (PTX ISA 9.7.15.7.2): it is complete when all four warps
// have committed it and every product in it is done. CUTLASS's epilogues write over A at once.
bool groups_done(Warp& w, uint32_t newest) {
  const AsyncGroups& own = w.cta.state->warp(w.id).wgmma;
  if (!own.reached(newest, false)) return false;
  const uint64_t done = own.open() > newest ? own.open() - newest : 0;
  for (unsigned id = w.id & ~3u; id <= (w.id | 3) && id < w.cta.warps.size(); ++id) {
    const AsyncGroups& other = w.cta.state->warp(id).wgmma;
    if (other.open() < done) return false;
    for (uint64_t k = other.first; k < done; ++k)
      if (other.groups[k - other.first].writing) return false;
  }
  return true;
}

bool wait_over(Warp& w, const LaneGroup& g) { return groups_done(w, static_cast<uint32_t>(g.wait.value)); }

void wait_group(Warp& w, const Instr& in) {
  w.require_full(in);
  WarpEngines& e = w.cta.state->warp(w.id);
  const uint32_t newest = static_cast<uint32_t>(in.aux);
  if (!groups_done(w, newest)) {
    w.block({Wait::Kind::async_ops, 2, newest, wait_over});
    return;
  }
  if (Watcher* watch = w.cta.cluster.watcher) [[unlikely]]
    watch->barrier({BarrierEvent::What::wgmma_waited, &w.cta, 0, newest, 0, &w, w.active, nullptr});
  // Groups below this are done, and what they wrote may be read.
  const uint64_t committed = e.wgmma.open(), done = committed > newest ? committed - newest : 0;
  std::erase_if(e.accumulators, [&](const WarpEngines::Accumulator& a) {
    if (a.group >= done) return false;
    w.target<uint32_t>(a.operand);
    return true;
  });
}

// The products of one of the warp's groups are carried out, whether or not it has been committed.
bool group_written(Warp& w, uint64_t number) {
  AsyncGroups& own = w.cta.state->warp(w.id).wgmma;
  return number < own.first || own.at(number).writing == 0;
}

}  // namespace

bool hooks::await_products(Warp& w, const Operand& o) {
  WarpEngines& e = w.cta.state->warp(w.id);
  const auto known = std::ranges::find_if(
      e.accumulators, [&](const WarpEngines::Accumulator& a) { return a.operand.offset == o.offset; });
  if (known == e.accumulators.end()) return false;
  const uint64_t group = known->group;
  if (!group_written(w, group)) {
    w.block({Wait::Kind::async_ops, 3, group,
             [](Warp& w, const LaneGroup& g) { return group_written(w, g.wait.value); }});
    throw Reschedule{};
  }
  const uint32_t active = w.active;
  w.active = w.lanes & ~w.exited;  // a product is for the whole warp
  std::erase_if(e.accumulators, [&](const WarpEngines::Accumulator& a) {
    if (a.group != group) return false;
    w.target<uint32_t>(a.operand);
    return true;
  });
  w.active = active;
  return true;
}

namespace {

Body bind(Instr& in, const Source& s, Family family, bool registers, bool sparse = false) {
  Mods m{};
  m.family = family;
  m.half_output = s.type(0) == Type::f16;
  m.a = element_format(s.type(1)), m.b = element_format(s.type(2));
  m.a_in_registers = registers;
  m.saturate = s.has("satfinite");
  m.sparse = sparse;
  for (unsigned n8 = 1; n8 <= 32; ++n8)
    for (unsigned k : {8, 16, 32, 64, 256})
      if (s.has(fmt::format("m64n{}k{}", n8 * 8, k))) m.n8 = static_cast<uint8_t>(n8);
  const unsigned d = m.half_output ? m.n8 * 2u : m.n8 * 4u;
  if (in.op[0].count != d)
    fault(FaultKind::misuse, 0, "D has {} registers, this shape takes {}", in.op[0].count, d);
  if (registers && in.op[1].count != 4)
    fault(FaultKind::misuse, 0, "A has {} registers, must have 4", in.op[1].count);
  if (sparse) {
    const unsigned selectors = metadata_selectors(sparse_rows(m));
    if (in.op[4].displacement < 0 || in.op[4].displacement >= selectors)
      fault(FaultKind::misuse, 0, "the sparsity selector is {}, with this shape it must be {}",
            in.op[4].displacement, selectors == 1 ? "0" : "0 or 1");
  }
  if (family != Family::integer && family != Family::bits)
    for (unsigned i : {wgmma_scale_a(sparse), wgmma_scale_b(sparse)})
      if (in.op[i].displacement != 1 && in.op[i].displacement != -1)
        fault(FaultKind::misuse, 0, "imm-scale is {}, must be 1 or -1", in.op[i].displacement);
  for (unsigned i = wgmma_transpositions(sparse); i < wgmma_transpositions(sparse) + 2; ++i)
    if (in.op[i] && in.op[i].displacement != 0 && in.op[i].displacement != 1)
      fault(FaultKind::misuse, 0, "imm-trans is {}, must be 0 or 1", in.op[i].displacement);
  in.aux = pack_aux(m);
  return issue;
}

}  // namespace

Body bind_wgmma_half(Instr& in, const Source& s) { return bind(in, s, Family::half, false); }
Body bind_wgmma_half_registers(Instr& in, const Source& s) { return bind(in, s, Family::half, true); }
Body bind_wgmma_tf32(Instr& in, const Source& s) { return bind(in, s, Family::tf32, false); }
Body bind_wgmma_tf32_registers(Instr& in, const Source& s) { return bind(in, s, Family::tf32, true); }
Body bind_wgmma_fp8(Instr& in, const Source& s) { return bind(in, s, Family::fp8, false); }
Body bind_wgmma_fp8_registers(Instr& in, const Source& s) { return bind(in, s, Family::fp8, true); }
Body bind_wgmma_integer(Instr& in, const Source& s) { return bind(in, s, Family::integer, false); }
Body bind_wgmma_integer_registers(Instr& in, const Source& s) { return bind(in, s, Family::integer, true); }
Body bind_wgmma_bits(Instr& in, const Source& s) { return bind(in, s, Family::bits, false); }
Body bind_wgmma_bits_registers(Instr& in, const Source& s) { return bind(in, s, Family::bits, true); }
Body bind_wgmma_sp_half(Instr& in, const Source& s) { return bind(in, s, Family::half, false, true); }
Body bind_wgmma_sp_half_registers(Instr& in, const Source& s) {
  return bind(in, s, Family::half, true, true);
}
Body bind_wgmma_sp_tf32(Instr& in, const Source& s) { return bind(in, s, Family::tf32, false, true); }
Body bind_wgmma_sp_tf32_registers(Instr& in, const Source& s) {
  return bind(in, s, Family::tf32, true, true);
}
Body bind_wgmma_sp_fp8(Instr& in, const Source& s) { return bind(in, s, Family::fp8, false, true); }
Body bind_wgmma_sp_fp8_registers(Instr& in, const Source& s) { return bind(in, s, Family::fp8, true, true); }
Body bind_wgmma_sp_integer(Instr& in, const Source& s) { return bind(in, s, Family::integer, false, true); }
Body bind_wgmma_sp_integer_registers(Instr& in, const Source& s) {
  return bind(in, s, Family::integer, true, true);
}
Body bind_wgmma_fence(Instr&, const Source&) { return fence; }
Body bind_wgmma_commit_group(Instr&, const Source&) { return commit; }
Body bind_wgmma_wait_group(Instr& in, const Source&) {
  if (in.op[0].displacement < 0) fault(FaultKind::misuse, 0, "a negative number of groups");
  in.aux = static_cast<uint64_t>(in.op[0].displacement);
  return wait_group;
}

}  // namespace fp4lab::emu
