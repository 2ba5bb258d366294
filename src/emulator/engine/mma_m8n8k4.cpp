// mma.sync.m8n8k4 of fp16 (PTX ISA 9.7.14.5.1): Volta's shape, four products of 8 x 8 x 4 in a warp, each of
// lanes 4i to 4i + 3 and 4i + 16 to 4i + 19. Later machines have no tensor core for it: ptxas 13.0 calls a
// routine that shuffles rows and columns and multiplies with FFMA, the same one for sm_90a and sm_100a.
#include <bit>
#include <cmath>

#include "emulator/engine/fragment.h"
#include "emulator/engine/operand.h"
#include "emulator/op/float_format.h"
#include "emulator/op/rounding.h"
#include "fp4lab/half.h"

namespace fp4lab::emu {

namespace {

constexpr unsigned kProducts = 4, kM = 8, kN = 8, kK = 4;

struct Mods {
  bool a_column, b_row;  // .col of A, .row of B
  bool half_d, half_c;
};

// One product's matrices.
struct Product {
  float a[kM][kK], b[kN][kK], c[kM][kN], d[kM][kN];
};

// Where a lane's element i lies: the product it belongs to, and row and column there.
struct Cell {
  unsigned product, row, column;
};
unsigned product_of(unsigned lane) { return lane / 4 % kProducts; }
// Of a lane's own row of A or C, or column of B.
unsigned own(unsigned lane) { return lane % 4 + lane / 16 * 4; }

// Of A (m, k), and of B (n, k): `along` if a lane holds a row of the matrix along k, else one k.
Cell factor_cell(unsigned lane, unsigned i, bool along) {
  if (along) return {product_of(lane), own(lane), i};
  return {product_of(lane), i + lane / 16 * 4, lane % 4};
}
Cell accumulator_cell(unsigned lane, unsigned i, bool half) {
  if (half) return {product_of(lane), own(lane), i};
  return {product_of(lane), (lane & 1) + (i & 2) + lane / 16 * 4, (i & 4) + (lane & 2) + (i & 1)};
}

float half_element(Warp& w, const Operand& o, unsigned lane, unsigned i) {
  const uint32_t pair = w.source<uint32_t>(fragment_register(w, o, i / 2))[lane];
  return half_to_float(static_cast<uint16_t>(pair >> i % 2 * 16));
}

void gather(Warp& w, const Instr& in, const Mods& m, Product* p) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    for (unsigned i = 0; i < kK; ++i) {
      const Cell a = factor_cell(lane, i, !m.a_column), b = factor_cell(lane, i, !m.b_row);
      p[a.product].a[a.row][a.column] = half_element(w, in.op[1], lane, i);
      p[b.product].b[b.row][b.column] = half_element(w, in.op[2], lane, i);
    }
    for (unsigned i = 0; i < kN; ++i) {
      const Cell c = accumulator_cell(lane, i, m.half_c);
      p[c.product].c[c.row][c.column] =
          m.half_c ? half_element(w, in.op[3], lane, i)
                   : std::bit_cast<float>(w.source<uint32_t>(fragment_register(w, in.op[3], i))[lane]);
    }
  }
}

// fp32 results: a chain along k from +0, then C. fp16 results: C, the pair of k 0 and 1, the pair of 2 and 3.
float chain(const float* a, const float* b, float c) {
  float sum = 0;
  for (unsigned k = 0; k < kK; ++k) sum = std::fma(a[k], b[k], sum);
  return c + sum;
}
float pairs(const float* a, const float* b, float c) {
  for (unsigned k = 0; k < kK; k += 2) c += std::fma(a[k + 1], b[k + 1], a[k] * b[k]);
  return c;
}

void scatter(Warp& w, const Operand& o, bool half, const Product* p) {
  for (unsigned i = 0; i < kN; ++i) {
    uint32_t* out = w.target<uint32_t>(fragment_register(w, o, half ? i / 2 : i));
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const Cell at = accumulator_cell(lane, i, half);
      const float d = p[at.product].d[at.row][at.column];
      if (!half) {
        out[lane] = d == d ? std::bit_cast<uint32_t>(d) : 0x7fffffffu;
        continue;
      }
      const uint32_t h = encode(d, kF16, FormatRound::nearest_even, false);
      out[lane] = i % 2 == 0 ? h : out[lane] | h << 16;
    }
  }
}

void mma_m8n8k4(Warp& w, const Instr& in) {
  w.require_whole(in);
  const Mods m = unpack_aux<Mods>(in);
  Product p[kProducts];
  gather(w, in, m, p);
  for (Product& x : p)
    for (unsigned row = 0; row < kM; ++row)
      for (unsigned column = 0; column < kN; ++column)
        x.d[row][column] = (m.half_d ? pairs : chain)(x.a[row], x.b[column], x.c[row][column]);
  scatter(w, in.op[0], m.half_d, p);
}

}  // namespace

Body bind_mma_m8n8k4(Instr& in, const Source& s) {
  const Mods m{s.tokens[4] == "col", s.tokens[5] == "row", s.type(0) == Type::f16, s.type(3) == Type::f16};
  const unsigned counts[] = {m.half_d ? 4u : 8u, 2, 2, m.half_c ? 4u : 8u};
  require_fragments(in, counts);
  in.aux = pack_aux(m);
  return mma_m8n8k4;
}

}  // namespace fp4lab::emu
