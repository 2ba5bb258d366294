// mma.sp (PTX ISA 9.7.14.6): mma.sync with a structured-sparse A. What is stored is multiplied as densely as
// in mma.sync, one fused sum per instruction; what is not stored takes no part. fp8, as in mma_sync.cpp,
// becomes two fp16 products: ptxas 13.0 takes the even chunks of K first, then the odd ones, and adds C at
// the end.
#include <bit>
#include <cstring>

#include "emulator/engine/fragment.h"
#include "emulator/engine/mma_float.h"
#include "emulator/engine/operand.h"
#include "emulator/engine/sparse.h"
#include "emulator/op/float_format.h"
#include "fp4lab/half.h"

namespace fp4lab::emu {

namespace {

constexpr unsigned kM = 16, kN = 8;

struct Mods {
  uint8_t chunks;  // of four units in a row of A
  ElementFormat a, b;
  bool half_output, saturate, ordered;
  uint8_t selector;
  uint8_t bits;  // of an element
};

struct Operands {
  SparseRows sparse;
  std::byte a[kM * 32], b[kN * 64];  // A as it is stored
  uint32_t d[kN * 16];               // C, then D
};

void gather(Warp& w, const Instr& in, const Mods& m, Operands& x) {
  w.require_whole(in);
  x.sparse.chunks = m.chunks;
  x.sparse.unit_bytes = m.bits > 8 ? 2 : 1;
  x.sparse.tf32 = m.bits == 32;
  x.sparse.ordered = m.ordered;
  gather_operand(w, in.op[1], kM, x.sparse.packed_bytes(), x.a);
  gather_operand(w, in.op[2], kN, x.sparse.dense_bytes(), x.b);
  gather_accumulator(w, in.op[3], kM, m.half_output, x.d);
  gather_metadata(w, in.op[4], m.selector, x.sparse);
  x.sparse.check("mma.sp", kLanes);
}

void multiply(ElementFormat fa, ElementFormat fb, unsigned element_bytes, const SparseRows& sparse,
              const std::byte* a, const std::byte* b, bool half_output, bool accumulate, uint32_t* d) {
  thread_local MmaElements x, y;
  decode_sparse(x, fa, sparse, a, element_bytes, false);
  y.decode(fb, b, kN, sparse.dense_bytes() / element_bytes, false);
  FloatMma f;
  f.format_a = fa, f.format_b = fb;
  f.half_output = half_output, f.accumulate = accumulate;
  f.a = &x, f.b = &y, f.d = d, f.column_stride = 16;
  mma_float(f);
}

void float_product(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  Operands x;
  gather(w, in, m, x);
  multiply(m.a, m.b, m.bits / 8, x.sparse, x.a, x.b, m.half_output, true, x.d);
  scatter_accumulator(w, in.op[0], kM, m.half_output, x.d);
}

// Every other chunk of K, from chunk `which` on, as fp16: units of a byte become units of two.
void halve(const Operands& x, const Mods& m, unsigned which, SparseRows& sparse, std::byte* a, std::byte* b) {
  sparse.rows = kM, sparse.chunks = m.chunks / 2, sparse.unit_bytes = 2;
  sparse.metadata.resize(kM * sparse.chunks);
  auto convert = [](ElementFormat f, const std::byte* from, unsigned count, std::byte* to) {
    for (unsigned i = 0; i < count; ++i) {
      const uint16_t h = half_of_fp8(f, static_cast<uint8_t>(from[i]));
      std::memcpy(to + 2 * i, &h, 2);
    }
  };
  for (unsigned c = 0; c < sparse.chunks; ++c) {
    const unsigned from = 2 * c + which;
    for (unsigned row = 0; row < kM; ++row) {
      sparse.metadata[row * sparse.chunks + c] = x.sparse.metadata[row * m.chunks + from];
      convert(m.a, x.a + (row * m.chunks + from) * 2, 2, a + (row * sparse.chunks + c) * 4);
    }
    for (unsigned column = 0; column < kN; ++column)
      convert(m.b, x.b + (column * m.chunks + from) * 4, 4, b + (column * sparse.chunks + c) * 8);
  }
}

void fp8_product(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  Operands x;
  gather(w, in, m, x);
  uint32_t d[kN * 16];
  for (unsigned which = 0; which < 2; ++which) {
    SparseRows sparse;
    std::byte a[kM * 32], b[kN * 64];
    halve(x, m, which, sparse, a, b);
    multiply(ElementFormat::f16, ElementFormat::f16, 2, sparse, a, b, false, which == 1, d);
  }
  add_to_accumulator(w, in.op[0], in.op[3], kM, false, d);
}

void integer_product(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  Operands x;
  gather(w, in, m, x);
  std::byte a[kM * 64], kept[kM * 64], wide_a[kM * 128], wide_b[kN * 128];
  const unsigned row_bytes = x.sparse.dense_bytes();
  x.sparse.expand(x.a, a, kept);
  const std::byte *pa = a, *pb = x.b;
  unsigned k = row_bytes;
  if (m.bits == 4) {
    widen_nibbles(m.a == ElementFormat::s8, a, kM * row_bytes, wide_a);
    widen_nibbles(m.b == ElementFormat::s8, x.b, kN * row_bytes, wide_b);
    pa = wide_a, pb = wide_b, k = 2 * row_bytes;
  }
  thread_local MmaElements ea, eb;
  ea.decode(m.a, pa, kM, k, false);
  eb.decode(m.b, pb, kN, k, false);
  IntMma f;
  f.a = &ea, f.b = &eb, f.saturate = m.saturate, f.d = x.d, f.column_stride = 16;
  mma_int(f);
  scatter_accumulator(w, in.op[0], kM, false, x.d);
}

// op 0 {d}, 1 {a}, 2 {b}, 3 {c}, 4 metadata, 5 selector
Mods decode(Instr& in, const Source& s, unsigned bits) {
  Mods m{};
  m.bits = static_cast<uint8_t>(bits);
  unsigned k = 0;
  for (unsigned n = 8; n <= 128; n *= 2)
    if (s.has(fmt::format("m16n8k{}", n))) k = n;
  m.chunks = static_cast<uint8_t>(bits == 32 ? k / 2 : bits == 4 ? k / 8 : k / 4);
  m.half_output = s.type(0) == Type::f16;
  m.saturate = s.has("satfinite");
  m.ordered = s.has("sp::ordered_metadata");
  m.a = element_format(s.type(1)), m.b = element_format(s.type(2));
  const unsigned packed = k * bits / 16, accumulators = m.half_output ? 2 : 4;
  const unsigned counts[] = {accumulators, packed / 8, packed / 8, accumulators};
  require_fragments(in, counts);
  SparseRows rows;
  rows.chunks = m.chunks;
  const unsigned selectors = metadata_selectors(rows);
  const int64_t selector = in.op[5].displacement;
  if (selector < 0 || selector >= selectors)
    fault(FaultKind::misuse, 0, "the sparsity selector is {}, with this shape it must be {}", selector,
          selectors == 1 ? "0" : fmt::format("0 to {}", selectors - 1));
  m.selector = static_cast<uint8_t>(selector);
  return m;
}

}  // namespace

Body bind_mma_sp_half(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 16));
  return float_product;
}
Body bind_mma_sp_tf32(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 32));
  return float_product;
}
Body bind_mma_sp_fp8(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 8));
  return fp8_product;
}
Body bind_mma_sp_int8(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 8));
  return integer_product;
}
Body bind_mma_sp_int4(Instr& in, const Source& s) {
  Mods m = decode(in, s, 4);
  m.a = widened_format(s, 0), m.b = widened_format(s, 1);
  in.aux = pack_aux(m);
  return integer_product;
}

}  // namespace fp4lab::emu
