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

// A sparse A: the 64 products that each row has are added as a dense row's are, in groups of 16 of the stored
// elements, which share their scales. sf-tensor's model of a B200 (see numerics/tensor_core.h) has the same:
// 4000 words of each of four kinds agree.
void MmaOp::fp4(Cluster& cluster, Cta& cta, const std::byte* a_rows, const std::byte* b_rows, Lost& lost) {
  const uint32_t m = rows_per_cta(), n = idesc.n;
  thread_local std::vector<int8_t> a8, b8;
  thread_local std::vector<uint8_t> scale_a, scale_b, selected;
  a8.resize(a_rows_stored() * 64), b8.resize(n * 64), scale_a.resize(m * 4), scale_b.resize(n * 16);
  unpack_e2m1_twice(reinterpret_cast<const uint8_t*>(a_rows), a_rows_stored() * 64, a8.data());
  if (!sparse) unpack_e2m1_twice(reinterpret_cast<const uint8_t*>(b_rows), n * 64, b8.data());
  const SparseRows rows = sparse ? read_metadata(cluster, cta, a_rows, lost) : SparseRows{};
  read_scales(cluster, cta, 'A', scale_a.data(), lost);
  const bool alike = read_scales(cluster, cta, 'B', scale_b.data(), lost);
  for (uint32_t q = 1; q < 4 && !alike; ++q)
    read_scales(cluster, cta, 'B', scale_b.data() + q * n * 4, lost, q);
  TensorMemory& tmem = tensor_memory(cta);
  for (const Part& p : alike ? layout() : quarters()) {
    const uint32_t quarter = alike ? 0 : p.lane / 32;
    // TMEM keeps a column's lanes together, so the tile is computed transposed: its rows are D's columns.
    MmaTile t;
    t.m = static_cast<int>(p.columns), t.n = static_cast<int>(p.rows);
    t.a = b8.data() + p.n * 64, t.b = a8.data() + a_row(p) * 64;
    t.sfa = scale_b.data() + (quarter * n + p.n) * 4, t.sfb = scale_a.data() + p.row * 4;
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

// In TMEM e2m1 stands in bits 5:2 of its byte, as in the registers of mma.sync (PTX ISA 9.7.16.10.4.3, whose
// figure 199 is not in the text, and 9.7.14.5.14, which says so in words); fp6 in the low bits.
void unpack_e2m1_bytes(std::byte* bytes, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) bytes[i] = bytes[i] >> 2 & std::byte{15};
}

bool narrow(ElementFormat f) {
  return f == ElementFormat::e2m1 || f == ElementFormat::e2m3 || f == ElementFormat::e3m2;
}

}  // namespace

void MmaOp::plain(Cluster& cluster, Cta& cta, const std::byte* a_rows, const std::byte* b_rows, Lost& lost) {
  const uint32_t m = rows_per_cta(), n = idesc.n, b_row = b_row_bytes();
  const uint32_t element = kMmaRowBytes / elements_per_mma(idesc.kind);
  const ElementFormat fa = format('A'), fb = format('B');
  thread_local MmaElements a_all, b_all, a_part, b_part;
  std::vector<std::byte> a_copy(a_rows, a_rows + a_rows_stored() * kMmaRowBytes),
      b_copy(b_rows, b_rows + n * b_row);
  if (a_in_tmem && fa == ElementFormat::e2m1)
    unpack_e2m1_bytes(a_copy.data(), static_cast<uint32_t>(a_copy.size()));
  if (narrow(fa) && !a_in_tmem && a.k_major) unpack_narrow(fa, a_copy.data(), m);
  if (narrow(fb) && b.k_major) unpack_narrow(fb, b_copy.data(), n * (b_row / kMmaRowBytes));
  const SparseRows metadata_rows = sparse ? read_metadata(cluster, cta, a_copy.data(), lost) : SparseRows{};
  std::vector<int32_t> scale_a, scale_b;
  std::vector<uint8_t> nan_a, nan_b, bytes;
  auto scales = [&](char operand, uint32_t rows, std::vector<int32_t>& e, std::vector<uint8_t>& nan,
                    uint32_t quarter = 0) {
    bytes.resize(rows * 4);
    const bool alike = read_scales(cluster, cta, operand, bytes.data(), lost, quarter);
    for (uint32_t r = 0; r < rows; ++r) e.push_back(bytes[4 * r] - 127), nan.push_back(bytes[4 * r] == 0xff);
    return alike;
  };
  bool alike = true;
  if (scale_vec) {
    scales('A', m, scale_a, nan_a);
    alike = scales('B', n, scale_b, nan_b);
    for (uint32_t q = 1; q < 4 && !alike; ++q) scales('B', n, scale_b, nan_b, q);
  }
  TensorMemory& tmem = tensor_memory(cta);
  for (const Part& p : alike ? layout() : quarters()) {
    const uint32_t column = (alike ? 0 : p.lane / 32 * n) + p.n;  // of the scales of B
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
        f.scale_a = scale_a.data() + p.row, f.scale_b = scale_b.data() + column,
        f.nan_a = nan_a.data() + p.row, f.nan_b = nan_b.data() + column;
      f.a = &a_part, f.b = &b_part, f.d = out, f.column_stride = kTmemLanes;
      mma_float(f);
    }
    if (any_disabled) {
      for (uint32_t l = p.lane; l < p.lane + p.rows; ++l)
        if (output_disabled(cta, l))
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
  Lost lost;
  if (idesc.kind >= MmaKind::mxf4)
    fp4(cluster, to, a_rows.data(), b_rows, lost);
  else
    plain(cluster, to, a_rows.data(), b_rows, lost);
  finish(cluster, to);
  lose(cluster, to, lost);
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
