// tcgen05.mma in tensor memory: where D lies, and what is read there when the operation runs (PTX ISA
// 9.7.16.10.5).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/engine/tcgen05_mma.h"

namespace fp4lab::emu {

// PTX ISA 9.7.16.10.5: D (M = 128), F (64), A (pair, 256), B (pair, 128), with a sparse A C instead; .ws: E
// (64), G (32).
std::vector<MmaOp::Part> MmaOp::layout() const {
  const TmemAddress base{d};
  const uint32_t n = idesc.n, c = base.column();
  if (rows_per_cta() == 128) return {{0, c, 0, 128, 0, n}};
  if (weight_stationary) {  // the columns in as many parts as the rows leave room for
    std::vector<Part> parts;
    const uint32_t m = idesc.m, count = kTmemLanes / m;
    for (uint32_t q = 0; q < count; ++q) parts.push_back({m * q, c, 0, m, n / count * q, n / count});
    return parts;
  }
  if (!half_lanes())  // 64 rows per CTA: the right half of the columns lies in the upper 64 lanes
    return {{0, c, 0, 64, 0, n / 2}, {64, c, 0, 64, n / 2, n / 2}};
  std::vector<Part> parts;
  for (uint32_t q = 0; q < 4; ++q) parts.push_back({32 * q + base.lane(), c, 16 * q, 16, 0, n});
  return parts;
}

// The same columns for both are scales that are all alike; else one copy has gone over the other's.
void MmaOp::note_shared_scales(Cta& cta) const {
  const Scales a = scales_of('A'), b = scales_of('B');
  const uint32_t at_a = a.at.column(), at_b = b.at.column();
  if (at_a == at_b || at_a >= at_b + b.columns() || at_b >= at_a + a.columns()) return;
  cta.cluster.tolerated(
      Fault(FaultKind::tmem_address, lane,
            fmt::format("tcgen05.mma: scale-A in TMEM columns [{}, {}) overlaps scale-B in [{}, {})", at_a,
                        at_a + a.columns(), at_b, at_b + b.columns())),
      *this);
}

void MmaOp::check_tmem(Cta& cta) const {
  const TensorMemory& tmem = tensor_memory(cta);
  const TmemAddress at{d};
  if (at.lane() != 0 && !(half_lanes() && at.lane() == 16))
    fault(FaultKind::tmem_address, lane,
          "tcgen05.mma: D at TMEM address {:#010x}: its lane is {}, must be 0{}", d, at.lane(),
          half_lanes() ? " or 16" : "");
  const auto shape = [&] {
    return fmt::format("; by the instruction descriptor D is {} x {}", idesc.m, idesc.n);
  };
  const uint32_t columns = weight_stationary                         ? idesc.n / (kTmemLanes / idesc.m)
                           : group == 2 && idesc.m == 128 && !sparse ? idesc.n / 2
                                                                     : idesc.n;
  try {
    tmem.check(cta, at.column(), columns, "tcgen05.mma: D", this);
  } catch (const Fault& e) {
    throw Fault(e.kind, lane, e.what() + shape());
  }
  // The manual gives no order in which a product reads its operands and writes D.
  const auto beside_d = [&](const std::string& what, uint32_t first, uint32_t count) {
    if (first < at.column() + columns && at.column() < first + count)
      fault(FaultKind::tmem_address, lane, "{} in TMEM columns [{}, {}) overlaps D in [{}, {}){}", what,
            first, first + count, at.column(), at.column() + columns, shape());
  };
  if (scale_vec) {
    for (const char operand : {'A', 'B'}) {
      const Scales s = scales_of(operand);
      const std::string what = fmt::format("tcgen05.mma: scale-{}", operand);
      if (s.at.lane() != 0)
        fault(FaultKind::tmem_address, lane, "{} at TMEM address {:#010x}: its lane is {}, must be 0", what,
              operand == 'A' ? sfa : sfb, s.at.lane());
      tmem.check(cta, s.at.column(), s.columns(), what.c_str(), this);
      beside_d(what, s.at.column(), s.columns());
    }
  }
  if (sparse) {
    const TmemAddress s{metadata};
    if (s.lane() != at.lane())
      fault(FaultKind::tmem_address, lane,
            "tcgen05.mma.sp: metadata at TMEM lane {}, D at lane {}: they must be the same", s.lane(),
            at.lane());
    if (s.column() % 2)
      fault(FaultKind::tmem_address, lane,
            "tcgen05.mma.sp: metadata at TMEM column {}, which must be even: the selector names the other "
            "column",
            s.column());
    tmem.check(cta, s.column(), 2, "tcgen05.mma.sp: metadata", this);
    beside_d("tcgen05.mma.sp: metadata", s.column(), 2);
  }
  if (a_in_tmem) {
    const TmemAddress s{a_tmem};
    if (s.lane() != at.lane())
      fault(FaultKind::tmem_address, lane,
            "tcgen05.mma: A at TMEM lane {}, D at lane {}: they must be the same", s.lane(), at.lane());
    tmem.check(cta, s.column(), 8, "tcgen05.mma: A", this);
    beside_d("tcgen05.mma: A", s.column(), 8);
  }
}

// Of a pair with M = 128 the right half of D lies in the upper 64 lanes, and so do the scales of its half of
// B (CUTLASS 4.x, cute/atom/mma_traits_sm100_frag.hpp, tmem_sf_frg with ScaleFactorDuplicated2by2; JAX's
// Mosaic GPU, tcgen05.py, copies them so by 64x128b.warpx2::01_23).
MmaOp::Scales MmaOp::scales_of(char operand) const {
  constexpr uint32_t kPlace = 0x3fffffff;  // bits 31:30 carry the scale's id in CUTLASS: ignored
  if (operand == 'A') return {TmemAddress{sfa & kPlace}, rows_per_cta(), 1, idesc.sfa_id};
  return {TmemAddress{sfb & kPlace}, idesc.n, group == 2 && idesc.m == 128 ? 2u : 1u, idesc.sfb_id};
}

std::vector<MmaOp::Part> MmaOp::quarters() const {
  std::vector<Part> parts;
  for (const Part& p : layout())
    for (uint32_t q = 0; q < 4; ++q) parts.push_back({32 * q, p.column, 32 * q, 32, p.n, p.columns});
  return parts;
}

void MmaOp::Lost::add(Indices& to, uint32_t quarter, uint32_t index) {
  any = true;
  if (to[quarter].size() <= index) to[quarter].resize(index + 1);
  to[quarter][index] = true;
}

bool MmaOp::output_disabled(const Cta& cta, uint32_t lane_of_d) const {
  const uint32_t* mask = disabled + (cta.rank & 1 && group == 2 ? 4 : 0);
  return mask[lane_of_d / 32] >> (lane_of_d % 32) & 1;
}

// Rows and columns of D without scales, or without metadata that means something, are NaN (s32: all bits set)
// and count as never written, with a note; the others are right. sf-tensor/tcgen05 (6f19f227,
// hardware_validation/src) writes scales and metadata in lanes 0 to 15 of their columns; in other lanes
// stands nothing, or what belongs to an accumulator. Its programs ran on B200s with a million products of
// each kind: none faulted, and D was right where its lanes were written. So hardware checks neither, and the
// lanes 0 to 31 of D take their scales from the copy in these lanes; that it is so in the other quarters is
// supposed, and NaN is chosen.
void MmaOp::lose(Cluster& cluster, Cta& cta, const Lost& lost) const {
  if (!lost.any) return;
  TensorMemory& tmem = tensor_memory(cta);
  const auto has = [](const std::vector<bool>& v, uint32_t i) { return i < v.size() && v[i]; };
  std::string first;
  uint32_t count = 0;
  for (const Part& p : layout())
    for (uint32_t l = p.lane; l < p.lane + p.rows; ++l) {
      if (output_disabled(cta, l)) continue;
      const bool row = has(lost.rows[l / 32], p.row + l - p.lane);
      for (uint32_t c = p.column; c < p.column + p.columns; ++c) {
        if (!row && !has(lost.columns[l / 32], p.n + c - p.column)) continue;
        tmem.column(c)[l] = 0xffffffff;
        tmem.undefine(c, l, 1);
        if (!count++) first = fmt::format("TMEM column {}, lane {}", c, l);
      }
    }
  if (!count) return;
  cluster.tolerated(
      Fault(FaultKind::misuse, lane,
            fmt::format("tcgen05.mma: {} of the values of D are lost (NaN), first that in {}: their {} "
                        "never written in these lanes{}",
                        count, first,
                        scale_vec && sparse ? "scales or metadata were"
                        : scale_vec         ? "scales were"
                                            : "metadata was",
                        sparse ? ", or the metadata means nothing" : "")),
      *this);
}

// Each quarter of the lanes has its copy of the scales, which should be the same. Where that is tolerated it
// is the one that the products of its rows take, as the halves of a pair with M = 128 do: so for lanes 0 to
// 31 on a B200 (see lose), and so a fused MoE of a contest (abc123203/flashinfer-bench-avengers), of which no
// run is published, is right: it stores the scale of row r in lane r, in each of four columns.
bool MmaOp::read_scales(Cluster& cluster, Cta& cta, char operand, uint8_t* out, Lost& lost,
                        uint32_t quarter) {
  if (operand == 'A') note_shared_scales(cta);
  bool alike = true;
  const TensorMemory& tmem = tensor_memory(cta);
  const Scales scales = scales_of(operand);
  const uint32_t part_rows = scales.rows / scales.parts, copies = 4 / scales.parts;
  uint32_t used = 0;  // bits of a word; the other bytes may be anything
  for (uint32_t s = 0; s < 4; ++s) used |= 0xffu << (8 * scale_byte(s, scales.id));
  bool whole = true;  // every copy of the 32 rows is written
  for (uint32_t r = 0; r < scales.rows; ++r) {
    const uint32_t row = r % part_rows, column = scales.at.column() + row / 32,
                   first = kTmemLanes / scales.parts * (r / part_rows) + row % 32;
    if (row % 32 == 0) {
      const uint32_t lanes = std::min(part_rows - row, 32u);
      whole = true;
      for (uint32_t p = 0; p < copies; ++p)
        if (!tmem.is_defined(column, first + 32 * p, lanes)) {
          uint32_t bad = 0;
          while (tmem.is_defined(column, first + 32 * p + bad, 1)) ++bad;
          const Fault unwritten(
              FaultKind::uninitialized, lane,
              fmt::format(
                  "tcgen05.mma: the scale of row {} of {} (TMEM column {}, lane {}) was never written{}{}",
                  r + bad, operand, column, first + 32 * p + bad,
                  !p            ? ""
                  : copies == 4 ? "; scales must be in all four 32-lane quarters"
                                : "; scales must be in both 32-lane quarters of their half",
                  tmem.copies_near(column)));
          cluster.note_or_throw(unwritten, *this);
          whole = false;
        }
    }
    const auto& cells = tmem.column(column);
    uint32_t any = first;  // a copy that is written
    if (!whole) {
      for (uint32_t l = first; l < first + 32 * copies; l += 32)
        if (!tmem.is_defined(column, l, 1)) lost.add(operand == 'A' ? lost.rows : lost.columns, l / 32, r);
      while (any + 32 < first + 32 * copies && !tmem.is_defined(column, any, 1)) any += 32;
    }
    for (uint32_t l = any + 32; l < first + 32 * copies && alike; l += 32)
      if ((cells[l] ^ cells[any]) & used && (whole || tmem.is_defined(column, l, 1))) {
        const Fault differ(
            FaultKind::scale, lane,
            fmt::format("tcgen05.mma: the scales of row {} of {} differ between the quarters of TMEM column "
                        "{}: lane {} holds {:#010x}, lane {} holds {:#010x}",
                        r, operand, column, any, cells[any], l, cells[l]));
        if (rows_per_cta() < 128) throw differ;
        cluster.note_or_throw(differ, *this);
        alike = false;
      }
    const uint32_t own = first + 32 * (rows_per_cta() < 128 ? 0 : operand == 'A' ? r / 32 : quarter);
    const bool is_there = whole || tmem.is_defined(column, own, 1);
    const uint32_t word = is_there ? cells[own] : tmem.is_defined(column, any, 1) ? cells[any] : 0;
    uint8_t byte[4];
    std::memcpy(byte, &word, 4);
    for (uint32_t s = 0; s < 4; ++s) {  // one for each quarter of K
      const uint8_t code = out[4 * r + s] = byte[scale_byte(s, scales.id)];
      if (!idesc.scale_ue8m0 && code >> 7)
        fault(FaultKind::scale, lane,
              "tcgen05.mma: scale {} of row {} of {} is {:#04x}: bit 7 of ue4m3 must be 0", s, r, operand,
              code);
    }
  }
  watch_tmem(cluster, false, &cta, 0, 128, scales.at.column(), scales.columns(), *this);
  return alike;
}

// Where the schedule tolerates it rows of A that nobody wrote are read as they are, with a note: attention
// for one query writes the rows that there are (CUTLASS's example 77, gen), and the products of the others
// are nobody's.
void MmaOp::read_a_tmem(Cluster& cluster, Cta& cta, std::byte* out) {
  const TensorMemory& tmem = tensor_memory(cta);
  const uint32_t c = TmemAddress{a_tmem}.column();
  bool noted = false, differs = false;
  const auto unwritten = [&](uint32_t column, uint32_t l) {
    if (noted) return;
    const Fault nobody(FaultKind::uninitialized, lane,
                       fmt::format("tcgen05.mma: A in TMEM column {}, lane {} was never written", column, l));
    cluster.note_or_throw(nobody, *this);
    noted = true;
  };
  for (const Part& p : layout()) {
    if (p.n && !a_by_lane()) break;  // the same rows again
    for (uint32_t r = 0; r < p.rows; ++r)
      for (uint32_t w = 0; w < 8; ++w) {
        const uint32_t l = p.lane + r;
        if (!tmem.is_defined(c + w, l, 1)) unwritten(c + w, l);
        std::memcpy(out + (a_row(p) + r) * kMmaRowBytes + 4 * w, &tmem.column(c + w)[l], 4);
        if (a_of_halves() && !differs && p.lane && tmem.column(c + w)[l - 64] != tmem.column(c + w)[l]) {
          differs = true;
          cluster.note_or_throw(
              Fault(FaultKind::tmem_address, lane,
                    fmt::format(
                        "tcgen05.mma: with M = 128 and .cta_group::2, A must stand in TMEM lanes 0-63 and "
                        "again in 64-127; column {} differs in lane {}. Each half of D takes the rows in "
                        "its own lanes",
                        c + w, l - 64)),
              *this);
        }
      }
  }
  watch_tmem(cluster, false, &cta, 0, 128, c, 8, *this);
}

// Row r's metadata stands in D's lane of that row. Elements of 8 and 4 bits: 64 bits, in both columns. Wider
// ones: 32 bits, in the column that the selector names, and the two halves of K lie in lanes 8 apart: lane r
// % 8 of each 16 has the first half of rows r (low bits) and r + 8, lane 8 + r % 8 the second. So CUTLASS 4.x
// lays it out (cute/atom/mma_traits_sm100_frag.hpp, tmem_e_frg; tmem_e_frg_ws: .ws with M < 128 wants it
// again for each part of N); for M = 64 otherwise it follows from the rule that metadata has D's alignment
// (PTX ISA 9.7.16.10.8.5), and sf-tensor's probes for a B200 (see lose) lay it out so.
SparseRows MmaOp::read_metadata(Cluster& cluster, Cta& cta, const std::byte* a_rows, Lost& lost) {
  SparseRows s;
  s.rows = rows_per_cta();
  const bool wide = idesc.kind == MmaKind::f16 || idesc.kind == MmaKind::tf32;
  s.unit_bytes = wide ? 2 : 1;
  s.chunks = 16 / s.unit_bytes;
  s.tf32 = idesc.kind == MmaKind::tf32;
  s.metadata.resize(s.rows * s.chunks, 0x4);  // a place for what is nowhere
  const TensorMemory& tmem = tensor_memory(cta);
  const uint32_t c = TmemAddress{metadata}.column() + (wide ? idesc.sparsity_selector : 0);
  std::vector<bool> given(s.metadata.size()), nowhere(s.rows);
  for (const Part& p : layout())
    for (uint32_t r = 0; r < p.rows; ++r)
      for (uint32_t i = 0; i < s.chunks; ++i) {
        const uint32_t l = p.lane + (wide ? r / 16 * 16 + r % 8 + 8 * (i / 4) : r);
        const uint32_t column = wide ? c : c + i / 8;
        if (!tmem.is_defined(column, l, 1)) {
          if (!lost.any)
            cluster.note_or_throw(
                Fault(
                    FaultKind::uninitialized, lane,
                    fmt::format(
                        "tcgen05.mma.sp: the metadata of row {} (TMEM column {}, lane {}) was never written",
                        p.row + r, column, l)),
                *this);
          lost.add(lost.rows, (p.lane + r) / 32, p.row + r);
          continue;
        }
        const uint32_t shift = wide ? r / 8 % 2 * 16 + 4 * (i % 4) : 4 * (i % 8);
        const auto bits = static_cast<uint8_t>(tmem.column(column)[l] >> shift & 15);
        const size_t at = (p.row + r) * s.chunks + i;
        if (given[at] && s.metadata[at] != bits)
          fault(
              FaultKind::misuse, lane,
              "tcgen05.mma.sp: the metadata of row {} differs between the parts of TMEM: column {}, lane {}",
              p.row + r, column, l);
        s.metadata[at] = bits, given[at] = true;
      }
  s.tcgen05 = true;
  s.check_tolerantly(cluster, *this, a_rows, 0, &nowhere);
  for (uint32_t r = 0; r < s.rows; ++r)
    for (uint32_t q = 0; nowhere[r] && q < 4; ++q) lost.add(lost.rows, q, r);
  watch_tmem(cluster, false, &cta, 0, 128, c, wide ? 1 : 2, *this);
  return s;
}

// Where the schedule tolerates it the sum goes on from what lies there, with a note: a product whose sums are
// nobody's (probes of the instruction alone).
void MmaOp::check_accumulator(Cluster& cluster, Cta& cta) const {
  if (!accumulate) return;
  const TensorMemory& tmem = tensor_memory(cta);
  for (const Part& p : layout())
    for (uint32_t c = p.column; c < p.column + p.columns; ++c)
      if (!tmem.is_defined(c, p.lane, p.rows)) {
        uint32_t l = p.lane;
        while (tmem.is_defined(c, l, 1)) ++l;
        return cluster.note_or_throw(
            Fault(FaultKind::uninitialized, lane,
                  fmt::format("tcgen05.mma adds to an accumulator that was never written: TMEM column {} (n "
                              "= {}), lane {} (the first mma of a tile must have enable-input-d false)",
                              c, c - p.column + p.n, l)),
            *this);
      }
}

bool MmaOp::lost_at_exit() const {
  const auto owned = [this](const Part& p) {
    return tensor_memory(*cta).owns_any(*cta, p.column, p.columns);
  };
  return group == 1 && std::ranges::none_of(layout(), owned);
}

void MmaOp::finish(Cluster& cluster, Cta& cta) {
  TensorMemory& tmem = tensor_memory(cta);
  for (const Part& p : layout()) {
    for (uint32_t c = p.column; c < p.column + p.columns; ++c) tmem.define(cta, c, p.lane, p.rows);
    watch_tmem(cluster, true, &cta, p.lane, p.rows, p.column, p.columns, *this);
  }
}

}  // namespace fp4lab::emu
