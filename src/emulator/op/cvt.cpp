// cvt between integers, f16, bf16, f32, f64 and tf32 (PTX ISA 9.7.9.21): fast bodies for the pairs that are
// common in kernels, and one general body that goes through a double or a 128-bit integer, both exact.
#include "emulator/op/cvt.h"

#include "emulator/isa/opcode.h"
#include "emulator/op/half_value.h"

namespace fp4lab::emu {

namespace cvt {

Modifiers modifiers_of(const Instr& i, const Source& s) {
  Modifiers m;
  m.to = s.type(0);
  m.from = s.type(1);
  using R = FormatRound;
  if (s.has("rz") || s.has("rzi")) m.round = R::to_zero;
  if (s.has("rm") || s.has("rmi")) m.round = R::down;
  if (s.has("rp") || s.has("rpi")) m.round = R::up;
  if (s.has("rna")) m.round = R::nearest_away;
  m.integral = s.has("rni") || s.has("rzi") || s.has("rmi") || s.has("rpi");
  m.ftz = s.has("ftz") && m.to != Type::f16;  // f16 results are never flushed (seen on an H200)
  m.sat = s.has("sat");
  m.relu = s.has("relu");
  m.satfinite = s.has("satfinite");
  m.to_wide = bits_of(m.to) < 64 && bits_of(i.op[0].type) == 64;
  m.from_wide = bits_of(m.from) < 64 && bits_of(i.op[1].type) == 64;
  return m;
}

double to_double(__int128 v, FormatRound round) {
  const bool negative = v < 0;
  const unsigned __int128 magnitude = negative ? -(unsigned __int128)v : (unsigned __int128)v;
  unsigned shift = 0;
  while (magnitude >> shift >> 53) ++shift;
  uint64_t kept = uint64_t(magnitude >> shift);
  const unsigned __int128 dropped = magnitude - ((unsigned __int128)kept << shift);
  const unsigned __int128 half = shift ? (unsigned __int128)1 << (shift - 1) : 1;
  switch (round) {
    case FormatRound::nearest_even:
      kept += dropped > half || (dropped == half && shift && (kept & 1));
      break;
    case FormatRound::nearest_away:
      kept += dropped >= half && dropped != 0;
      break;
    case FormatRound::to_zero:
      break;
    case FormatRound::down:
      kept += negative && dropped != 0;
      break;
    case FormatRound::up:
      kept += !negative && dropped != 0;
      break;
    case FormatRound::stochastic:  // of floats only
      break;
  }
  const double value = std::ldexp(double(kept), int(shift));
  return negative ? -value : value;
}

double to_odd_double(__int128 v) {
  const bool negative = v < 0;
  const unsigned __int128 magnitude = negative ? -(unsigned __int128)v : (unsigned __int128)v;
  unsigned shift = 0;
  while (magnitude >> shift >> 53) ++shift;
  uint64_t kept = uint64_t(magnitude >> shift);
  if (((unsigned __int128)kept << shift) != magnitude) kept |= 1;
  const double value = std::ldexp(double(kept), int(shift));
  return negative ? -value : value;
}

}  // namespace cvt

namespace {

using cvt::Modifiers;

bool is_float(Type t) {
  return t == Type::f16 || t == Type::bf16 || t == Type::f32 || t == Type::f64 || t == Type::tf32;
}

// An intermediate value: exactly one of the two is in use.
struct Value {
  double real = 0;
  __int128 integer = 0;
};

Value read(Type t, uint64_t cell, bool ftz) {
  switch (t) {
    case Type::u8:
      return {.integer = uint8_t(cell)};
    case Type::s8:
      return {.integer = int8_t(cell)};
    case Type::u16:
      return {.integer = uint16_t(cell)};
    case Type::s16:
      return {.integer = int16_t(cell)};
    case Type::u32:
      return {.integer = uint32_t(cell)};
    case Type::s32:
      return {.integer = int32_t(cell)};
    case Type::u64:
      return {.integer = cell};
    case Type::s64:
      return {.integer = int64_t(cell)};
    case Type::f16:
      return {.real = HalfValue::value(uint16_t(cell))};
    case Type::bf16:
      return {.real = BfloatValue::value(uint16_t(cell))};
    case Type::f64:
      return {.real = std::bit_cast<double>(cell)};
    default: {
      const float v = std::bit_cast<float>(uint32_t(cell));
      return {.real = ftz ? canonical(flush(v)) : v};  // a NaN loses its payload where it is flushed
    }
  }
}

template <class T>
uint64_t clamped(__int128 v, bool sat) {
  if (sat) {
    const __int128 lo = std::numeric_limits<T>::min(), hi = std::numeric_limits<T>::max();
    v = v < lo ? lo : v > hi ? hi : v;
  }
  return uint64_t(int64_t(T(v)));  // sign-extended for a wider register; narrower ones truncate
}

// Integer results: from an integer wrapped or saturated, from a float rounded and clamped.
template <class T>
uint64_t integer_result(const Modifiers& m, const Value& v) {
  if (!is_float(m.from)) return clamped<T>(v.integer, m.sat);
  return uint64_t(int64_t(cvt::to_integer<T>(cvt::to_integral(v.real, m.round), m.from == Type::f64)));
}

// A NaN converted between f64 and another format keeps its sign and the top of its payload, and becomes
// quiet; every other NaN becomes the canonical one (seen on an H200).
uint64_t nan_code(const Modifiers& m, double v, const FloatFormat& f) {
  if (m.from != Type::f64 || m.relu) return f.nan;
  const uint64_t bits = std::bit_cast<uint64_t>(quiet(v));
  return (bits >> 63 ? f.sign_bit() : 0) | f.infinity() |
         ((bits & 0x000fffffffffffff) >> (52 - f.mantissa_bits));
}

// cvt.rna.tf32 works on the bits alone: NaNs and infinities are truncated, not rounded, and .satfinite then
// subtracts one from every code with the exponent of an infinity (seen on an H200).
uint32_t tf32_away(uint32_t bits, bool satfinite) {
  const auto at_top = [](uint32_t b) { return (b & 0x7f800000) == 0x7f800000; };
  const uint32_t code = (at_top(bits) ? bits : bits + 0x1000) & ~0x1fffu;
  return satfinite && at_top(code) ? code - 0x2000 : code;
}

// .ftz when narrowing from f64: as for arithmetic (is_tiny).
uint32_t flushed(const Modifiers& m, double v, uint32_t code) {
  const bool at_least_normal = (code & 0x7fffffff) == 0x00800000;
  const bool tiny = m.round == FormatRound::nearest_even ? is_tiny<Round::rn>(v)
                    : m.round == FormatRound::to_zero    ? is_tiny<Round::rz>(v)
                                                         : is_tiny<Round::rp>(v);
  return at_least_normal && tiny ? code & 0x80000000
                                 : std::bit_cast<uint32_t>(flush(std::bit_cast<float>(code)));
}

// Code of a float result; `v` is rounded to the format once.
uint64_t float_code(const Modifiers& m, double v) {
  const auto code = [&](const FloatFormat& f) -> uint32_t {
    return v == v ? encode(v, f, m.round, m.satfinite) : uint32_t(nan_code(m, v, f));
  };
  switch (m.to) {
    case Type::f16:
      return code(kF16);
    case Type::bf16:
      return code(kBf16);
    case Type::tf32:
      return uint64_t(code(kTf32)) << 13;
    case Type::f64:
      return std::bit_cast<uint64_t>(v == v ? v : quiet(v));
    default:
      return m.ftz ? flushed(m, v, code(kF32)) : code(kF32);
  }
}

uint64_t float_result(const Modifiers& m, const Value& value) {
  double v = value.real;
  if (!is_float(m.from))
    v = m.to == Type::f64 ? cvt::to_double(value.integer, m.round) : cvt::to_odd_double(value.integer);
  if (m.integral) v = cvt::to_integral(v, m.round);
  if (m.sat) v = v > 0 ? std::min(v, 1.0) : 0.0;  // NaN and -0 give +0
  if (m.relu && !(v > 0) && v == v) v = 0;
  return float_code(m, v);
}

uint64_t result(const Modifiers& m, const Value& v) {
  switch (m.to) {
    case Type::u8:
      return uint8_t(integer_result<uint8_t>(m, v));
    case Type::s8:
      return integer_result<int8_t>(m, v);
    case Type::u16:
      return uint16_t(integer_result<uint16_t>(m, v));
    case Type::s16:
      return integer_result<int16_t>(m, v);
    case Type::u32:
      return uint32_t(integer_result<uint32_t>(m, v));
    case Type::s32:
      return integer_result<int32_t>(m, v);
    case Type::u64:
      return integer_result<uint64_t>(m, v);
    case Type::s64:
      return integer_result<int64_t>(m, v);
    default:
      return float_result(m, v);
  }
}

void cvt_general(Warp& w, const Instr& i) {
  const Modifiers m = cvt::unpack(i.aux);
  const bool from64 = m.from_wide || bits_of(m.from) == 64, to64 = m.to_wide || bits_of(m.to) == 64;
  uint64_t cells[kLanes];
  if (from64) {
    const auto* a = w.source<uint64_t>(i.op[1]);
    for_lanes(w.active, [&](unsigned l) { cells[l] = a[l]; });
  } else {
    const auto* a = w.source<uint32_t>(i.op[1]);
    for_lanes(w.active, [&](unsigned l) { cells[l] = a[l]; });
  }
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    const unsigned l = unsigned(std::countr_zero(lanes));
    cells[l] = result(m, read(m.from, cells[l], m.ftz));
  }
  if (to64) {
    auto* d = w.target<uint64_t>(i.op[0]);
    for_lanes(w.active, [&](unsigned l) { d[l] = cells[l]; });
  } else {
    // 8- and 16-bit values are zero-extended in a 16-bit register's row. In a 32-bit register signed results
    // are sign-extended.
    auto* d = w.target<uint32_t>(i.op[0]);
    const uint32_t keep = bits_of(i.op[0].type) == 16  ? 0xffff
                          : bits_of(i.op[0].type) == 8 ? 0xff
                                                       : 0xffffffff;
    for_lanes(w.active, [&](unsigned l) { d[l] = uint32_t(cells[l]) & keep; });
  }
}

// Only the lower bytes of an integer, which may be the only ones written (see Luggage in move.cpp).
template <class D, class A>
void low_part(Warp& w, const Instr& i) {
  const auto* a = w.source_bytes<A>(i.op[1], (1u << sizeof(D)) - 1);
  auto* d = w.target<D>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) { d[l] = D(a[l]); });
}

// The pairs that compilers emit most, without modifiers other than the default rounding.
Body fast_body(const Modifiers& m, Type d_register) {
  if (m.ftz || m.sat || m.relu || m.satfinite || m.from_wide || m.to_wide) return nullptr;
  const auto is = [&](Type to, Type from) { return m.to == to && m.from == from; };
  const bool nearest = m.round == FormatRound::nearest_even && !m.integral;
  const bool toward_zero = m.round == FormatRound::to_zero && m.integral;
  if (is(Type::s64, Type::s32)) return map1<int64_t, int32_t>([](int32_t a) { return int64_t(a); });
  if (is(Type::u64, Type::u32)) return map1<uint64_t, uint32_t>([](uint32_t a) { return uint64_t(a); });
  if (is(Type::u32, Type::u64)) return low_part<uint32_t, uint64_t>;
  if (is(Type::s32, Type::s64)) return low_part<uint32_t, uint64_t>;
  if (is(Type::u32, Type::u16)) return map1<uint32_t, uint16_t>([](uint16_t a) { return uint32_t(a); });
  if (is(Type::s32, Type::s16)) return map1<int32_t, int16_t>([](int16_t a) { return int32_t(a); });
  if (is(Type::u64, Type::u16)) return map1<uint64_t, uint16_t>([](uint16_t a) { return uint64_t(a); });
  if (is(Type::u16, Type::u32) && bits_of(d_register) == 16) return low_part<uint16_t, uint32_t>;
  if (is(Type::u16, Type::u64) && bits_of(d_register) == 16) return low_part<uint16_t, uint64_t>;
  if (is(Type::f32, Type::bf16))
    return map1<uint32_t, uint16_t>([](uint16_t a) { return uint32_t(a) << 16; });
  if (is(Type::f32, Type::f16))
    return map1<float, uint16_t>([](uint16_t a) { return canonical(HalfValue::to_float(a)); });
  if (is(Type::f16, Type::f32) && nearest && bits_of(d_register) == 16)
    return map1<uint16_t, float>([](float a) { return half_from_float(a); });
  if (is(Type::f32, Type::s32) && nearest) return map1<float, int32_t>([](int32_t a) { return float(a); });
  if (is(Type::f32, Type::u32) && nearest) return map1<float, uint32_t>([](uint32_t a) { return float(a); });
  if (is(Type::s32, Type::f32) && toward_zero)
    return map1<int32_t, float>(
        [](float a) { return cvt::to_integer<int32_t>(std::trunc(double(a)), false); });
  return nullptr;
}

}  // namespace

Body bind_cvt_tf32(Instr& i, const Source& s) {
  if (s.has("rna")) {
    if (s.has("relu")) fail("cvt.rna.tf32 does not take .relu");
    return with_flag(s.has("satfinite"), [](auto satfinite) {
      return map1<uint32_t>([](uint32_t a) { return tf32_away(a, decltype(satfinite)::value); });
    });
  }
  i.aux = cvt::pack(cvt::modifiers_of(i, s));
  return cvt_general;
}

namespace {

bool is_signed(Type t) { return t == Type::s8 || t == Type::s16 || t == Type::s32 || t == Type::s64; }

// Whether every value of integer type `from` is one of `to`.
bool contains(Type to, Type from) {
  if (is_signed(from)) return is_signed(to) && bits_of(from) <= bits_of(to);
  return is_signed(to) ? bits_of(from) < bits_of(to) : bits_of(from) <= bits_of(to);
}

// The legal modifiers for the types: the manual's prose, and where that is silent ptxas 13.0.
void check_modifiers(const Modifiers& m, const Source& s) {
  const bool to_float = is_float(m.to), from_float = is_float(m.from);
  const bool brain = m.to == Type::bf16 || m.from == Type::bf16;
  const bool single = m.to == Type::f32 || m.from == Type::f32;
  const bool rounds = s.has("rn") || s.has("rz") || s.has("rm") || s.has("rp");
  const auto refuse = [&](std::string_view what) {
    fail("{} cvt to .{} from .{}", what, name_of(m.to), name_of(m.from));
  };
  if (m.integral && (!from_float || (to_float && m.to != m.from))) refuse("integer rounding is not for");
  if (from_float && !to_float && !m.integral) refuse(".rni, .rzi, .rmi or .rpi is needed for");
  if (rounds && (!to_float || m.to == m.from)) refuse("a rounding modifier is not for");
  if (to_float && m.to != m.from) {
    const bool narrows = !from_float || bits_of(m.to) < bits_of(m.from);
    const bool to_same_size = from_float && bits_of(m.to) == bits_of(m.from);  // f16 and bf16
    if (narrows && !rounds) refuse("a rounding modifier is needed for");
    if (!narrows && !to_same_size && m.from != Type::bf16 && rounds) refuse("a rounding modifier is not for");
  }
  if (m.sat && (brain || (!to_float && !from_float && contains(m.to, m.from)))) refuse(".sat is not for");
  if (s.has("ftz") && !(single && (to_float || from_float))) refuse(".ftz is not for");
  if (m.relu || m.satfinite) {
    const bool fits = (m.to == Type::f16 || m.to == Type::bf16) && m.from == Type::f32 &&
                      (s.has("rn") || s.has("rz")) && !m.sat && !s.has("ftz");
    if (!fits) refuse(".relu and .satfinite with these modifiers are not for");
  }
}

}  // namespace

Body bind_cvt(Instr& i, const Source& s) {
  const Modifiers m = cvt::modifiers_of(i, s);
  check_modifiers(m, s);
  if (Body body = fast_body(m, i.op[0].type)) return body;
  i.aux = cvt::pack(m);
  return cvt_general;
}

}  // namespace fp4lab::emu
