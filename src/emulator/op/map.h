// Maps over lanes: turn `d = a + b` on C++ values into an instruction's body.
//
//   return with_integer(s.type(), [](auto zero) {
//     using T = decltype(zero);
//     return map2<T>([](T a, T b) { return T(a + b); });
//   });
//
// mapN<D, A, ...>(f) is a body for operands `d, a, ...`: every active lane's d becomes f(a, ...). The
// functions are stateless: parameters are template parameters, so that the loop over lanes is tight.
// Rounding, flushing and saturation are in float_format.h and rounding.h.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include "emulator/core/warp.h"
#include "fp4lab/error.h"

namespace fp4lab::emu {

// 16-bit floats and packed pairs are passed as bits.
struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

// Converts between a row's cell and a value of T: 8- and 16-bit values are zero-extended to 32 bits.
template <class T>
constexpr T from_row(LaneOf<T> cell) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(cell);
  else if constexpr (sizeof(T) == 2)
    return std::bit_cast<T>(static_cast<uint16_t>(cell));
  else
    return std::bit_cast<T>(cell);
}
template <class T>
constexpr LaneOf<T> to_row(T value) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<std::make_unsigned_t<T>>(value);
  else if constexpr (sizeof(T) == 2)
    return std::bit_cast<uint16_t>(value);
  else
    return std::bit_cast<LaneOf<T>>(value);
}

template <class D, class A = D, class F>
Body map1(F) {
  return [](Warp& w, const Instr& i) {
    const auto* a = w.source<A>(i.op[1]);
    auto* d = w.target<D>(i.op[0]);
    for_lanes(w.active, [&](unsigned l) { d[l] = to_row<D>(F{}(from_row<A>(a[l]))); });
  };
}

template <class D, class A = D, class B = A, class F>
Body map2(F) {
  return [](Warp& w, const Instr& i) {
    const auto* a = w.source<A>(i.op[1]);
    const auto* b = w.source<B>(i.op[2]);
    auto* d = w.target<D>(i.op[0]);
    for_lanes(w.active, [&](unsigned l) { d[l] = to_row<D>(F{}(from_row<A>(a[l]), from_row<B>(b[l]))); });
  };
}

template <class D, class A = D, class B = A, class C = B, class F>
Body map3(F) {
  return [](Warp& w, const Instr& i) {
    const auto* a = w.source<A>(i.op[1]);
    const auto* b = w.source<B>(i.op[2]);
    const auto* c = w.source<C>(i.op[3]);
    auto* d = w.target<D>(i.op[0]);
    for_lanes(w.active, [&](unsigned l) {
      d[l] = to_row<D>(F{}(from_row<A>(a[l]), from_row<B>(b[l]), from_row<C>(c[l])));
    });
  };
}

template <class D, class A = D, class B = A, class C = B, class E = C, class F>
Body map4(F) {
  return [](Warp& w, const Instr& i) {
    const auto* a = w.source<A>(i.op[1]);
    const auto* b = w.source<B>(i.op[2]);
    const auto* c = w.source<C>(i.op[3]);
    const auto* e = w.source<E>(i.op[4]);
    auto* d = w.target<D>(i.op[0]);
    for_lanes(w.active, [&](unsigned l) {
      d[l] = to_row<D>(F{}(from_row<A>(a[l]), from_row<B>(b[l]), from_row<C>(c[l]), from_row<E>(e[l])));
    });
  };
}

// For a type that the table accepts and the binder does not know: an error in the table.
[[noreturn]] inline void no_such_type(Type t) { fail("no body for type .{}", name_of(t)); }

// make(T{}) for the C++ type of an integer type; untyped bits are unsigned.
template <class F>
Body with_integer(Type t, F make) {
  switch (t) {
    case Type::b16:
    case Type::u16:
      return make(uint16_t{});
    case Type::b32:
    case Type::u32:
      return make(uint32_t{});
    case Type::b64:
    case Type::u64:
      return make(uint64_t{});
    case Type::s16:
      return make(int16_t{});
    case Type::s32:
      return make(int32_t{});
    case Type::s64:
      return make(int64_t{});
    default:
      no_such_type(t);
  }
}

// The same by width alone, for instructions that only move bits.
template <class F>
Body with_bits(Type t, F make) {
  switch (bits_of(t)) {
    case 8:
      return make(uint8_t{});
    case 16:
      return make(uint16_t{});
    case 32:
      return make(uint32_t{});
    case 64:
      return make(uint64_t{});
    default:
      no_such_type(t);
  }
}

// make(std::bool_constant<...>) for an optional modifier.
template <class F>
Body with_flag(bool flag, F make) {
  return flag ? make(std::true_type{}) : make(std::false_type{});
}

}  // namespace fp4lab::emu
