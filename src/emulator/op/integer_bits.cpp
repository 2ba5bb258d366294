// Integer instructions that count, find and move bits (PTX ISA 9.7.1.14 to 9.7.1.22).
#include <algorithm>
#include <initializer_list>
#include <limits>

#include "emulator/isa/opcode.h"
#include "emulator/op/map.h"

namespace fp4lab::emu {

namespace {

template <class T>
constexpr unsigned kBits = 8 * sizeof(T);

template <class T>
T reverse(T a) {
  T r = 0;
  for (unsigned i = 0; i < kBits<T>; ++i, a >>= 1) r = T(r << 1) | (a & 1);
  return r;
}

// Position of the most significant bit that differs from the sign (unsigned: that is set); all ones if there
// is none.
template <class T>
uint32_t find_top(T a) {
  using U = std::make_unsigned_t<T>;
  const U u = std::is_signed_v<T> && a < 0 ? U(~U(a)) : U(a);
  return u == 0 ? 0xffffffffu : kBits<T> - 1 - uint32_t(std::countl_zero(u));
}
// .shiftamt: instead, the left shift that moves that bit to the top.
template <class T>
uint32_t find_shift(T a) {
  const uint32_t top = find_top(a);
  return top == 0xffffffffu ? top : kBits<T> - 1 - top;
}

// The manual takes start and length of bfe and bfi modulo 256. On an H200 the 32-bit forms, one machine
// instruction, do so; the 64-bit forms, several instructions, use them unreduced.
template <class T>
unsigned position(uint32_t n) {
  return sizeof(T) == 8 ? n : n & 0xff;
}

// bfe: `length` bits of a from `start`. Bits beyond the top are copies of the sign (zeros for unsigned
// types); for a field that extends past the top the sign is the msb of a.
template <class T>
T extract(T a, uint32_t start, uint32_t length) {
  using U = std::make_unsigned_t<T>;
  const unsigned pos = position<T>(start), len = position<T>(length);
  if (len == 0) return 0;
  const T field = pos < kBits<T> ? T(a >> pos) : T(a < 0 ? -1 : 0);  // >> of a signed value copies its sign
  if (len >= kBits<T>) return field;
  return T(T(U(field) << (kBits<T> - len)) >> (kBits<T> - len));
}

// bfi: b with `length` bits from `start` replaced by the low bits of a.
template <class T>
T insert(T a, T b, uint32_t start, uint32_t length) {
  const unsigned pos = position<T>(start), len = position<T>(length);
  if (len == 0 || pos >= kBits<T>) return b;
  const T ones = len >= kBits<T> ? T(~T(0)) : T((T(1) << len) - 1);
  return T((b & ~T(ones << pos)) | T(T(a & ones) << pos));
}

// fns: the position of the |offset|-th set bit of mask, counted from `base` upwards for a positive offset,
// downwards for a negative one; offset 0 asks for `base` itself. All ones if there is none.
uint32_t find_nth_set(uint32_t mask, uint32_t base, int32_t offset) {
  if (offset == std::numeric_limits<int32_t>::min()) return 0;  // has no magnitude; seen on an H200
  if (offset == 0) return base < 32 && (mask >> base & 1) ? base : 0xffffffffu;
  const int step = offset > 0 ? 1 : -1;
  int64_t count = offset > 0 ? int64_t(offset) - 1 : -int64_t(offset) - 1;
  for (int64_t pos = base; pos >= 0 && pos < 32; pos += step)
    if (mask >> pos & 1 && count-- == 0) return uint32_t(pos);
  return 0xffffffffu;
}

// A count of bits that .clamp limits to 32 and .wrap takes modulo 32.
template <bool kWrap>
unsigned limited(uint32_t n) {
  return kWrap ? n & 31 : std::min(n, 32u);
}

// szext: sign- or zero-extends from the nth bit upwards.
template <class T, bool kWrap>
T extend(T a, uint32_t n) {
  const unsigned bits = limited<kWrap>(n);
  if (bits == 0) return 0;
  if (bits >= 32) return a;
  const uint32_t low = uint32_t(a) & ((1u << bits) - 1);
  if constexpr (std::is_signed_v<T>) return int32_t(low << (32 - bits)) >> (32 - bits);
  return T(low);
}

// ptxas rejects constants outside this range.
void check_field(const Instr& in, std::initializer_list<unsigned> slots) {
  for (const unsigned slot : slots)
    if (const Operand& n = in.op[slot]; n.immediate && uint64_t(n.displacement) > 255)
      fail("a field's position or length of {}: must be 0 to 255", int32_t(n.displacement));
}

}  // namespace

Body bind_popc(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map1<uint32_t, T>([](T a) { return uint32_t(std::popcount(std::make_unsigned_t<T>(a))); });
  });
}
Body bind_clz(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map1<uint32_t, T>([](T a) { return uint32_t(std::countl_zero(std::make_unsigned_t<T>(a))); });
  });
}
Body bind_bfind(Instr&, const Source& s) {
  return with_integer(s.type(), [&](auto zero) {
    using T = decltype(zero);
    if (s.has("shiftamt")) return map1<uint32_t, T>([](T a) { return find_shift(a); });
    return map1<uint32_t, T>([](T a) { return find_top(a); });
  });
}
Body bind_brev(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map1<T>([](T a) { return T(reverse(std::make_unsigned_t<T>(a))); });
  });
}
Body bind_fns(Instr&, const Source&) {
  return map3<uint32_t, uint32_t, uint32_t, int32_t>(
      [](uint32_t mask, uint32_t base, int32_t offset) { return find_nth_set(mask, base, offset); });
}
Body bind_bfe(Instr& in, const Source& s) {
  check_field(in, {2, 3});
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map3<T, T, uint32_t, uint32_t>([](T a, uint32_t b, uint32_t c) { return extract(a, b, c); });
  });
}
Body bind_bfi(Instr& in, const Source& s) {
  check_field(in, {3, 4});
  return with_bits(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map4<T, T, T, uint32_t, uint32_t>(
        [](T a, T b, uint32_t c, uint32_t d) { return insert(a, b, c, d); });
  });
}
Body bind_szext(Instr&, const Source& s) {
  return with_flag(s.has("wrap"), [&](auto wrap) -> Body {
    constexpr bool kWrap = decltype(wrap)::value;
    if (s.type() == Type::s32)
      return map2<int32_t, int32_t, uint32_t>(
          [](int32_t a, uint32_t b) { return extend<int32_t, kWrap>(a, b); });
    return map2<uint32_t>([](uint32_t a, uint32_t b) { return extend<uint32_t, kWrap>(a, b); });
  });
}
// bmsk: b ones from bit a upwards.
Body bind_bmsk(Instr&, const Source& s) {
  return with_flag(s.has("wrap"), [](auto wrap) {
    constexpr bool kWrap = decltype(wrap)::value;
    return map2<uint32_t>([](uint32_t a, uint32_t b) {
      const uint64_t ones = (uint64_t(1) << limited<kWrap>(b)) - 1;
      return uint32_t(ones << limited<kWrap>(a));
    });
  });
}

}  // namespace fp4lab::emu
