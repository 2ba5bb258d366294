// tcgen05.mma: operands, layouts and arithmetic when the operation runs (PTX ISA 9.7.16.10).
#include "emulator/engine/tcgen05_mma.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/engine/mma_float.h"
#include "emulator/engine/shared_matrix.h"
#include "numerics/tensor_core.h"

namespace fp4lab::emu {

uint32_t elements_per_mma(MmaKind k) {
  switch (k) {
    case MmaKind::f16:
      return 16;
    case MmaKind::tf32:
      return 8;
    case MmaKind::mxf4:
    case MmaKind::mxf4nvf4:
      return 64;
    default:
      return 32;
  }
}

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

void MmaOp::check_tmem(Cta& cta) const {
  const TensorMemory& tmem = tensor_memory(cta);
  const TmemAddress at{d};
  if (at.lane() != 0 && !(half_lanes() && at.lane() == 16))
    fault(FaultKind::tmem_address, lane,
          "tcgen05.mma: D at TMEM address {:#010x}: its lane is {}, must be 0{}", d, at.lane(),
          half_lanes() ? " or 16" : "");
  const uint32_t columns = weight_stationary                         ? idesc.n / (kTmemLanes / idesc.m)
                           : group == 2 && idesc.m == 128 && !sparse ? idesc.n / 2
                                                                     : idesc.n;
  tmem.check(cta, at.column(), columns, "tcgen05.mma: D", this);
  // The manual gives no order in which a product reads its operands and writes D.
  const auto beside_d = [&](const std::string& what, uint32_t first, uint32_t count) {
    if (first < at.column() + columns && at.column() < first + count)
      fault(FaultKind::tmem_address, lane, "{} in TMEM columns [{}, {}) overlaps D in [{}, {})", what, first,
            first + count, at.column(), at.column() + columns);
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
// B (CUTLASS 4.x, cute/atom/mma_traits_sm100_frag.hpp, tmem_sf_frg with ScaleFactorDuplicated2by2; no kernel
// that ships uses it, and no hardware was asked).
MmaOp::Scales MmaOp::scales_of(char operand) const {
  constexpr uint32_t kPlace = 0x3fffffff;  // bits 31:30 carry the scale's id in CUTLASS: ignored
  if (operand == 'A') return {TmemAddress{sfa & kPlace}, rows_per_cta(), 1, idesc.sfa_id};
  return {TmemAddress{sfb & kPlace}, idesc.n, group == 2 && idesc.m == 128 ? 2u : 1u, idesc.sfb_id};
}

void MmaOp::read_scales(Cluster& cluster, Cta& cta, char operand, uint8_t* out) {
  const TensorMemory& tmem = tensor_memory(cta);
  const Scales scales = scales_of(operand);
  const uint32_t part_rows = scales.rows / scales.parts, copies = 4 / scales.parts;
  for (uint32_t r = 0; r < scales.rows; ++r) {
    const uint32_t row = r % part_rows, column = scales.at.column() + row / 32,
                   first = kTmemLanes / scales.parts * (r / part_rows) + row % 32;
    if (row % 32 == 0) {
      const uint32_t lanes = std::min(part_rows - row, 32u);
      for (uint32_t p = 0; p < copies; ++p)
        if (!tmem.is_defined(column, first + 32 * p, lanes)) {
          uint32_t bad = 0;
          while (tmem.is_defined(column, first + 32 * p + bad, 1)) ++bad;
          fault(FaultKind::uninitialized, lane,
                "tcgen05.mma: the scale of row {} of {} (TMEM column {}, lane {}) was never written{}{}",
                r + bad, operand, column, first + 32 * p + bad,
                !p            ? ""
                : copies == 4 ? "; scales must be in all four 32-lane quarters"
                              : "; scales must be in both 32-lane quarters of their half",
                tmem.copies_near(column));
        }
    }
    const auto& cells = tmem.column(column);
    const uint32_t word = cells[first];
    for (uint32_t l = first + 32; l < first + 32 * copies; l += 32)
      if (cells[l] != word)
        fault(FaultKind::scale, lane,
              "tcgen05.mma: the scales of row {} of {} differ between the quarters of TMEM column {}: lane "
              "{} holds {:#010x}, lane {} holds {:#010x}",
              r, operand, column, first, word, l, cells[l]);
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
}

// Where the schedule tolerates it rows of A that nobody wrote are read as they are, with a note: attention
// for one query writes the rows that there are (CUTLASS's example 77, gen), and the products of the others
// are nobody's.
void MmaOp::read_a_tmem(Cluster& cluster, Cta& cta, std::byte* out) {
  const TensorMemory& tmem = tensor_memory(cta);
  const uint32_t c = TmemAddress{a_tmem}.column();
  const uint32_t rows = rows_per_cta();
  bool noted = false;
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
        if (rows == 64 && group == 2 && !sparse && tmem.column(c + w)[l + 64] != tmem.column(c + w)[l])
          fault(FaultKind::tmem_address, lane,
                "tcgen05.mma: with M = 128 and .cta_group::2, A must stand in TMEM lanes 0-63 and again in "
                "64-127; column {} differs in lane {}",
                c + w, l);
      }
  }
  watch_tmem(cluster, false, &cta, 0, 128, c, 8, *this);
}

// Row r's metadata stands in D's lane of that row. Elements of 8 and 4 bits: 64 bits, in both columns. Wider
// ones: 32 bits, in the column that the selector names, and the two halves of K lie in lanes 8 apart: lane r
// % 8 of each 16 has the first half of rows r (low bits) and r + 8, lane 8 + r % 8 the second. So CUTLASS 4.x
// lays it out (cute/atom/mma_traits_sm100_frag.hpp, tmem_e_frg; tmem_e_frg_ws: .ws with M < 128 wants it
// again for each part of N); for M = 64 otherwise it follows from the rule that metadata has D's alignment
// (PTX ISA 9.7.16.10.8.5).
SparseRows MmaOp::read_metadata(Cluster& cluster, Cta& cta, const std::byte* a_rows) {
  SparseRows s;
  s.rows = rows_per_cta();
  const bool wide = idesc.kind == MmaKind::f16 || idesc.kind == MmaKind::tf32;
  s.unit_bytes = wide ? 2 : 1;
  s.chunks = 16 / s.unit_bytes;
  s.tf32 = idesc.kind == MmaKind::tf32;
  s.metadata.resize(s.rows * s.chunks);
  const TensorMemory& tmem = tensor_memory(cta);
  const uint32_t c = TmemAddress{metadata}.column() + (wide ? idesc.sparsity_selector : 0);
  bool again = false;
  for (const Part& p : layout()) {
    for (uint32_t r = 0; r < p.rows; ++r)
      for (uint32_t i = 0; i < s.chunks; ++i) {
        const uint32_t l = p.lane + (wide ? r / 16 * 16 + r % 8 + 8 * (i / 4) : r);
        const uint32_t column = wide ? c : c + i / 8;
        if (!tmem.is_defined(column, l, 1))
          fault(FaultKind::uninitialized, lane,
                "tcgen05.mma.sp: the metadata of row {} (TMEM column {}, lane {}) was never written",
                p.row + r, column, l);
        const uint32_t shift = wide ? r / 8 % 2 * 16 + 4 * (i % 4) : 4 * (i % 8);
        const auto bits = static_cast<uint8_t>(tmem.column(column)[l] >> shift & 15);
        uint8_t& to = s.metadata[(p.row + r) * s.chunks + i];
        if (again && to != bits)
          fault(
              FaultKind::misuse, lane,
              "tcgen05.mma.sp: the metadata of row {} differs between the parts of TMEM: column {}, lane {}",
              p.row + r, column, l);
        to = bits;
      }
    again = p.row + p.rows == s.rows;
  }
  s.ordered = false;  // 0b0110 is among the meaningful values (PTX ISA 9.7.16.10.8.2)
  s.check_tolerantly(cluster, *this, a_rows);
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
                  fmt::format("tcgen05.mma adds to an accumulator that nobody has written: TMEM column {} (n "
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
    for (uint32_t c = p.column; c < p.column + p.columns; ++c) tmem.define(c, p.lane, p.rows);
    watch_tmem(cluster, true, &cta, p.lane, p.rows, p.column, p.columns, *this);
  }
}

// A sparse A: the 64 products that each row has are added as a dense row's are. (Of the models in
// numerics/tensor_core.h none speaks of sparse fp4: this one supposes that the groups of 16 are those of the
// stored elements, which share their scales.)
void MmaOp::fp4(Cluster& cluster, Cta& cta, const std::byte* a_rows, const std::byte* b_rows) {
  const uint32_t m = rows_per_cta(), n = idesc.n;
  thread_local std::vector<int8_t> a8, b8;
  thread_local std::vector<uint8_t> scale_a, scale_b, selected;
  a8.resize(m * 64), b8.resize(n * 64), scale_a.resize(m * 4), scale_b.resize(n * 4);
  unpack_e2m1_twice(reinterpret_cast<const uint8_t*>(a_rows), m * 64, a8.data());
  if (!sparse) unpack_e2m1_twice(reinterpret_cast<const uint8_t*>(b_rows), n * 64, b8.data());
  const SparseRows rows = sparse ? read_metadata(cluster, cta, a_rows) : SparseRows{};
  read_scales(cluster, cta, 'A', scale_a.data());
  read_scales(cluster, cta, 'B', scale_b.data());
  TensorMemory& tmem = tensor_memory(cta);
  for (const Part& p : layout()) {
    // TMEM keeps a column's lanes together, so the tile is computed transposed: its rows are D's columns.
    MmaTile t;
    t.m = static_cast<int>(p.columns), t.n = static_cast<int>(p.rows);
    t.a = b8.data() + p.n * 64, t.b = a8.data() + p.row * 64;
    t.sfa = scale_b.data() + p.n * 4, t.sfb = scale_a.data() + p.row * 4;
    t.format = idesc.scale_ue8m0 ? ScaleFormat::kUe8m0 : ScaleFormat::kUe4m3;
    t.negate = idesc.negate_a != idesc.negate_b;
    t.accumulate = accumulate;
    t.d = reinterpret_cast<float*>(&tmem.column(p.column)[p.lane]);
    t.d_stride = kTmemLanes;
    if (!sparse) {
      mma_tile(t);
      continue;
    }
    // Each row of A takes other elements of B.
    t.a = b8.data(), t.n = 1;
    selected.resize(n * kMmaRowBytes);
    const auto* b = reinterpret_cast<const uint8_t*>(b_rows);
    for (uint32_t r = 0; r < p.rows; ++r, ++t.d, t.b += 64, t.sfb += 4) {
      rows.select(p.row + r, b + p.n * b_row_bytes(), p.columns, selected.data());
      unpack_e2m1_twice(selected.data(), p.columns * 64, b8.data());
      mma_tile(t);
    }
  }
}

namespace {

ElementFormat element_format(MmaKind kind, uint8_t code) {
  switch (kind) {
    case MmaKind::f16:
      return code ? ElementFormat::bf16 : ElementFormat::f16;
    case MmaKind::tf32:
      return ElementFormat::tf32;
    case MmaKind::i8:
      return code ? ElementFormat::s8 : ElementFormat::u8;
    default:
      break;
  }
  constexpr ElementFormat formats[] = {ElementFormat::e4m3, ElementFormat::e5m2, ElementFormat::e4m3,
                                       ElementFormat::e2m3, ElementFormat::e3m2, ElementFormat::e2m1};
  return formats[code];
}

// fp6 and fp4 operands lie in shared memory as 16 elements packed into the first 12 or 8 of 16 bytes (here:
// of consecutive columns); in TMEM each has a byte of its own.
void unpack_narrow(ElementFormat f, std::byte* rows, uint32_t count) {
  const unsigned bits = f == ElementFormat::e2m1 ? 4 : 6;
  for (uint32_t group = 0; group < count * 2; ++group) {
    std::byte* g = rows + group * 16;
    unsigned __int128 all;
    std::memcpy(&all, g, 16);
    for (unsigned i = 0; i < 16; ++i)
      g[i] = std::byte{static_cast<uint8_t>(static_cast<uint64_t>(all >> (i * bits)) & ((1u << bits) - 1))};
  }
}

bool narrow(ElementFormat f) {
  return f == ElementFormat::e2m1 || f == ElementFormat::e2m3 || f == ElementFormat::e3m2;
}

}  // namespace

void MmaOp::plain(Cluster& cluster, Cta& cta, const std::byte* a_rows, const std::byte* b_rows) {
  const uint32_t m = rows_per_cta(), n = idesc.n, b_row = b_row_bytes();
  const uint32_t element = kMmaRowBytes / elements_per_mma(idesc.kind);
  const ElementFormat fa = format('A'), fb = format('B');
  thread_local MmaElements a_all, b_all, a_part, b_part;
  std::vector<std::byte> a_copy(a_rows, a_rows + a_rows_stored() * kMmaRowBytes),
      b_copy(b_rows, b_rows + n * b_row);
  if (narrow(fa) && !a_in_tmem && a.k_major) unpack_narrow(fa, a_copy.data(), m);
  if (narrow(fb) && b.k_major) unpack_narrow(fb, b_copy.data(), n * (b_row / kMmaRowBytes));
  const SparseRows metadata_rows = sparse ? read_metadata(cluster, cta, a_copy.data()) : SparseRows{};
  std::vector<int32_t> scale_a, scale_b;
  std::vector<uint8_t> nan_a, nan_b, bytes;
  auto scales = [&](char operand, uint32_t rows, std::vector<int32_t>& e, std::vector<uint8_t>& nan) {
    bytes.resize(rows * 4), e.resize(rows), nan.resize(rows);
    read_scales(cluster, cta, operand, bytes.data());
    for (uint32_t r = 0; r < rows; ++r) e[r] = bytes[4 * r] - 127, nan[r] = bytes[4 * r] == 0xff;
  };
  if (scale_vec) {
    scales('A', m, scale_a, nan_a);
    scales('B', n, scale_b, nan_b);
  }
  TensorMemory& tmem = tensor_memory(cta);
  for (const Part& p : layout()) {
    const std::byte* a_from = a_copy.data() + a_row(p) * kMmaRowBytes;
    if (sparse)
      decode_sparse(a_part, fa, metadata_rows.part(p.row, p.rows), a_from, element, idesc.negate_a);
    else
      a_part.decode(fa, a_from, p.rows, kMmaRowBytes / element, idesc.negate_a);
    b_part.decode(fb, b_copy.data() + p.n * b_row, p.columns, b_row / element, idesc.negate_b);
    uint32_t* out = &tmem.column(p.column)[p.lane];
    std::vector<std::array<uint32_t, kTmemLanes>> old;
    if (any_disabled) {
      old.resize(p.columns);
      for (uint32_t c = 0; c < p.columns; ++c) old[c] = tmem.column(p.column + c);
    }
    if (idesc.kind == MmaKind::i8) {
      IntMma f;
      f.a = &a_part, f.b = &b_part, f.accumulate = accumulate, f.saturate = idesc.saturate;
      f.d = out, f.column_stride = kTmemLanes;
      mma_int(f);
    } else {
      FloatMma f;
      f.format_a = fa, f.format_b = fb;
      f.half_output = idesc.d_format == 0 && !scale_vec;
      f.accumulate = accumulate, f.scale_input_d = scale_input_d;
      if (scale_vec)
        f.scale_a = scale_a.data() + p.row, f.scale_b = scale_b.data() + p.n, f.nan_a = nan_a.data() + p.row,
        f.nan_b = nan_b.data() + p.n;
      f.a = &a_part, f.b = &b_part, f.d = out, f.column_stride = kTmemLanes;
      mma_float(f);
    }
    if (any_disabled) {
      const uint32_t* mask = disabled + (cta.rank & 1 && group == 2 ? 4 : 0);
      for (uint32_t l = p.lane; l < p.lane + p.rows; ++l)
        if (mask[l / 32] >> (l % 32) & 1)
          for (uint32_t c = 0; c < p.columns; ++c) tmem.column(p.column + c)[l] = old[c][l];
    }
  }
}

void MmaOp::share(Cluster& cluster, Cta& to, const std::byte* b_rows) {
  check_tmem(to);
  check_accumulator(cluster, to);
  const uint32_t m = rows_per_cta();
  thread_local std::vector<std::byte> a_rows;
  a_rows.resize(a_rows_stored() * kMmaRowBytes);
  if (a_in_tmem) {
    read_a_tmem(cluster, to, a_rows.data());
  } else if (a.k_major) {
    read_k_major(cluster, to, a, m, kMmaRowBytes, a_rows.data(), *this, "A");
  } else {
    const uint32_t k = elements_per_mma(idesc.kind);
    read_mn_major(cluster, to, a, m, k, kMmaRowBytes / k, a_rows.data(), *this, "A");
  }
  if (idesc.kind >= MmaKind::mxf4)
    fp4(cluster, to, a_rows.data(), b_rows);
  else
    plain(cluster, to, a_rows.data(), b_rows);
  finish(cluster, to);
}

ElementFormat MmaOp::format(char operand) const {
  return idesc.kind >= MmaKind::mxf4
             ? ElementFormat::e2m1
             : element_format(idesc.kind, operand == 'A' ? idesc.a_format : idesc.b_format);
}

std::optional<StoredOperand> MmaOp::stored(char operand) const {
  const bool is_a = operand == 'A';
  if (is_a && a_in_tmem) return {};
  const SharedMatrix& at = is_a ? a : b;
  const uint32_t per_chunk = elements_per_mma(idesc.kind) / 2,
                 row_bytes = is_a ? kMmaRowBytes : b_row_bytes();
  return StoredOperand{at,
                       format(operand),
                       is_a ? rows_per_cta() : idesc.n / group,
                       per_chunk * row_bytes / 16,
                       at.data_bytes * 8 / per_chunk,
                       per_chunk};
}

// `rows` rows of the CTA's share of B.
void MmaOp::read_b(Cluster& cluster, Cta& from, uint32_t rows, std::byte* out) {
  if (b.k_major) {
    read_k_major(cluster, from, b, rows, b_row_bytes(), out, *this, "B");
  } else {
    const uint32_t size = kMmaRowBytes / elements_per_mma(idesc.kind);
    read_mn_major(cluster, from, b, rows, b_row_bytes() / size, size, out, *this, "B");
  }
}

bool MmaOp::run(Cluster& cluster) {
  // B: with a pair, each CTA's shared memory holds half of the N rows.
  const uint32_t n = idesc.n, share_n = n / group, row = b_row_bytes();
  thread_local std::vector<std::byte> b_rows;
  b_rows.resize((n + column_shift) * row);
  Cta& first = group == 2 ? leader_of(*cta, name()) : *cta;
  for (uint32_t half = 0; half < group; ++half)
    read_b(cluster, half ? pair_of(first, name()) : first, share_n + column_shift,
           b_rows.data() + half * share_n * row);
  std::byte* const used = b_rows.data() + column_shift * row;
  for (uint32_t i = 0; i < zero_columns.size(); ++i)
    if (zero_columns[i]) std::memset(used + i * row, 0, row);
  share(cluster, first, used);
  if (group == 2) share(cluster, pair_of(first, name()), used);
  ++cluster.statistics.mma_count;
  return true;
}

}  // namespace fp4lab::emu
