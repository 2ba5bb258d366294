// cvt to and from packed pairs: f16x2, bf16x2, and the fp8, fp6, fp4 and ue8m0 formats (PTX ISA 9.7.9.21).
// The first source (or the upper half of a packed source) goes to the upper half of the result.
#include <algorithm>

#include "emulator/isa/opcode.h"
#include "emulator/op/cvt.h"
#include "emulator/op/half_value.h"
#include "fp4lab/e2m1.h"
#include "fp4lab/ue4m3.h"
#include "fp4lab/ue8m0.h"

namespace fp4lab::emu {

namespace {

using cvt::Modifiers;

// .relu: a negative value becomes +0, a NaN stays one.
float rectified(const Modifiers& m, float v) { return m.relu && !(v > 0) && v == v ? 0.0f : v; }

uint32_t half_code(const Modifiers& m, float v) {
  return encode(rectified(m, v), m.to == Type::bf16x2 ? kBf16 : kF16, m.round, m.satfinite);
}

const FloatFormat& small_format(Type t) {
  switch (t) {
    case Type::e4m3x2:
      return kE4m3;
    case Type::e5m2x2:
      return kE5m2;
    case Type::e2m3x2:
      return kE2m3;
    case Type::e3m2x2:
      return kE3m2;
    case Type::e2m1x2:
      return kE2m1;
    default:
      no_such_type(t);
  }
}

// The code of one value in a small format; e4m3, e2m1 and ue8m0 use the conversions of include/fp4lab.
uint32_t small_code(const Modifiers& m, float v) {
  v = rectified(m, v);
  switch (m.to) {
    case Type::e4m3x2:
      return e4m3_encode(v);
    case Type::e2m1x2:
      return e2m1_encode(v);
    case Type::ue8m0x2: {
      const auto round = m.round == FormatRound::up ? Ue8m0Round::kUp : Ue8m0Round::kTowardZero;
      const uint32_t code = ue8m0_encode(v, round);
      // Without .satfinite a value above the largest, 2^127, becomes NaN.
      const bool over = std::abs(v) > 0x1p127f && (round == Ue8m0Round::kUp || std::isinf(v));
      return over && !m.satfinite ? kUe8m0Nan : code;
    }
    default:
      return encode(v, small_format(m.to), m.round, true);
  }
}

float small_value(const Modifiers& m, uint32_t code) {
  switch (m.from) {
    case Type::e4m3x2:
      return e4m3_value(code);
    case Type::e2m1x2:
      return e2m1_value(code);
    case Type::ue8m0x2:
      return ue8m0_value(code);
    default:
      return float(decode(code, small_format(m.from)));
  }
}

unsigned code_bits(Type packed) { return packed == Type::e2m1x2 ? 4 : bits_of(packed) / 2; }

float half_of(Type t, uint32_t word, unsigned shift) {
  return t == Type::bf16x2 ? BfloatValue::to_float(uint16_t(word >> shift))
                           : HalfValue::to_float(uint16_t(word >> shift));
}

// d = {convert(a), convert(b)}.
template <uint32_t (*kCode)(const Modifiers&, float)>
void pack_two(Warp& w, const Instr& i) {
  const Modifiers m = cvt::unpack(i.aux);
  const unsigned shift = code_bits(m.to);
  const auto* a = w.source<float>(i.op[1]);
  const auto* b = w.source<float>(i.op[2]);
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) {
    d[l] = kCode(m, std::bit_cast<float>(a[l])) << shift | kCode(m, std::bit_cast<float>(b[l]));
  });
}

// cvt.rn.f16x2.f32, the last step of every fp16 epilogue.
void pack_halves(Warp& w, const Instr& i) {
  const auto* a = w.source<float>(i.op[1]);
  const auto* b = w.source<float>(i.op[2]);
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) {
    d[l] = uint32_t(half_from_float(std::bit_cast<float>(a[l]))) << 16 |
           half_from_float(std::bit_cast<float>(b[l]));
  });
}

void narrow_pair(Warp& w, const Instr& i) {
  const Modifiers m = cvt::unpack(i.aux);
  const unsigned shift = code_bits(m.to);
  const auto* a = w.source<uint32_t>(i.op[1]);
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) {
    d[l] = small_code(m, half_of(m.from, a[l], 16)) << shift | small_code(m, half_of(m.from, a[l], 0));
  });
}

void widen_pair(Warp& w, const Instr& i) {
  const Modifiers m = cvt::unpack(i.aux);
  const unsigned shift = code_bits(m.from);
  const uint32_t mask = (1u << shift) - 1;
  const auto* a = w.source<uint32_t>(i.op[1]);
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) {
    d[l] =
        half_code(m, small_value(m, a[l] >> shift & mask)) << 16 | half_code(m, small_value(m, a[l] & mask));
  });
}

}  // namespace

Body bind_cvt_halves(Instr& i, const Source& s) {
  const Modifiers m = cvt::modifiers_of(i, s);
  i.aux = cvt::pack(m);
  if (m.to == Type::f16x2 && m.round == FormatRound::nearest_even && !m.relu && !m.satfinite)
    return pack_halves;
  return pack_two<half_code>;
}
Body bind_cvt_small(Instr& i, const Source& s) {
  i.aux = cvt::pack(cvt::modifiers_of(i, s));
  return pack_two<small_code>;
}
Body bind_cvt_narrow(Instr& i, const Source& s) {
  i.aux = cvt::pack(cvt::modifiers_of(i, s));
  return narrow_pair;
}
Body bind_cvt_widen(Instr& i, const Source& s) {
  i.aux = cvt::pack(cvt::modifiers_of(i, s));
  return widen_pair;
}

namespace {

const FloatFormat& stochastic_format(Type t) {
  switch (t) {
    case Type::f16x2:
      return kF16;
    case Type::bf16x2:
      return kBf16;
    case Type::e4m3x4:
      return kE4m3;
    case Type::e5m2x4:
      return kE5m2;
    case Type::e2m3x4:
      return kE2m3;
    case Type::e3m2x4:
      return kE3m2;
    case Type::e2m1x4:
      return kE2m1;
    default:
      no_such_type(t);
  }
}

uint32_t stochastic_code(const Modifiers& m, uint32_t bits, RandomBits random) {
  return encode(rectified(m, std::bit_cast<float>(bits)), stochastic_format(m.to), FormatRound::stochastic,
                m.satfinite, random);
}

// Each half of the random bits belongs to one of the two values: 13 of its bits for fp16, all for bf16.
void stochastic_pair(Warp& w, const Instr& i) {
  const Modifiers m = cvt::unpack(i.aux);
  const int count = m.to == Type::f16x2 ? 13 : 16;
  const uint32_t mask = (1u << count) - 1;
  const auto *a = w.source<uint32_t>(i.op[1]), *b = w.source<uint32_t>(i.op[2]),
             *r = w.source<uint32_t>(i.op[3]);
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) {
    d[l] = stochastic_code(m, a[l], {r[l] >> 16 & mask, count}) << 16 |
           stochastic_code(m, b[l], {r[l] & mask, count});
  });
}

// Two 16-bit values serve two elements each: the halves of the random bits; for e2m1 the upper bytes of both
// halves (a and b) and the lower ones (e and f).
void stochastic_four(Warp& w, const Instr& i) {
  const Modifiers m = cvt::unpack(i.aux);
  const unsigned size = bits_of(m.to) / 4;
  const uint32_t* v[4];
  for (unsigned n = 0; n < 4; ++n) v[n] = w.source<uint32_t>(w.element(i.op[1], n));
  const auto* r = w.source<uint32_t>(i.op[2]);
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) {
    uint32_t high = r[l] >> 16, low = r[l] & 0xffff;
    if (m.to == Type::e2m1x4) {
      const uint32_t upper = (high & 0xff00) | low >> 8;
      low = (high & 0xff) << 8 | (low & 0xff);
      high = upper;
    }
    uint32_t code = 0;
    for (unsigned n = 0; n < 4; ++n)
      code = code << size | stochastic_code(m, v[n][l], {n < 2 ? high : low, 16});
    d[l] = code;
  });
}

}  // namespace

Body bind_cvt_rs_halves(Instr& i, const Source& s) {
  i.aux = cvt::pack(cvt::modifiers_of(i, s));
  return stochastic_pair;
}
Body bind_cvt_rs_small(Instr& i, const Source& s) {
  if (i.op[1].count != 4) fault(FaultKind::misuse, 0, "{} values, must be 4", i.op[1].count);
  i.aux = cvt::pack(cvt::modifiers_of(i, s));
  return stochastic_four;
}

Body bind_cvt_ue8m0(Instr& i, const Source& s) { return bind_cvt_small(i, s); }
Body bind_cvt_ue8m0_narrow(Instr& i, const Source& s) { return bind_cvt_narrow(i, s); }
Body bind_cvt_ue8m0_widen(Instr& i, const Source& s) { return bind_cvt_widen(i, s); }

namespace {

// cvt.pack.sat: a and b saturated to kBits, b lowest, above them the low bits of c (PTX ISA 9.7.9.22).
template <unsigned kBits, bool kSigned>
uint32_t pack_saturated(int32_t a, int32_t b, uint32_t c) {
  constexpr int32_t lo = kSigned ? -(1 << (kBits - 1)) : 0;
  constexpr int32_t hi = (1 << (kBits - (kSigned ? 1 : 0))) - 1;
  constexpr uint32_t mask = (1u << kBits) - 1;
  const uint32_t pair =
      (uint32_t(std::clamp(a, lo, hi)) & mask) << kBits | (uint32_t(std::clamp(b, lo, hi)) & mask);
  if constexpr (kBits == 16)
    return pair;
  else
    return pair | c << (2 * kBits);
}

template <unsigned kBits>
Body bind_pack(bool is_signed) {
  return with_flag(is_signed, [](auto sign) {
    constexpr bool kSigned = decltype(sign)::value;
    if constexpr (kBits == 16)
      return map2<uint32_t, int32_t>(
          [](int32_t a, int32_t b) { return pack_saturated<kBits, kSigned>(a, b, 0); });
    else
      return map3<uint32_t, int32_t, int32_t, uint32_t>(
          [](int32_t a, int32_t b, uint32_t c) { return pack_saturated<kBits, kSigned>(a, b, c); });
  });
}

}  // namespace

Body bind_cvt_pack16(Instr&, const Source& s) { return bind_pack<16>(s.has("s16")); }
Body bind_cvt_pack(Instr&, const Source& s) {
  if (s.has("u2") || s.has("s2")) return bind_pack<2>(s.has("s2"));
  if (s.has("u4") || s.has("s4")) return bind_pack<4>(s.has("s4"));
  return bind_pack<8>(s.has("s8"));
}

}  // namespace fp4lab::emu
