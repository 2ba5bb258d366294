#include "emulator/engine/shared_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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
  const Fault unwritten(
      FaultKind::uninitialized, op.lane,
      fmt::format("{}: {} reads shared {:#x} of CTA rank {} (row {}, byte {} of K), which nobody has written",
                  op.name(), operand, address, cta.rank, row, k));
  cluster.note_or_throw(unwritten, op);
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

}  // namespace

void read_k_major(Cluster& cluster, Cta& cta, const SharedMatrix& m, uint32_t rows, uint32_t bytes,
                  std::byte* out, const AsyncOp& op, const char* operand, uint16_t* defined,
                  uint32_t first_row) {
  const bool plain = m.swizzle == SharedMatrix::Swizzle::none;
  const uint32_t span = m.span(), cores = (rows + 7) / 8;
  if (!plain && m.start % span + bytes > span)
    fault(FaultKind::descriptor, op.lane,
          "{}: {} starts at shared {:#x} and needs {} bytes of K, past the {}-byte swizzle span", op.name(),
          operand, m.start, bytes, span);
  // The last core begins (cores - 1) * SBO behind the first; the swizzle stays within a core.
  const uint32_t core_bytes = plain ? (bytes / 16 - 1) * m.lbo + 128 : span * 8;
  const uint32_t first = (plain ? m.start : m.start / span * span) + first_row / 8 * m.sbo;
  const uint32_t end = first + (cores - 1) * m.sbo + core_bytes;
  const std::byte* window = cta.window(first, end - first, op.name()) - first;
  const uint32_t back = m.base << 7;
  const uint32_t shift = m.swizzle == SharedMatrix::Swizzle::b128_atom32 ? 2 : 3;
  const uint32_t mask = m.swizzle == SharedMatrix::Swizzle::b128_atom32 ? 0x60 : (span - 1) & 0x70;
  for (uint32_t core = 0; core < cores; ++core) {
    const uint32_t count = std::min(rows - core * 8, 8u);
    // All of the core was written in nearly every case: one test instead of one for each 16 bytes.
    const bool whole = !plain && cta.is_defined(first + core * m.sbo, span * 8);
    if (whole &&
        bytes == 32) {  // the usual case: two chunks of a row, whose swizzle depends on the row alone
      for (uint32_t r = 0; r < count; ++r) {
        const uint32_t at = first + core * m.sbo + r * span + m.start % span, row = core * 8 + r;
        const uint32_t turn = (at - back) >> shift & mask;
        std::memcpy(out + size_t(row) * 32, window + (at ^ turn), 16);
        std::memcpy(out + size_t(row) * 32 + 16, window + ((at + 16) ^ turn), 16);
        if (defined) defined[row] = kAllWords;
      }
    } else {
      for (uint32_t r = 0; r < count; ++r) {
        const uint32_t row = core * 8 + r;
        uint16_t known = kAllWords;
        for (uint32_t k = 0; k < bytes; k += 16) {
          const uint32_t at = m.k_major_address(first_row + row, k);
          std::memcpy(out + size_t(row) * bytes + k, window + at, 16);
          if (!whole && !cta.is_defined(at, m.data_bytes)) {
            if (!defined) undefined(cluster, cta, op, operand, first_row + row, k, at);
            known &= ~unwritten_words(cta, m, at, k);
          }
        }
        if (defined) defined[row] = known;
      }
    }
    if (cluster.watcher) [[unlikely]]
      for (uint32_t r = 0; r < count; ++r)
        for (uint32_t k = 0; k < bytes; k += 16)
          watch_access(cluster, AccessKind::read, Space::shared,
                       m.k_major_address(first_row + core * 8 + r, k), m.data_bytes, &cta, op, Proxy::async,
                       layout_of(m.swizzle));
  }
}

void read_mn_major(Cluster& cluster, Cta& cta, const SharedMatrix& m, uint32_t rows, uint32_t columns,
                   uint32_t element_bytes, std::byte* out, const AsyncOp& op, const char* operand,
                   uint32_t first_row) {
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
