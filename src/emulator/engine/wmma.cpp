// wmma.load, wmma.store and wmma.mma (PTX ISA 9.7.14.4). The manual leaves open which element a lane holds;
// ptxas 13.0 has the fragments of mma.sync.m16n8k16 (m16n8k8 for tf32), for sm_90a and sm_100a alike and
// whatever .row or .col, and shipped code feeds wmma.mma what ldmatrix has loaded. The larger of A and B, A
// if they are equal, lies there as A does, in blocks of 16 along m or n; the other one as B, in blocks of 8;
// so m8n32k16 is the product of the transposed matrices. The sums are mma.sync's, but for tf32 (below);
// where C and D differ they are those of fp32, with C widened before or D rounded to nearest behind it (so
// ptxas 13.0 does).
#include <bit>
#include <cstring>

#include "emulator/engine/fragment.h"
#include "emulator/engine/mma_float.h"
#include "emulator/engine/operand.h"
#include "emulator/op/float_format.h"
#include "fp4lab/half.h"

namespace fp4lab::emu {

namespace {

enum class Role : uint8_t { a, b, accumulator };

struct Mods {
  Role role;
  Space space;
  uint8_t rows, columns;  // of the matrix: A m x k, B k x n, accumulator m x n
  uint8_t bits;           // of an element
  bool column_major;
};

struct Shape {
  const char* name;
  uint8_t m, n, k;
};
constexpr Shape kShapes[] = {{"m16n16k16", 16, 16, 16}, {"m32n8k16", 32, 8, 16}, {"m8n32k16", 8, 32, 16},
                             {"m16n16k8", 16, 16, 8},   {"m8n8k32", 8, 8, 32},   {"m8n8k128", 8, 8, 128}};

Shape shape_of(const Source& s) {
  for (const Shape& shape : kShapes)
    if (s.has(shape.name)) return shape;
  fault(FaultKind::misuse, 0, "no shape among the modifiers");
}

// Registers of a fragment. fp16 operands come twice, as the manual's counts have it.
unsigned registers_of(const Mods& m) {
  if (m.role == Role::accumulator) return m.rows * m.columns / kLanes / (m.bits == 16 ? 2 : 1);
  return m.rows * m.columns * m.bits / 8 / 4 / kLanes;
}

// Elements of a lane, in order of its registers: their rows and columns.
struct Cell {
  unsigned row, column;
};
Cell cell_of(const Mods& m, unsigned lane, unsigned i) {
  if (m.role == Role::accumulator) {
    if (m.rows == 8 && m.columns == 8) return {lane / 4, 2 * (lane % 4) + i % 2};
    if (m.rows == 8) {  // m8n32k16 is made as the product of the transposed matrices
      const auto [row, column] = accumulator_cell(i % 4, lane);
      return {column, row + 16 * (i / 4)};
    }
    const auto [row, column] = accumulator_cell(i % 4, lane);
    return m.columns == 8 ? Cell{row + 16 * (i / 4), column} : Cell{row, column + 8 * (i / 4)};
  }
  const bool is_a = m.role == Role::a;
  const unsigned k = is_a ? m.columns : m.rows, outer = is_a ? m.rows : m.columns;
  const unsigned block = outer > (is_a ? 8u : 16u) ? 16 : 8;
  const unsigned per = 32u / m.bits, block_registers = block * k / per / kLanes;
  const unsigned r = i / per;
  const auto [row, byte] = operand_word(r % block_registers, lane, block);
  const unsigned along_outer = row + r / block_registers * block, along_k = byte * 8 / m.bits + i % per;
  return is_a ? Cell{along_outer, along_k} : Cell{along_k, along_outer};
}

uint64_t address_of(Warp& w, const Mods& m, uint64_t base, uint32_t stride, Cell c) {
  static_cast<void>(w);
  const uint64_t index =
      m.column_major ? uint64_t(c.column) * stride + c.row : uint64_t(c.row) * stride + c.column;
  return base + index * (m.bits / 8u);
}

// The same for all lanes, says the manual; without a stride rows (or columns) follow each other.
uint32_t stride_of(Warp& w, const Mods& m, const Operand& o) {
  if (!o) return m.column_major ? m.rows : m.columns;
  return w.source<uint32_t>(o)[0];
}

void load(Warp& w, const Instr& in) {
  w.require_whole(in);
  const Mods m = unpack_aux<Mods>(in);
  const uint64_t base = w.address(in.op[1], 0);
  const uint32_t stride = stride_of(w, m, in.op[2]);
  const unsigned per = 32u / m.bits, count = registers_of(m), given = fragment_registers(in.op[0]);
  uint32_t value[16][kLanes] = {};
  for (unsigned i = 0; i < count * per; ++i)
    for (unsigned t = 0; t < kLanes; ++t) {
      uint32_t x = 0;
      const uint64_t at = address_of(w, m, base, stride, cell_of(m, t, i));
      std::memcpy(&x, w.memory(in, m.space, AccessKind::read, at, m.bits / 8u, t), m.bits / 8u);
      value[i / per][t] |= x << (i % per * m.bits);
    }
  for (unsigned r = 0; r < given; ++r)
    std::memcpy(w.target<uint32_t>(fragment_register(w, in.op[0], r)), value[r % count], sizeof value[0]);
}

void store(Warp& w, const Instr& in) {
  w.require_whole(in);
  const Mods m = unpack_aux<Mods>(in);
  const uint64_t base = w.address(in.op[0], 0);
  const uint32_t stride = stride_of(w, m, in.op[2]);
  const unsigned per = 32u / m.bits;
  for (unsigned r = 0; r < registers_of(m); ++r) {
    const uint32_t* v = w.source<uint32_t>(fragment_register(w, in.op[1], r));
    for (unsigned e = 0; e < per; ++e)
      for (unsigned t = 0; t < kLanes; ++t) {
        const uint32_t x = v[t] >> (e * m.bits);
        const uint64_t at = address_of(w, m, base, stride, cell_of(m, t, r * per + e));
        std::memcpy(w.memory(in, m.space, AccessKind::write, at, m.bits / 8u, t), &x, m.bits / 8u);
      }
  }
}

struct Product {
  uint8_t m, n, k;
  ElementFormat format;
  bool half_c, half_d, saturate;
};

uint8_t bits_of(ElementFormat f) {
  return f == ElementFormat::tf32 ? 32 : f == ElementFormat::u8 || f == ElementFormat::s8 ? 8 : 16;
}

// tf32: ptxas 13.0 makes two products of K = 4 of it, the second onto the first (HMMA.1684; the bits are an
// H200's).
void multiply_in_halves(const std::byte* a, const std::byte* b, unsigned m, unsigned n, uint32_t* d) {
  thread_local MmaElements x, y;
  std::byte half[32 * 16];
  auto decode = [&](MmaElements& e, const std::byte* from, unsigned rows, unsigned first) {
    for (unsigned r = 0; r < rows; ++r) std::memcpy(half + r * 16, from + r * 32 + first * 16, 16);
    e.decode(ElementFormat::tf32, half, rows, 4, false);
  };
  for (unsigned which = 0; which < 2; ++which) {
    decode(x, a, m, which);
    decode(y, b, n, which);
    FloatMma f;
    f.format_a = f.format_b = ElementFormat::tf32;
    f.a = &x, f.b = &y, f.d = d, f.column_stride = m;
    mma_float(f);
  }
}

void multiply(Warp& w, const Instr& in) {
  w.require_whole(in);
  const Product p = unpack_aux<Product>(in);
  const uint8_t bits = bits_of(p.format), c_bits = p.half_c ? 16 : 32, d_bits = p.half_d ? 16 : 32;
  const Mods am{Role::a, Space::generic, p.m, p.k, bits, false},
      bm{Role::b, Space::generic, p.k, p.n, bits, false},
      cm{Role::accumulator, Space::generic, p.m, p.n, c_bits, false},
      dm{Role::accumulator, Space::generic, p.m, p.n, d_bits, false};
  std::byte a[32 * 32], b[32 * 32];  // [m][k] and [n][k]
  uint32_t d[32 * 32];               // [n][m]
  auto gather = [&](const Mods& m, const Operand& o, auto place) {
    const unsigned per = 32u / m.bits;
    for (unsigned r = 0; r < registers_of(m); ++r) {
      const uint32_t* v = w.source<uint32_t>(fragment_register(w, o, r));
      for (unsigned e = 0; e < per; ++e)
        for (unsigned t = 0; t < kLanes; ++t)
          place(cell_of(m, t, r * per + e),
                m.bits == 32 ? v[t] : v[t] >> (e * m.bits) & ((1u << m.bits) - 1));
    }
  };
  const unsigned size = bits / 8u;
  gather(am, in.op[1],
         [&](Cell c, uint32_t x) { std::memcpy(a + (c.row * p.k + c.column) * size, &x, size); });
  gather(bm, in.op[2],
         [&](Cell c, uint32_t x) { std::memcpy(b + (c.column * p.k + c.row) * size, &x, size); });
  gather(cm, in.op[3], [&](Cell c, uint32_t x) { d[c.column * p.m + c.row] = x; });
  const bool widened = p.half_c && !p.half_d, narrowed = p.half_d && !p.half_c;
  const unsigned cells = p.m * p.n;
  if (widened)
    for (unsigned i = 0; i < cells; ++i)
      d[i] = std::bit_cast<uint32_t>(half_to_float(static_cast<uint16_t>(d[i])));
  thread_local MmaElements x, y;
  x.decode(p.format, a, p.m, p.k, false);
  y.decode(p.format, b, p.n, p.k, false);
  if (p.format == ElementFormat::tf32) {
    multiply_in_halves(a, b, p.m, p.n, d);
  } else if (p.format == ElementFormat::u8 || p.format == ElementFormat::s8) {
    IntMma f;
    f.a = &x, f.b = &y, f.saturate = p.saturate, f.d = d, f.column_stride = p.m;
    mma_int(f);
  } else {
    FloatMma f;
    f.format_a = f.format_b = p.format, f.half_output = p.half_c && p.half_d;
    f.a = &x, f.b = &y, f.d = d, f.column_stride = p.m;
    mma_float(f);
  }
  if (narrowed)
    for (unsigned i = 0; i < cells; ++i)
      d[i] = encode(std::bit_cast<float>(d[i]), kF16, FormatRound::nearest_even, false);
  const unsigned per = 32u / d_bits;
  for (unsigned r = 0; r < registers_of(dm); ++r) {
    uint32_t* out = w.target<uint32_t>(fragment_register(w, in.op[0], r));
    for (unsigned t = 0; t < kLanes; ++t) {
      uint32_t word = 0;
      for (unsigned e = 0; e < per; ++e) {
        const Cell c = cell_of(dm, t, r * per + e);
        word |= d[c.column * p.m + c.row] << (e * d_bits);
      }
      out[t] = word;
    }
  }
}

void check_count(const Operand& o, unsigned wanted, const char* name) {
  if (fragment_registers(o) != wanted)
    fault(FaultKind::misuse, 0, "{} has {} registers, this shape takes {}", name, fragment_registers(o),
          wanted);
}
// fp16 operands have twice the registers that their elements need.
unsigned given_registers(const Mods& m, bool half) {
  return registers_of(m) * (half && m.role != Role::accumulator ? 8 / registers_of(m) : 1);
}

Mods decode(const Source& s) {
  const Shape shape = shape_of(s);
  Mods m{Role::accumulator, Space::generic, shape.m, shape.n, static_cast<uint8_t>(emu::bits_of(s.type(0))),
         s.has("col")};
  if (s.has("global")) m.space = Space::global;
  if (s.has("shared") || s.has("shared::cta")) m.space = Space::shared;
  if (s.has("a")) m.role = Role::a, m.columns = shape.k;
  if (s.has("b")) m.role = Role::b, m.rows = shape.k;
  if (m.role != Role::accumulator && (s.type(0) == Type::tf32) != (shape.k == 8))
    fault(FaultKind::misuse, 0, ".tf32 goes with .m16n16k8, and that shape with no other type");
  return m;
}

}  // namespace

Body bind_wmma_load(Instr& in, const Source& s) {
  const Mods m = decode(s);
  check_count(in.op[0], given_registers(m, s.type(0) == Type::f16), "the fragment");
  in.aux = pack_aux(m);
  return load;
}
Body bind_wmma_load_c(Instr& in, const Source& s) { return bind_wmma_load(in, s); }
Body bind_wmma_load_c_bits(Instr& in, const Source& s) { return bind_wmma_load(in, s); }
Body bind_wmma_store(Instr& in, const Source& s) {
  const Mods m = decode(s);
  check_count(in.op[1], registers_of(m), "the fragment");
  in.aux = pack_aux(m);
  return store;
}
Body bind_wmma_store_bits(Instr& in, const Source& s) { return bind_wmma_store(in, s); }

Body bind_wmma_mma(Instr& in, const Source& s) {
  const Shape shape = shape_of(s);
  const Type element = s.type(2) == Type::none ? Type::f16 : s.type(1);
  const ElementFormat format = element == Type::f16    ? ElementFormat::f16
                               : element == Type::bf16 ? ElementFormat::bf16
                               : element == Type::tf32 ? ElementFormat::tf32
                               : element == Type::s8   ? ElementFormat::s8
                                                       : ElementFormat::u8;
  if ((element == Type::tf32) != (shape.k == 8))
    fault(FaultKind::misuse, 0, ".tf32 goes with .m16n16k8, and that shape with no other type");
  const bool half = format == ElementFormat::f16;
  const Product p{
      shape.m,           shape.n, shape.k, format, half && s.type(1) == Type::f16, s.type(0) == Type::f16,
      s.has("satfinite")};
  const uint8_t bits = bits_of(format);
  auto accumulator = [&](bool narrow) {
    return registers_of({Role::accumulator, Space::generic, p.m, p.n, uint8_t(narrow ? 16 : 32), false});
  };
  check_count(in.op[0], accumulator(p.half_d), "D");
  check_count(in.op[1], given_registers({Role::a, Space::generic, p.m, p.k, bits, false}, half), "A");
  check_count(in.op[2], given_registers({Role::b, Space::generic, p.k, p.n, bits, false}, half), "B");
  check_count(in.op[3], accumulator(p.half_c), "C");
  in.aux = pack_aux(p);
  return multiply;
}

}  // namespace fp4lab::emu
