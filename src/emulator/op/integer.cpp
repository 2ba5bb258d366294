// Integer arithmetic (PTX ISA 9.7.1): wraps modulo 2^n unless .sat says otherwise.
#include <limits>

#include "emulator/isa/opcode.h"
#include "emulator/op/map.h"

namespace fp4lab::emu {

namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>>;

// Wrapping arithmetic is done on at least 32 unsigned bits: signed overflow and promoted uint16_t products
// are undefined in C++.
template <class T>
using Wrap = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
T add(T a, T b) {
  return T(Wrap<T>(a) + Wrap<T>(b));
}
template <class T>
T sub(T a, T b) {
  return T(Wrap<T>(a) - Wrap<T>(b));
}
template <class T>
T mul_lo(T a, T b) {
  return T(Wrap<T>(a) * Wrap<T>(b));
}
template <class T>
T mul_hi(T a, T b) {
  return T((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T)));
}
template <class T>
Wide<T> mul_wide(T a, T b) {
  return Wide<T>(a) * Wide<T>(b);
}

int32_t saturate(int64_t v) {
  constexpr int64_t lo = std::numeric_limits<int32_t>::min(), hi = std::numeric_limits<int32_t>::max();
  return int32_t(v < lo ? lo : v > hi ? hi : v);
}

// Division by zero is unspecified in PTX; on an H200 all bits of quotient and remainder are ones. MIN / -1
// wraps.
template <class T>
T divide(T a, T b) {
  if (b == 0) return T(~T(0));
  if (std::is_signed_v<T> && b == T(-1)) return sub<T>(0, a);
  return T(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0) return T(~T(0));
  if (std::is_signed_v<T> && b == T(-1)) return 0;
  return T(a % b);
}

// mul24: 24-bit operands, sign-extended for .s32; .lo gives bits 31:0 of the 48-bit product, .hi bits 47:16.
template <class T>
int64_t product24(T a, T b) {
  if constexpr (std::is_signed_v<T>)
    return (int64_t(a << 8) >> 8) * (int64_t(b << 8) >> 8);
  else
    return int64_t(uint64_t(a & 0xffffff) * uint64_t(b & 0xffffff));
}

template <class T>
T sign_flip(T a) {
  return sub<T>(0, a);
}

}  // namespace

Body bind_add_int(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map2<T>([](T a, T b) { return add(a, b); });
  });
}
Body bind_sub_int(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map2<T>([](T a, T b) { return sub(a, b); });
  });
}
Body bind_add_sat(Instr&, const Source&) {
  return map2<int32_t>([](int32_t a, int32_t b) { return saturate(int64_t(a) + b); });
}
Body bind_sub_sat(Instr&, const Source&) {
  return map2<int32_t>([](int32_t a, int32_t b) { return saturate(int64_t(a) - b); });
}

Body bind_mul_int(Instr&, const Source& s) {
  return with_integer(s.type(), [&](auto zero) {
    using T = decltype(zero);
    if (s.has("lo")) return map2<T>([](T a, T b) { return mul_lo(a, b); });
    return map2<T>([](T a, T b) { return mul_hi(a, b); });
  });
}
Body bind_mul_wide(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) -> Body {
    using T = decltype(zero);
    if constexpr (sizeof(T) < 8)
      return map2<Wide<T>, T>([](T a, T b) { return mul_wide(a, b); });
    else
      no_such_type(Type::u64);
  });
}
Body bind_mad_int(Instr&, const Source& s) {
  return with_integer(s.type(), [&](auto zero) {
    using T = decltype(zero);
    if (s.has("lo")) return map3<T>([](T a, T b, T c) { return add(mul_lo(a, b), c); });
    return map3<T>([](T a, T b, T c) { return add(mul_hi(a, b), c); });
  });
}
Body bind_mad_wide(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) -> Body {
    using T = decltype(zero);
    if constexpr (sizeof(T) < 8)
      return map3<Wide<T>, T, T, Wide<T>>([](T a, T b, Wide<T> c) { return add(mul_wide(a, b), c); });
    else
      no_such_type(Type::u64);
  });
}
Body bind_mad_sat(Instr&, const Source&) {
  return map3<int32_t>([](int32_t a, int32_t b, int32_t c) { return saturate(int64_t(mul_hi(a, b)) + c); });
}

Body bind_mul24(Instr&, const Source& s) {
  return with_integer(s.type(), [&](auto zero) -> Body {
    using T = decltype(zero);
    if (s.has("lo")) return map2<T>([](T a, T b) { return T(product24(a, b)); });
    return map2<T>([](T a, T b) { return T(product24(a, b) >> 16); });
  });
}
Body bind_mad24(Instr&, const Source& s) {
  return with_integer(s.type(), [&](auto zero) -> Body {
    using T = decltype(zero);
    if (s.has("lo")) return map3<T>([](T a, T b, T c) { return add(T(product24(a, b)), c); });
    return map3<T>([](T a, T b, T c) { return add(T(product24(a, b) >> 16), c); });
  });
}
Body bind_mad24_sat(Instr&, const Source&) {
  return map3<int32_t>(
      [](int32_t a, int32_t b, int32_t c) { return saturate((product24(a, b) >> 16) + int64_t(c)); });
}

Body bind_sad(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map3<T>([](T a, T b, T c) { return add(c, a < b ? sub(b, a) : sub(a, b)); });
  });
}
Body bind_div_int(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map2<T>([](T a, T b) { return divide(a, b); });
  });
}
Body bind_rem_int(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map2<T>([](T a, T b) { return remainder(a, b); });
  });
}
Body bind_abs_int(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map1<T>([](T a) { return a < 0 ? sign_flip(a) : a; });
  });
}
Body bind_neg_int(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map1<T>([](T a) { return sign_flip(a); });
  });
}

Body bind_min_int(Instr&, const Source& s) {
  if (s.has("relu")) return map2<int32_t>([](int32_t a, int32_t b) { return std::max(std::min(a, b), 0); });
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map2<T>([](T a, T b) { return a < b ? a : b; });
  });
}
Body bind_max_int(Instr&, const Source& s) {
  if (s.has("relu")) return map2<int32_t>([](int32_t a, int32_t b) { return std::max(std::max(a, b), 0); });
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map2<T>([](T a, T b) { return a < b ? b : a; });
  });
}

}  // namespace fp4lab::emu
