// ldmatrix, stmatrix and movmatrix (PTX ISA 9.7.14.5.15 to .17).
//
// A lane gives the address of one row of 16 bytes. Plainly, the four lanes of a group get the words of
// "their" row; transposed, byte or half-word columns. The order of the 8-bit forms within a register is what
// measurements on sm_120a and CUTLASS's copy traits for sm_100 agree in (ldmatrix m16n16), and what CUTLASS
// and DeepGEMM's epilogues rely on (stmatrix m16n8).
#include <cstring>

#include "emulator/engine/fragment.h"
#include "emulator/engine/operand.h"

namespace fp4lab::emu {

namespace {

struct Mods {
  Space space;
  uint8_t matrices;
  bool transposed;
  uint8_t packed;  // bits of an element in memory when it gets a byte of its own, else 0
};

using Row = std::array<uint8_t, 16>;

// 16 elements of 4 or 6 bits in the first bytes become 16 bytes.
void unpack(Row& row, unsigned bits) {
  unsigned __int128 all;
  std::memcpy(&all, row.data(), 16);
  for (unsigned i = 0; i < 16; ++i)
    row[i] = static_cast<uint8_t>(static_cast<uint64_t>(all >> (i * bits)) & ((1u << bits) - 1));
}

void load_rows(Warp& w, const Instr& in, const Mods& m, unsigned count, Row* rows) {
  for (unsigned r = 0; r < count; ++r) {
    const std::byte* from = w.memory(in, m.space, AccessKind::read, w.address(in.op[1], r), 16, r);
    std::memcpy(rows[r].data(), from, 16);
    if (m.packed) unpack(rows[r], m.packed);
  }
}

uint32_t word_of(const Row& row, unsigned at) {
  uint32_t v;
  std::memcpy(&v, &row[at], 4);
  return v;
}

// 8 rows of 16 bytes: lane t has word t % 4 of row t / 4; transposed, half-words t / 4 of two neighbouring
// rows.
void load_m8(Warp& w, const Instr& in) {
  w.require_whole(in);
  const Mods m = unpack_aux<Mods>(in);
  Row rows[32];
  load_rows(w, in, m, 8u * m.matrices, rows);
  for (unsigned x = 0; x < m.matrices; ++x) {
    const Row* matrix = rows + 8 * x;
    uint32_t* d = w.target<uint32_t>(fragment_register(w, in.op[0], x));
    for (unsigned t = 0; t < kLanes; ++t) {
      if (!m.transposed) {
        d[t] = word_of(matrix[t / 4], t % 4 * 4);
      } else {
        uint16_t low, high;
        std::memcpy(&low, &matrix[t % 4 * 2][t / 4 * 2], 2);
        std::memcpy(&high, &matrix[t % 4 * 2 + 1][t / 4 * 2], 2);
        d[t] = low | uint32_t(high) << 16;
      }
    }
  }
}

// 16 rows of 16 bytes, transposed: lane t has bytes t / 4 and, in the next register, t / 4 + 8 of four rows.
void load_m16(Warp& w, const Instr& in) {
  w.require_whole(in);
  const Mods m = unpack_aux<Mods>(in);
  Row rows[32];
  load_rows(w, in, m, 16u * m.matrices, rows);
  for (unsigned r = 0; r < 2u * m.matrices; ++r) {
    const Row* matrix = rows + r / 2 * 16;
    uint32_t* d = w.target<uint32_t>(fragment_register(w, in.op[0], r));
    for (unsigned t = 0; t < kLanes; ++t) {
      d[t] = 0;
      for (unsigned i = 0; i < 4; ++i) d[t] |= uint32_t(matrix[t % 4 * 4 + i][t / 4 + r % 2 * 8]) << (8 * i);
    }
  }
}

void store_rows(Warp& w, const Instr& in, const Mods& m, const Row* rows) {
  for (unsigned r = 0; r < 8u * m.matrices; ++r)
    std::memcpy(w.memory(in, m.space, AccessKind::write, w.address(in.op[0], r), 16, r), rows[r].data(), 16);
}

void store_m8(Warp& w, const Instr& in) {
  w.require_whole(in);
  const Mods m = unpack_aux<Mods>(in);
  Row rows[32];
  for (unsigned x = 0; x < m.matrices; ++x) {
    Row* matrix = rows + 8 * x;
    const uint32_t* v = w.source<uint32_t>(fragment_register(w, in.op[1], x));
    for (unsigned t = 0; t < kLanes; ++t) {
      if (!m.transposed) {
        std::memcpy(&matrix[t / 4][t % 4 * 4], &v[t], 4);
      } else {
        const uint16_t low = static_cast<uint16_t>(v[t]), high = static_cast<uint16_t>(v[t] >> 16);
        std::memcpy(&matrix[t % 4 * 2][t / 4 * 2], &low, 2);
        std::memcpy(&matrix[t % 4 * 2 + 1][t / 4 * 2], &high, 2);
      }
    }
  }
  store_rows(w, in, m, rows);
}

// A 16 x 8 accumulator of bytes, (row, column) in the order of mma's: column by column into 8 rows of memory.
void store_m16n8(Warp& w, const Instr& in) {
  w.require_whole(in);
  const Mods m = unpack_aux<Mods>(in);
  Row rows[32];
  for (unsigned x = 0; x < m.matrices; ++x) {
    const uint32_t* v = w.source<uint32_t>(fragment_register(w, in.op[1], x));
    for (unsigned t = 0; t < kLanes; ++t)
      for (unsigned i = 0; i < 4; ++i) {
        const auto [row, column] = accumulator_cell(i, t);
        rows[8 * x + column][row] = static_cast<uint8_t>(v[t] >> (8 * i));
      }
  }
  store_rows(w, in, m, rows);
}

void transpose(Warp& w, const Instr& in) {
  w.require_whole(in);
  const uint32_t* a = w.source<uint32_t>(in.op[1]);
  uint32_t out[kLanes];
  for (unsigned t = 0; t < kLanes; ++t) {
    // Row r of the matrix lies in lanes 4 r to 4 r + 3, two columns in each.
    const unsigned column = t / 4, shift = column % 2 * 16;
    const uint32_t low = a[t % 4 * 8 + column / 2] >> shift & 0xffff;
    const uint32_t high = a[t % 4 * 8 + 4 + column / 2] >> shift & 0xffff;
    out[t] = low | high << 16;
  }
  std::memcpy(w.target<uint32_t>(in.op[0]), out, sizeof out);
}

Mods decode(const Instr& in, const Source& s, unsigned vector_operand, unsigned registers_each) {
  Mods m{shared_space(s), 1, s.has("trans"), 0};
  if (s.has("x2")) m.matrices = 2;
  if (s.has("x4")) m.matrices = 4;
  if (s.has("b6x16_p32")) m.packed = 6;
  if (s.has("b4x16_p64")) m.packed = 4;
  const unsigned given = fragment_registers(in.op[vector_operand]), wanted = m.matrices * registers_each;
  if (given != wanted) fault(FaultKind::misuse, 0, "{} registers given, this form takes {}", given, wanted);
  return m;
}

}  // namespace

Body bind_ldmatrix(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 0, 1));
  return load_m8;
}
Body bind_ldmatrix_unpack(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 0, 1));
  return load_m8;
}
Body bind_ldmatrix_b8(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 0, 2));
  return load_m16;
}
Body bind_stmatrix(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 1, 1));
  return store_m8;
}
Body bind_stmatrix_b8(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 1, 1));
  return store_m16n8;
}
Body bind_movmatrix(Instr&, const Source&) { return transpose; }

}  // namespace fp4lab::emu
