// Rounding, clamping and flushing in cvt, for one value (PTX ISA 9.7.9.21).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "emulator/op/float_format.h"
#include "emulator/op/rounding.h"

namespace fp4lab::emu::cvt {

// The modifiers of one cvt, small enough for Instr::aux.
struct Modifiers {
  Type from = Type::none, to = Type::none;
  FormatRound round = FormatRound::nearest_even;
  bool integral : 1 = false;  // .rni, .rzi, .rmi, .rpi: round to an integer, in the direction of `round`
  bool ftz : 1 = false, sat : 1 = false, relu : 1 = false, satfinite : 1 = false;
  bool from_wide : 1 = false, to_wide : 1 = false;  // the register has 64 bits though the type has fewer
};
static_assert(sizeof(Modifiers) <= 8);
inline uint64_t pack(const Modifiers& m) {
  uint64_t bits = 0;
  std::memcpy(&bits, &m, sizeof m);
  return bits;
}
inline Modifiers unpack(uint64_t bits) {
  Modifiers m;
  std::memcpy(static_cast<void*>(&m), &bits, sizeof m);
  return m;
}

Modifiers modifiers_of(const Instr&, const Source&);

// v rounded to an integral value.
inline double to_integral(double v, FormatRound round) {
  switch (round) {
    case FormatRound::to_zero:
      return std::trunc(v);
    case FormatRound::down:
      return std::floor(v);
    case FormatRound::up:
      return std::ceil(v);
    default:
      return std::nearbyint(v);  // the host rounds to nearest even
  }
}

// Clamps an integral value into T's range. NaN gives 0, but the top bit alone when either side has 64 bits
// (PTX ISA, for .f64 sources and for .s64 and .u64 results).
template <class T>
T to_integer(double v, bool from_f64) {
  using L = std::numeric_limits<T>;
  if (v != v) return from_f64 || sizeof(T) == 8 ? T(T(1) << (8 * sizeof(T) - 1)) : T(0);
  // The bounds as doubles: max + 1 is a power of two and exact, so compare with it.
  if (v < double(L::min())) return L::min();
  if (v >= 2 * double(T(1) << (8 * sizeof(T) - (std::is_signed_v<T> ? 2 : 1)))) return L::max();
  return T(v);
}

// The double nearest to an integer by `round`.
double to_double(__int128 v, FormatRound round);
// A double that rounds to any format of at most 51 bits as the integer itself would: bits that do not fit are
// folded into an odd last bit.
double to_odd_double(__int128 v);

}  // namespace fp4lab::emu::cvt
