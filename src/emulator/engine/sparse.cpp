#include "emulator/engine/sparse.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "emulator/core/error.h"
#include "emulator/core/machine.h"

namespace fp4lab::emu {

void SparseRows::check(const char* instruction, unsigned lane, uint32_t first_row) const {
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t c = 0; c < chunks; ++c) {
      const unsigned m = metadata[r * chunks + c];
      if (means_something(m)) continue;
      fault(FaultKind::misuse, lane,
            "{}: the sparsity metadata of row {}, chunk {} of K is 0b{:04b}, whose meaning is undefined; "
            "valid: {}",
            instruction, first_row + r, c, m,
            tf32      ? "0b0100, 0b1110"
            : tcgen05 ? "0b0100, 0b0110, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110"
            : ordered ? "0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110"
                      : "two different places");
    }
}

void SparseRows::check_tolerantly(Cluster& cluster, const AsyncOp& op, const std::byte* packed,
                                  uint32_t first_row, std::vector<bool>* nowhere) {
  try {
    check(op.name(), op.lane, first_row);
  } catch (const Fault& fault) {
    if (!cluster.grid.schedule.tolerant) throw;
    const uint32_t bytes = 2u * unit_bytes;  // stored, of a chunk
    for (size_t i = 0; i < metadata.size(); ++i) {
      if (means_something(metadata[i])) continue;
      const auto stored = std::span(packed + i * bytes, bytes);
      const bool zeros = std::ranges::all_of(stored, [](std::byte b) { return b == std::byte{}; });
      if (!zeros && !nowhere) continue;
      if (!zeros) (*nowhere)[i / chunks] = true;
      metadata[i] = 0x4;
    }
    check(op.name(), op.lane, first_row);
    cluster.tolerated(fault, op);
  }
}

void SparseRows::expand(const std::byte* packed, std::byte* dense, std::byte* kept) const {
  const size_t total = size_t(rows) * dense_bytes();
  std::memset(dense, 0, total);
  std::memset(kept, 0, total);
  const unsigned u = unit_bytes;
  for (size_t i = 0; i < size_t(rows) * chunks; ++i)
    for (unsigned which = 0; which < 2; ++which) {
      const size_t to = (4 * i + (metadata[i] >> (2 * which) & 3)) * u;
      std::memcpy(dense + to, packed + (2 * i + which) * u, u);
      std::memset(kept + to, 0xff, u);
    }
}

void SparseRows::select(uint32_t row, const uint8_t* b, uint32_t count, uint8_t* out) const {
  const unsigned u = unit_bytes;
  uint32_t from[2 * 16];  // offsets in a dense row
  for (unsigned c = 0; c < chunks; ++c)
    for (unsigned which = 0; which < 2; ++which)
      from[2 * c + which] = (4 * c + (metadata[row * chunks + c] >> (2 * which) & 3)) * u;
  for (uint32_t n = 0; n < count; ++n, b += dense_bytes())
    for (unsigned i = 0; i < 2 * chunks; ++i, out += u) std::memcpy(out, b + from[i], u);
}

SparseRows SparseRows::part(uint32_t first, uint32_t count) const {
  SparseRows s = *this;
  s.rows = count;
  s.metadata.assign(metadata.begin() + first * chunks, metadata.begin() + (first + count) * chunks);
  return s;
}

unsigned metadata_selectors(const SparseRows& s) {
  const unsigned words = 2 * s.chunks / 8;  // of a pair of rows: 1, 2 or 4
  return 4 / words;
}

void gather_metadata(Warp& w, const Operand& o, unsigned selector, SparseRows& s) {
  s.rows = 16;
  s.metadata.resize(16 * s.chunks);
  const uint32_t* bits = w.source<uint32_t>(o);
  const unsigned words = 2 * s.chunks / 8;
  // Units of 16 bits: a lane has half a word for each of its two rows. Units of 8: a word for one of them.
  const bool halves = s.unit_bytes == 2;
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned c = 0; c < s.chunks; ++c) {
      const unsigned first = row % 8 * 4 + selector * words, upper = row / 8;
      const unsigned lane = halves ? first + c / 4 : first + upper + c / 8 * 2;
      const unsigned shift = halves ? 16 * upper + 4 * (c % 4) : 4 * (c % 8);
      s.metadata[row * s.chunks + c] = static_cast<uint8_t>(bits[lane] >> shift & 15);
    }
}

void decode_sparse(MmaElements& x, ElementFormat f, const SparseRows& s, const std::byte* packed,
                   unsigned element_bytes, bool negate) {
  thread_local std::vector<std::byte> dense, kept;
  const uint32_t row_bytes = s.dense_bytes();
  dense.resize(size_t(s.rows) * row_bytes), kept.resize(dense.size());
  s.expand(packed, dense.data(), kept.data());
  x.decode(f, dense.data(), s.rows, row_bytes / element_bytes, negate);
  x.absent.resize(dense.size() / element_bytes);
  for (size_t i = 0; i < x.absent.size(); ++i) x.absent[i] = kept[i * element_bytes] == std::byte{0};
}

}  // namespace fp4lab::emu
