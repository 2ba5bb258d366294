// Integer instructions on pairs of 16-bit and groups of 8-bit values (PTX ISA 9.7.1.1, 9.7.1.12, 9.7.1.23).
#include <algorithm>

#include "emulator/isa/opcode.h"
#include "emulator/op/map.h"

namespace fp4lab::emu {

namespace {

// Applies f to the low and to the high 16 bits, as values of T.
template <class T, class F>
uint32_t per_half(uint32_t a, uint32_t b, F f) {
  const uint16_t lo = uint16_t(f(T(a), T(b))), hi = uint16_t(f(T(a >> 16), T(b >> 16)));
  return lo | uint32_t(hi) << 16;
}

template <class F>
Body map_halves(bool is_signed, F) {
  if (is_signed) return map2<uint32_t>([](uint32_t a, uint32_t b) { return per_half<int16_t>(a, b, F{}); });
  return map2<uint32_t>([](uint32_t a, uint32_t b) { return per_half<uint16_t>(a, b, F{}); });
}

// The nth byte or 16-bit half of a word as an int64, optionally sign-extended.
template <bool kSigned>
int64_t byte(uint32_t word, unsigned n) {
  const uint8_t b = uint8_t(word >> (8 * n));
  return kSigned ? int64_t(int8_t(b)) : int64_t(b);
}
template <bool kSigned>
int64_t half(uint32_t word, unsigned n) {
  const uint16_t h = uint16_t(word >> (16 * n));
  return kSigned ? int64_t(int16_t(h)) : int64_t(h);
}

}  // namespace

Body bind_add_x2(Instr&, const Source& s) {
  return map_halves(s.type() == Type::s16x2, [](auto a, auto b) { return a + b; });
}
Body bind_min_x2(Instr&, const Source& s) {
  if (s.has("relu")) return map_halves(true, [](auto a, auto b) { return std::max<int>(std::min(a, b), 0); });
  return map_halves(s.type() == Type::s16x2, [](auto a, auto b) { return std::min(a, b); });
}
Body bind_max_x2(Instr&, const Source& s) {
  if (s.has("relu")) return map_halves(true, [](auto a, auto b) { return std::max<int>(std::max(a, b), 0); });
  return map_halves(s.type() == Type::s16x2, [](auto a, auto b) { return std::max(a, b); });
}

Body bind_dp4a(Instr&, const Source& s) {
  return with_flag(s.type(0) == Type::s32, [&](auto sa) {
    return with_flag(s.type(1) == Type::s32, [](auto sb) {
      constexpr bool kA = decltype(sa)::value, kB = decltype(sb)::value;
      return map3<uint32_t>([](uint32_t a, uint32_t b, uint32_t c) {
        int64_t d = c;
        for (unsigned n = 0; n < 4; ++n) d += byte<kA>(a, n) * byte<kB>(b, n);
        return uint32_t(d);
      });
    });
  });
}

// .lo takes the two low bytes of b, .hi the two high ones; a holds two 16-bit values.
Body bind_dp2a(Instr&, const Source& s) {
  return with_flag(s.type(0) == Type::s32, [&](auto sa) {
    return with_flag(s.type(1) == Type::s32, [&](auto sb) {
      return with_flag(s.has("hi"), [](auto high) {
        constexpr bool kA = decltype(sa)::value, kB = decltype(sb)::value;
        constexpr unsigned kFirst = decltype(high)::value ? 2 : 0;
        return map3<uint32_t>([](uint32_t a, uint32_t b, uint32_t c) {
          int64_t d = c;
          for (unsigned n = 0; n < 2; ++n) d += half<kA>(a, n) * byte<kB>(b, kFirst + n);
          return uint32_t(d);
        });
      });
    });
  });
}

}  // namespace fp4lab::emu
