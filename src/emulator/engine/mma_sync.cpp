// mma.sync (PTX ISA 9.7.14.5.14) with the arithmetic of Hopper and Blackwell. fp16, bf16 and tf32 are one
// fused sum per instruction (mma_float.h, 25 fraction bits). Neither machine multiplies fp8 here: ptxas 13.0
// makes two fp16 products of it, the even pairs of bytes first, and adds C at the end in steps of its own.
#include <bit>
#include <cstring>

#include "emulator/engine/fragment.h"
#include "emulator/engine/mma_float.h"
#include "emulator/engine/operand.h"
#include "emulator/op/float_fma.h"
#include "emulator/op/float_format.h"
#include "emulator/op/rounding.h"
#include "fp4lab/half.h"

namespace fp4lab::emu {

void gather_operand(Warp& w, const Operand& o, unsigned rows, unsigned row_bytes, std::byte* out) {
  const unsigned count = fragment_registers(o);
  for (unsigned r = 0; r < count; ++r) {
    const uint32_t* value = w.source<uint32_t>(fragment_register(w, o, r));
    for (unsigned t = 0; t < kLanes; ++t) {
      const auto [row, byte] = operand_word(r, t, rows);
      std::memcpy(out + row * row_bytes + byte, &value[t], 4);
    }
  }
}

void gather_accumulator(Warp& w, const Operand& o, unsigned rows, bool half, uint32_t* d) {
  for (unsigned v = 0; v < rows / 4; ++v) {
    const uint32_t* c = w.source<uint32_t>(fragment_register(w, o, half ? v / 2 : v));
    for (unsigned t = 0; t < kLanes; ++t) {
      const auto [row, column] = accumulator_cell(v, t);
      d[column * 16 + row] = half ? c[t] >> (v % 2 * 16) & 0xffff : c[t];
    }
  }
}

void scatter_accumulator(Warp& w, const Operand& o, unsigned rows, bool half, const uint32_t* d) {
  for (unsigned v = 0; v < rows / 4; ++v) {
    uint32_t* out = w.target<uint32_t>(fragment_register(w, o, half ? v / 2 : v));
    for (unsigned t = 0; t < kLanes; ++t) {
      const auto [row, column] = accumulator_cell(v, t);
      const uint32_t x = d[column * 16 + row];
      out[t] = !half ? x : v % 2 == 0 ? x : (out[t] & 0xffff) | x << 16;
    }
  }
}

namespace {

uint32_t sum_of_halves(uint32_t c, uint32_t x) {
  const double sum =
      double(half_to_float(static_cast<uint16_t>(c))) + half_to_float(static_cast<uint16_t>(x));
  return encode(sum, kF16, FormatRound::nearest_even, false);
}
uint32_t sum_of_floats(uint32_t c, uint32_t x) {
  const float sum = std::bit_cast<float>(c) + std::bit_cast<float>(x);
  return sum != sum ? 0x7fffffffu : std::bit_cast<uint32_t>(sum);
}

}  // namespace

void add_to_accumulator(Warp& w, const Operand& d, const Operand& c, unsigned rows, bool half,
                        const uint32_t* products) {
  const unsigned each = half ? 2 : 1;
  for (unsigned r = 0; r < rows / 4 / each; ++r) {
    const uint32_t* from = w.source<uint32_t>(fragment_register(w, c, r));
    uint32_t* to = w.target<uint32_t>(fragment_register(w, d, r));
    for (unsigned t = 0; t < kLanes; ++t) {
      const auto product = [&](unsigned v) {
        const auto [row, column] = accumulator_cell(v, t);
        return products[column * 16 + row];
      };
      to[t] = !half ? sum_of_floats(from[t], product(r))
                    : sum_of_halves(from[t] & 0xffff, product(2 * r)) |
                          sum_of_halves(from[t] >> 16, product(2 * r + 1)) << 16;
    }
  }
}

uint16_t half_of_fp8(ElementFormat f, uint8_t code) {
  if (f == ElementFormat::e5m2) return static_cast<uint16_t>(code << 8);
  if ((code & 0x7f) == 0x7f) return kHalfNan;
  const int e = code >> 3 & 15, m = code & 7;
  const float v = e ? std::ldexp(8.0f + m, e - 10) : std::ldexp(float(m), -9);
  return static_cast<uint16_t>(half_from_float(v) | (code & 0x80) << 8);
}

ElementFormat widened_format(const Source& s, unsigned which) {
  for (const auto& token : s.tokens)
    if ((token == "s4" || token == "u4") && which-- == 0)
      return token == "s4" ? ElementFormat::s8 : ElementFormat::u8;
  fault(FaultKind::misuse, 0, "the mnemonic names no two types of 4-bit integers");
}

void widen_nibbles(bool is_signed, const std::byte* in, size_t bytes, std::byte* out) {
  for (size_t i = 0; i < 2 * bytes; ++i) {
    const uint8_t v = static_cast<uint8_t>(in[i / 2]) >> (i % 2 * 4) & 15;
    out[i] = static_cast<std::byte>(is_signed ? (v ^ 8) - 8 : v);
  }
}

void require_fragments(const Instr& in, std::span<const unsigned, 4> counts) {
  constexpr const char* names[] = {"D", "A", "B", "C"};
  for (unsigned i = 0; i < 4; ++i)
    if (fragment_registers(in.op[i]) != counts[i])
      fault(FaultKind::misuse, 0, "{} has {} registers, this shape takes {}", names[i],
            fragment_registers(in.op[i]), counts[i]);
}

namespace {

struct Mods {
  uint8_t m;
  uint8_t row_bytes;  // of K
  ElementFormat a, b;
  bool half_output, saturate, exclusive_or;
};

constexpr unsigned kN = 8;

void gather_c(Warp& w, const Operand& o, const Mods& m, uint32_t* d) {
  gather_accumulator(w, o, m.m, m.half_output, d);
}
void scatter_d(Warp& w, const Operand& o, const Mods& m, const uint32_t* d) {
  scatter_accumulator(w, o, m.m, m.half_output, d);
}

// An instruction's operands as matrices: A [m][row_bytes], B [n][row_bytes], C by columns of 16.
struct Fragments {
  std::byte a[16 * 32], b[kN * 32];
  uint32_t c[kN * 16];

  Fragments(Warp& w, const Instr& in, const Mods& m) {
    w.require_whole(in);
    gather_operand(w, in.op[1], m.m, m.row_bytes, a);
    gather_operand(w, in.op[2], kN, m.row_bytes, b);
    gather_c(w, in.op[3], m, c);
  }
};

void multiply(const Mods& m, ElementFormat fa, ElementFormat fb, const std::byte* a, const std::byte* b,
              unsigned k, bool accumulate, uint32_t* d) {
  thread_local MmaElements x, y;
  x.decode(fa, a, m.m, k, false);
  y.decode(fb, b, kN, k, false);
  FloatMma f;
  f.format_a = fa, f.format_b = fb;
  f.half_output = m.half_output, f.accumulate = accumulate;
  f.a = &x, f.b = &y, f.d = d, f.column_stride = 16;
  mma_float(f);
}

void mma_float_sync(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  Fragments f(w, in, m);
  const unsigned size = m.a == ElementFormat::tf32 ? 4 : 2;
  multiply(m, m.a, m.b, f.a, f.b, m.row_bytes / size, true, f.c);
  scatter_d(w, in.op[0], m, f.c);
}

// The pairs of bytes `which`, 0 or 1, of each word, as fp16.
void half_pairs(ElementFormat f, const std::byte* rows, unsigned bytes, unsigned which, std::byte* out) {
  for (unsigned i = 0; i < bytes / 2; ++i) {
    const uint16_t h = half_of_fp8(f, static_cast<uint8_t>(rows[i / 2 * 4 + 2 * which + i % 2]));
    std::memcpy(out + 2 * i, &h, 2);
  }
}

void mma_fp8_sync(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  const Fragments f(w, in, m);
  std::byte ah[16 * 32], bh[kN * 32];
  uint32_t d[kN * 16];
  for (unsigned which = 0; which < 2; ++which) {
    half_pairs(m.a, f.a, m.m * m.row_bytes, which, ah);
    half_pairs(m.b, f.b, kN * m.row_bytes, which, bh);
    multiply(m, ElementFormat::f16, ElementFormat::f16, ah, bh, m.row_bytes / 2, which == 1, d);
  }
  add_to_accumulator(w, in.op[0], in.op[3], m.m, m.half_output, d);
}

template <bool kFourBits>
void mma_integer_sync(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  auto [a, b, d] = Fragments(w, in, m);
  std::byte wide_a[16 * 64], wide_b[kN * 64];
  const unsigned k = kFourBits ? m.row_bytes * 2 : m.row_bytes;
  if (kFourBits) {
    widen_nibbles(m.a == ElementFormat::s8, a, m.m * m.row_bytes, wide_a);
    widen_nibbles(m.b == ElementFormat::s8, b, kN * m.row_bytes, wide_b);
  }
  thread_local MmaElements x, y;
  x.decode(m.a, kFourBits ? wide_a : a, m.m, k, false);
  y.decode(m.b, kFourBits ? wide_b : b, kN, k, false);
  IntMma f;
  f.a = &x, f.b = &y, f.saturate = m.saturate, f.d = d, f.column_stride = 16;
  mma_int(f);
  scatter_d(w, in.op[0], m, d);
}

void mma_bits_sync(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  auto [a, b, d] = Fragments(w, in, m);
  for (unsigned column = 0; column < kN; ++column)
    for (unsigned row = 0; row < m.m; ++row)
      for (unsigned i = 0; i < m.row_bytes; i += 8) {
        uint64_t x, y;
        std::memcpy(&x, a + row * m.row_bytes + i, 8);
        std::memcpy(&y, b + column * m.row_bytes + i, 8);
        d[column * 16 + row] += static_cast<uint32_t>(std::popcount(m.exclusive_or ? x ^ y : x & y));
      }
  scatter_d(w, in.op[0], m, d);
}

// As DFMA has it: of several NaNs b's counts, then the sum's, then a's (seen on an H200).
double fused_step(double a, double b, double sum) {
  const double d = opaque(fused(opaque(a), opaque(b), opaque(sum)));
  return d == d ? d : nan_of(b, sum, a);
}

// fp64: a chain of fused multiply-adds along k, each rounded.
template <Round kRound>
void mma_f64_sync(Warp& w, const Instr& in) {
  w.require_whole(in);
  const Mods m = unpack_aux<Mods>(in);
  const unsigned halves = m.m / 8, k = m.row_bytes / 8;
  double a[16][16], b[kN][16], d[kN][16];
  for (unsigned r = 0; r < fragment_registers(in.op[1]); ++r) {
    const uint64_t* v = w.source<uint64_t>(fragment_register(w, in.op[1], r));
    for (unsigned t = 0; t < kLanes; ++t)
      a[t / 4 + 8 * (r % halves)][4 * (r / halves) + t % 4] = std::bit_cast<double>(v[t]);
  }
  for (unsigned r = 0; r < fragment_registers(in.op[2]); ++r) {
    const uint64_t* v = w.source<uint64_t>(fragment_register(w, in.op[2], r));
    for (unsigned t = 0; t < kLanes; ++t) b[t / 4][4 * r + t % 4] = std::bit_cast<double>(v[t]);
  }
  for (unsigned v = 0; v < m.m / 4; ++v) {
    const uint64_t* c = w.source<uint64_t>(fragment_register(w, in.op[3], v));
    for (unsigned t = 0; t < kLanes; ++t) {
      const auto [row, column] = accumulator_cell(v, t);
      d[column][row] = std::bit_cast<double>(c[t]);
    }
  }
  {
    const ScopedRounding<kRound> mode;
    for (unsigned column = 0; column < kN; ++column)
      for (unsigned row = 0; row < m.m; ++row)
        for (unsigned i = 0; i < k; ++i) d[column][row] = fused_step(a[row][i], b[column][i], d[column][row]);
  }
  for (unsigned v = 0; v < m.m / 4; ++v) {
    uint64_t* out = w.target<uint64_t>(fragment_register(w, in.op[0], v));
    for (unsigned t = 0; t < kLanes; ++t) {
      const auto [row, column] = accumulator_cell(v, t);
      out[t] = std::bit_cast<uint64_t>(d[column][row]);
    }
  }
}

// Shape "m16n8k32" and the register counts that follow from it: `bits` per element.
Mods decode(Instr& in, const Source& s, unsigned bits) {
  Mods m{};
  for (unsigned rows : {8, 16})
    for (unsigned k = 4; k <= 256; k *= 2)
      if (s.has(fmt::format("m{}n8k{}", rows, k)))
        m.m = static_cast<uint8_t>(rows), m.row_bytes = static_cast<uint8_t>(k * bits / 8);
  m.half_output = s.type(0) == Type::f16;
  m.saturate = s.has("satfinite");
  m.a = element_format(s.type(1)), m.b = element_format(s.type(2));
  const unsigned halves = m.m / 8u, per_row = m.row_bytes / (bits == 64 ? 32u : 16u);
  const unsigned accumulators = m.half_output ? halves : halves * 2;
  const unsigned counts[] = {accumulators, halves * per_row, per_row, accumulators};
  require_fragments(in, counts);
  return m;
}

}  // namespace

Body bind_mma_half(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 16));
  return mma_float_sync;
}
Body bind_mma_tf32(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 32));
  return mma_float_sync;
}
Body bind_mma_fp8(Instr& in, const Source& s) {
  if (s.type(0) != s.type(3)) fault(FaultKind::misuse, 0, "the types of D and C must be the same");
  in.aux = pack_aux(decode(in, s, 8));
  return mma_fp8_sync;
}
Body bind_mma_int8(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 8));
  return mma_integer_sync<false>;
}
Body bind_mma_int4(Instr& in, const Source& s) {
  Mods m = decode(in, s, 4);
  m.a = widened_format(s, 0), m.b = widened_format(s, 1);
  in.aux = pack_aux(m);
  return mma_integer_sync<true>;
}
Body bind_mma_bits(Instr& in, const Source& s) {
  Mods m = decode(in, s, 1);
  m.exclusive_or = s.has("xor");
  in.aux = pack_aux(m);
  return mma_bits_sync;
}
Body bind_mma_f64(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, 64));
  switch (rounding_of(s)) {
    case Round::rz:
      return mma_f64_sync<Round::rz>;
    case Round::rm:
      return mma_f64_sync<Round::rm>;
    case Round::rp:
      return mma_f64_sync<Round::rp>;
    default:
      return mma_f64_sync<Round::rn>;
  }
}

}  // namespace fp4lab::emu
