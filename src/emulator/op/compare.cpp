// setp, set, selp and slct (PTX ISA 9.7.6 and 9.7.7).
#include <array>
#include <type_traits>

#include "emulator/isa/opcode.h"
#include "emulator/op/half_value.h"
#include "emulator/op/rounding.h"

namespace fp4lab::emu {

namespace {

enum class Cmp : uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

struct CmpName {
  std::string_view name;
  Cmp cmp;
};
constexpr CmpName kNames[] = {
    {"eq", Cmp::eq},   {"ne", Cmp::ne},   {"lt", Cmp::lt},   {"le", Cmp::le},   {"gt", Cmp::gt},
    {"ge", Cmp::ge},   {"lo", Cmp::lt},   {"ls", Cmp::le},   {"hi", Cmp::gt},   {"hs", Cmp::ge},
    {"equ", Cmp::equ}, {"neu", Cmp::neu}, {"ltu", Cmp::ltu}, {"leu", Cmp::leu}, {"gtu", Cmp::gtu},
    {"geu", Cmp::geu}, {"num", Cmp::num}, {"nan", Cmp::nan},
};

// If an operand is NaN, ordered comparisons are false and unordered ones true; for integers the two are the
// same.
template <Cmp kCmp, class T>
bool holds(T a, T b) {
  const bool unordered = a != a || b != b;
  switch (kCmp) {
    case Cmp::eq:
      return a == b;
    case Cmp::ne:
      return a != b && !unordered;
    case Cmp::lt:
      return a < b;
    case Cmp::le:
      return a <= b;
    case Cmp::gt:
      return a > b;
    case Cmp::ge:
      return a >= b;
    case Cmp::equ:
      return a == b || unordered;
    case Cmp::neu:
      return a != b;
    case Cmp::ltu:
      return !(a >= b);
    case Cmp::leu:
      return !(a > b);
    case Cmp::gtu:
      return !(a <= b);
    case Cmp::geu:
      return !(a < b);
    case Cmp::num:
      return !unordered;
    case Cmp::nan:
      return unordered;
  }
}

// Converts a cell to the value that is compared.
template <class T>
struct Plain {
  using Cell = LaneOf<T>;
  static T value(Cell c) { return from_row<T>(c); }
};
struct Flushed {
  using Cell = uint32_t;
  static float value(Cell c) { return flush(std::bit_cast<float>(c)); }
};
template <class H, bool kFtz, unsigned kShift>
struct HalfOf {
  using Cell = uint32_t;
  static float value(Cell c) {
    const uint16_t h = uint16_t(c >> kShift);
    return H::to_float(kFtz ? H::Bits::flush(h) : h);
  }
};

// The mask of active lanes in which the comparison of operands `first` and `first + 1` is true.
template <Cmp kCmp, class V>
uint32_t compare(Warp& w, const Instr& i, unsigned first) {
  const auto* a = w.source<typename V::Cell>(i.op[first]);
  const auto* b = w.source<typename V::Cell>(i.op[first + 1]);
  uint32_t mask = 0;
  for_lanes(w.active,
            [&](unsigned l) { mask |= uint32_t(holds<kCmp>(V::value(a[l]), V::value(b[l]))) << l; });
  return mask;
}

enum class Combine : uint8_t { none, with_and, with_or, with_xor };

Combine combine_of(const Source& s) {
  return s.has("and")   ? Combine::with_and
         : s.has("or")  ? Combine::with_or
         : s.has("xor") ? Combine::with_xor
                        : Combine::none;
}

// Combines a comparison's result with predicate operand c by the boolean operator.
uint32_t combined(Warp& w, const Instr& i, Combine how, uint32_t t, unsigned c) {
  switch (how) {
    case Combine::none:
      return t;
    case Combine::with_and:
      return t & w.mask(i.op[c]);
    case Combine::with_or:
      return t | w.mask(i.op[c]);
    case Combine::with_xor:
      return t ^ w.mask(i.op[c]);
  }
  return t;
}

// setp d|q, a, b, c: q gets the complement of the comparison, combined in the same way. For the x2 types d is
// the low half's result and q the high half's.
template <Cmp kCmp, class V, class High = void>
void setp(Warp& w, const Instr& i) {
  const Combine how = Combine(i.aux);
  const uint32_t t = compare<kCmp, V>(w, i, 2);
  uint32_t u = ~t;
  if constexpr (!std::is_void_v<High>) u = compare<kCmp, High>(w, i, 2);
  const uint32_t p = combined(w, i, how, t, 4), q = i.op[1] ? combined(w, i, how, u, 4) : 0;
  w.set_mask(i.op[0], p);
  w.set_mask(i.op[1], q);
}

// set d, a, b, c: Instr::aux holds the value written for true and the boolean operator.
template <Cmp kCmp, class V, class High = void>
void set(Warp& w, const Instr& i) {
  const Combine how = Combine(i.aux >> 32);
  const uint32_t yes = uint32_t(i.aux);
  const uint32_t t = combined(w, i, how, compare<kCmp, V>(w, i, 1), 3);
  if constexpr (std::is_void_v<High>) {
    auto* d = w.target<uint32_t>(i.op[0]);
    for_lanes(w.active, [&](unsigned l) { d[l] = t >> l & 1 ? yes : 0; });
  } else {
    const uint32_t u = combined(w, i, how, compare<kCmp, High>(w, i, 1), 3);
    auto* d = w.target<uint32_t>(i.op[0]);
    for_lanes(w.active, [&](unsigned l) {
      d[l] = (t >> l & 1 ? yes & 0xffff : 0) | (u >> l & 1 ? yes & 0xffff0000u : 0);
    });
  }
}

// make(integral_constant<Cmp>) for the comparison among the modifiers; integers have no unordered ones.
template <class V, class F>
Body with_cmp(const Source& s, F make) {
  constexpr bool kFloating = std::is_floating_point_v<decltype(V::value({}))>;
  Cmp cmp = Cmp::eq;
  for (const CmpName& n : kNames)
    if (s.has(n.name)) cmp = n.cmp;
  Body body = nullptr;
  const auto one = [&]<size_t kIndex>() {
    if constexpr (kFloating || Cmp(kIndex) <= Cmp::ge)
      if (static_cast<size_t>(cmp) == kIndex) body = make(std::integral_constant<Cmp, Cmp(kIndex)>{});
  };
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) { (one.template operator()<kIndex>(), ...); }
  (std::make_index_sequence<static_cast<size_t>(Cmp::nan) + 1>{});
  return body;
}

// make(V{}, High or void*) for the type that is compared.
template <class F>
Body with_values(Type t, bool ftz, F make) {
  const auto one = [&](auto v) { return make(v, static_cast<void*>(nullptr)); };
  const auto halves = [&](auto h, auto flag) {
    using H = decltype(h);
    constexpr bool kFtz = decltype(flag)::value;
    return bits_of(t) == 32 ? make(HalfOf<H, kFtz, 0>{}, static_cast<HalfOf<H, kFtz, 16>*>(nullptr))
                            : one(HalfOf<H, kFtz, 0>{});
  };
  switch (t) {
    case Type::f32:
      return ftz ? one(Flushed{}) : one(Plain<float>{});
    case Type::f64:
      return one(Plain<double>{});
    case Type::f16:
    case Type::f16x2:
      return with_flag(ftz, [&](auto flag) { return halves(HalfValue{}, flag); });
    case Type::bf16:
    case Type::bf16x2:
      return halves(BfloatValue{}, std::false_type{});
    default:
      return with_integer(t, [&](auto zero) { return one(Plain<decltype(zero)>{}); });
  }
}

// What the table cannot express: the legal pairs of comparison and type.
void check(const Source& s, Type t) {
  const bool floating = t == Type::f32 || t == Type::f64 || t == Type::f16 || t == Type::f16x2 ||
                        t == Type::bf16 || t == Type::bf16x2;
  const bool untyped = t == Type::b16 || t == Type::b32 || t == Type::b64;
  const bool is_signed = t == Type::s16 || t == Type::s32 || t == Type::s64;
  for (const std::string_view word : s.tokens) {
    const bool for_unsigned = word == "lo" || word == "ls" || word == "hi" || word == "hs";
    const bool for_floats = word == "equ" || word == "neu" || word == "ltu" || word == "leu" ||
                            word == "gtu" || word == "geu" || word == "num" || word == "nan";
    const bool order = word == "lt" || word == "le" || word == "gt" || word == "ge";
    if ((for_unsigned && (floating || untyped || is_signed)) || (for_floats && !floating) ||
        (order && untyped))
      fail("comparison .{} is not for type .{}", word, name_of(t));
  }
  if (s.has("ftz") && t != Type::f32 && t != Type::f16 && t != Type::f16x2)
    fail(".ftz is not for type .{}", name_of(t));
}

}  // namespace

Body bind_setp(Instr& i, const Source& s) {
  check(s, s.type());
  if (i.op[1].kind == Operand::Kind::predicate && (s.type() == Type::f16 || s.type() == Type::bf16))
    fail("setp of .{} writes one predicate", name_of(s.type()));
  i.aux = uint64_t(combine_of(s));
  return with_values(s.type(), s.has("ftz"), [&](auto v, auto* high) {
    return with_cmp<decltype(v)>(s, [](auto cmp) -> Body {
      return setp<decltype(cmp)::value, decltype(v), std::remove_pointer_t<decltype(high)>>;
    });
  });
}

namespace {

// The destination types of `set` for a source type.
void check_set(const Source& s) {
  const Type d = s.type(0), a = s.type(1);
  const bool pair = a == Type::f16x2 || a == Type::bf16x2, half = a == Type::f16 || a == Type::bf16;
  const bool fits = d == Type::u32 || d == Type::s32   ? true
                    : d == Type::u16 || d == Type::s16 ? half
                    : d == Type::f32                   ? !half && !pair
                    : d == Type::f16                   ? !pair && a != Type::bf16
                    : d == Type::bf16                  ? !pair
                                                       : d == a;
  if (!fits) fail("set cannot write .{} for a comparison of .{}", name_of(d), name_of(a));
  if (s.has("ftz") && d == Type::bf16) fail(".ftz is not for type .bf16");
}

}  // namespace

Body bind_set(Instr& i, const Source& s) {
  check(s, s.type(1));
  check_set(s);
  const Type d = s.type(0);
  uint32_t yes = 0xffffffff;
  if (d == Type::f32) yes = 0x3f800000;
  if (d == Type::f16 || d == Type::f16x2) yes = 0x3c003c00;
  if (d == Type::bf16 || d == Type::bf16x2) yes = 0x3f803f80;
  if (bits_of(d) == 16) yes &= 0xffff;
  i.aux = yes | uint64_t(combine_of(s)) << 32;
  return with_values(s.type(1), s.has("ftz"), [&](auto v, auto* high) {
    return with_cmp<decltype(v)>(s, [](auto cmp) -> Body {
      return set<decltype(cmp)::value, decltype(v), std::remove_pointer_t<decltype(high)>>;
    });
  });
}

Body bind_setp_bool(Instr& i, const Source& s) { return bind_setp(i, s); }
Body bind_set_bool(Instr& i, const Source& s) { return bind_set(i, s); }

Body bind_selp(Instr&, const Source& s) {
  return with_bits(s.type(), [](auto zero) -> Body {
    using T = decltype(zero);
    return [](Warp& w, const Instr& i) {
      // Expands a lane's mask bit to the row's width, so that the loop becomes a vector blend.
      static constexpr auto kBit = [] {
        std::array<LaneOf<T>, kLanes> bit{};
        for (unsigned l = 0; l < kLanes; ++l) bit[l] = LaneOf<T>(1) << l;
        return bit;
      }();
      const auto* a = w.source<T>(i.op[1]);
      const auto* b = w.source<T>(i.op[2]);
      const uint32_t p = w.mask(i.op[3]);
      auto* d = w.target<T>(i.op[0]);
      for_lanes(w.active, [&](unsigned l) {
        const auto yes = a[l], no = b[l];
        d[l] = (p & kBit[l]) != 0 ? yes : no;
      });
    };
  });
}

// c >= 0 selects a; a NaN selects b.
Body bind_slct(Instr&, const Source& s) {
  return with_bits(s.type(0), [&](auto zero) {
    using T = decltype(zero);
    if (s.type(1) == Type::s32)
      return map3<T, T, T, int32_t>([](T a, T b, int32_t c) { return c >= 0 ? a : b; });
    if (s.has("ftz")) return map3<T, T, T, float>([](T a, T b, float c) { return flush(c) >= 0 ? a : b; });
    return map3<T, T, T, float>([](T a, T b, float c) { return c >= 0 ? a : b; });
  });
}

Body bind_slct_float(Instr& i, const Source& s) { return bind_slct(i, s); }

}  // namespace fp4lab::emu
