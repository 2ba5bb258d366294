#include "emulator/engine/shared_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/engine/operand_overlap.h"

namespace fp4lab::emu {

namespace {

Layout layout_of(SharedMatrix::Swizzle s) {
  switch (s) {
    case SharedMatrix::Swizzle::none:
      return Layout::none;
    case SharedMatrix::Swizzle::b128_atom32:
      return Layout::b128_atom32;
    case SharedMatrix::Swizzle::b128:
      return Layout::b128;
    case SharedMatrix::Swizzle::b64:
      return Layout::b64;
    case SharedMatrix::Swizzle::b32:
      return Layout::b32;
  }
  return Layout::other;
}

// Where the schedule tolerates it the poison is read, with a note: the rows of a tile that are nobody's
// (heads packed to queries in FlashAttention 3) stay unwritten, and so do their products.
void undefined(Cluster& cluster, const Cta& cta, const AsyncOp& op, const char* operand, uint32_t row,
               uint32_t k, uint32_t address) {
  cluster.note_or_throw(
      Fault(FaultKind::uninitialized, op.lane,
            fmt::format(
                "{}: {} reads shared {:#x} of CTA rank {} (row {}, byte {} of K), which was never written",
                op.name(), operand, address, cta.rank, row, k))
          .at(cta, address),
      op);
}

// Elements of 4 and 6 bits: 16 along MN in the first bytes of 16 (CUTLASS's unit tests
// sm100_tensorop_gemm/narrow_precision/*_nt_layout.cu have them in all layouts).
void read_mn_major_narrow(Cluster& cluster, Cta& cta, const SharedMatrix& m, uint32_t rows, uint32_t columns,
                          std::byte* out, const AsyncOp& op, const char* operand, uint32_t first_row) {
  const uint32_t bits = m.data_bytes / 2;
  for (uint32_t mn = 0; mn < rows; mn += 16)
    for (uint32_t k = 0; k < columns; ++k) {
      const uint32_t at = m.mn_major_address(first_row + mn, k, 1);
      unsigned __int128 chunk = 0;
      std::memcpy(&chunk, cta.window(at, m.data_bytes, op.name()), m.data_bytes);
      if (!cta.is_defined(at, m.data_bytes)) undefined(cluster, cta, op, operand, first_row + mn, k, at);
      for (uint32_t i = 0; i < std::min(rows - mn, 16u); ++i)
        out[size_t(mn + i) * columns + k] =
            std::byte(static_cast<uint8_t>(static_cast<uint64_t>(chunk >> i * bits) & ((1u << bits) - 1)));
      watch_access(cluster, AccessKind::read, Space::shared, at, m.data_bytes, &cta, op, Proxy::async,
                   layout_of(m.swizzle));
    }
}

// 16 bytes hold elements of consecutive rows and of one column, whatever the swizzle.
template <typename T>
void read_mn_major_chunks(Cluster& cluster, Cta& cta, const SharedMatrix& m, uint32_t rows, uint32_t columns,
                          std::byte* out, const AsyncOp& op, const char* operand, uint32_t first_row) {
  constexpr uint32_t kPer = 16 / sizeof(T), kSize = sizeof(T);
  for (uint32_t mn = 0; mn < rows; mn += kPer) {
    const uint32_t count = std::min(rows - mn, kPer);
    for (uint32_t k = 0; k < columns; ++k) {
      const uint32_t at = m.mn_major_address(first_row + mn, k, kSize);
      const std::byte* from = cta.window(at, count * kSize, op.name());
      if (!cta.is_defined(at, count * kSize)) [[unlikely]]
        for (uint32_t i = 0; i < count; ++i)
          if (!cta.is_defined(at + i * kSize, kSize))
            undefined(cluster, cta, op, operand, first_row + mn + i, k * kSize, at + i * kSize);
      for (uint32_t i = 0; i < count; ++i)
        std::memcpy(out + (size_t(mn + i) * columns + k) * kSize, from + i * kSize, kSize);
      if (cluster.watcher) [[unlikely]]
        watch_access(cluster, AccessKind::read, Space::shared, at, count * kSize, &cta, op, Proxy::async,
                     layout_of(m.swizzle));
    }
  }
}

// Of the 16 bytes at shared address `at`, which are bytes k to k + 15 of a row: a bit for each word that
// nobody has written. Where the bytes are packed elements, each word takes some of all of them.
uint16_t unwritten_words(const Cta& cta, const SharedMatrix& m, uint32_t at, uint32_t k) {
  unsigned words = m.data_bytes < 16 ? 0xf : 0;
  for (unsigned i = 0; i < 4 && m.data_bytes == 16; ++i)
    if (!cta.is_defined(at + 4 * i, 4)) words |= 1u << i;
  return static_cast<uint16_t>(words << k / 4);
}

// The canonical layouts keep a row's bytes within its span of the swizzle. Hardware goes on behind it by the
// same function: wgmma with rows of 64 bytes in 32-byte swizzle, or with a start in the middle of a span, on
// an H200 (2026-11-22).
void check_span(Cluster& cluster, const SharedMatrix& m, uint32_t bytes, const AsyncOp& op,
                const char* operand) {
  const uint32_t span = m.span();
  if (m.swizzle == SharedMatrix::Swizzle::none || m.start % span + bytes <= span) return;
  cluster.note_or_throw(
      Fault(
          FaultKind::descriptor, op.lane,
          fmt::format("{}: {} starts at shared {:#x} and needs {} bytes of K, past the {}-byte swizzle span",
                      op.name(), operand, m.start, bytes, span)),
      op);
}

// Rows of 32 bytes whose two chunks lie in the same 32 bytes, as every canonical layout with a swizzle has
// them. False, and nothing is done, when the `count` rows at `core` leave the window or hold a byte that was
// never written.
bool read_pairs(Cta& cta, const SharedMatrix& m, uint32_t core, uint32_t count, std::byte* out,
                const AsyncOp& op) {
  const uint32_t span = m.span(), lo = core / span * span,
                 hi = (core + (count - 1) * span + 32 + span - 1) / span * span;
  if (!cta.owns(lo, hi - lo) || !cta.is_defined(lo, hi - lo)) return false;
  const std::byte* const window = cta.window(lo, hi - lo, op.name()) - lo;
  for (uint32_t r = 0; r < count; ++r) {
    const uint32_t at = m.permuted(core + r * span);
    std::memcpy(out + size_t(r) * 32, window + at, 16);
    std::memcpy(out + size_t(r) * 32 + 16, window + (at ^ 16), 16);
  }
  return true;
}

}  // namespace

void read_k_major(Cluster& cluster, Cta& cta, const SharedMatrix& m, uint32_t rows, uint32_t bytes,
                  std::byte* out, const AsyncOp& op, const char* operand, uint16_t* defined,
                  uint32_t first_row) {
  check_span(cluster, m, bytes, op, operand);
  note_overlap(cluster, m, true, rows, bytes, 1, op, operand);
  const bool pairs = m.swizzle != SharedMatrix::Swizzle::none && bytes == 32 && (m.start | m.sbo) % 32 == 0;
  for (uint32_t core = 0; core < rows; core += 8) {
    const uint32_t count = std::min(rows - core, 8u), start = m.start + (first_row + core) / 8 * m.sbo;
    const bool done = pairs && read_pairs(cta, m, start, count, out + size_t(core) * bytes, op);
    for (uint32_t row = core; row < core + count; ++row) {
      uint16_t known = kAllWords;
      for (uint32_t k = 0; k < bytes && !done; k += 16) {
        const uint32_t at = m.k_major_address(first_row + row, k);
        std::memcpy(out + size_t(row) * bytes + k, cta.window(at, 16, op.name()), 16);
        if (cta.is_defined(at, m.data_bytes)) continue;
        if (!defined) undefined(cluster, cta, op, operand, first_row + row, k, at);
        known &= ~unwritten_words(cta, m, at, k);
      }
      if (defined) defined[row] = known;
    }
    if (cluster.watcher) [[unlikely]]
      for (uint32_t row = first_row + core; row < first_row + core + count; ++row)
        for (uint32_t k = 0; k < bytes; k += 16)
          watch_access(cluster, AccessKind::read, Space::shared, m.k_major_address(row, k), m.data_bytes,
                       &cta, op, Proxy::async, layout_of(m.swizzle));
  }
}

void read_mn_major(Cluster& cluster, Cta& cta, const SharedMatrix& m, uint32_t rows, uint32_t columns,
                   uint32_t element_bytes, std::byte* out, const AsyncOp& op, const char* operand,
                   uint32_t first_row) {
  note_overlap(cluster, m, false, rows, columns, element_bytes, op, operand);
  if (m.data_bytes < 16)
    return read_mn_major_narrow(cluster, cta, m, rows, columns, out, op, operand, first_row);
  switch (element_bytes) {
    case 1:
      return read_mn_major_chunks<uint8_t>(cluster, cta, m, rows, columns, out, op, operand, first_row);
    case 2:
      return read_mn_major_chunks<uint16_t>(cluster, cta, m, rows, columns, out, op, operand, first_row);
    default:
      return read_mn_major_chunks<uint32_t>(cluster, cta, m, rows, columns, out, op, operand, first_row);
  }
}

}  // namespace fp4lab::emu
