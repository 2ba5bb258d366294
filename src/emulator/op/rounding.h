// Host arithmetic with a chosen rounding (rn, rz, rm, rp), flushing, saturation and canonical NaNs.
//
// Round to nearest is the host's own mode. The other three set MXCSR during one instruction's loop and pass
// operands and result through opaque(), so that the compiler moves nothing across the change.
#pragma once

#include <xmmintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "emulator/op/map.h"

namespace fp4lab::emu {

enum class Round : uint8_t { rn, rz, rm, rp };

inline Round rounding_of(const Source& s) {
  return s.has("rz") ? Round::rz : s.has("rm") ? Round::rm : s.has("rp") ? Round::rp : Round::rn;
}

// A value that the compiler can neither compute at compile time nor move across another opaque value.
template <class T>
inline T opaque(T v) {
  asm volatile("" : "+x"(v)::"memory");
  return v;
}

// Sets the SSE rounding mode (MXCSR bits 14:13) and restores the old one.
template <Round kRound>
class ScopedRounding {
 public:
  ScopedRounding() {
    if constexpr (kRound != Round::rn) {
      constexpr unsigned code = kRound == Round::rz ? 3 : kRound == Round::rp ? 2 : 1;
      _mm_setcsr((saved_ & ~0x6000u) | code << 13);
    }
  }
  ~ScopedRounding() {
    if constexpr (kRound != Round::rn) _mm_setcsr(saved_);
  }
  ScopedRounding(const ScopedRounding&) = delete;

 private:
  unsigned saved_ = kRound != Round::rn ? _mm_getcsr() : 0;
};

// NaN results: f32 always gives the canonical 0x7fffffff (CUDA C++ Programming Guide, "Floating-Point
// Standard"; seen on an H200). f64 propagates a NaN operand, made quiet; without one it gives
// 0xfff8000000000000 (seen on an H200).
constexpr uint32_t kNan32 = 0x7fffffff;
constexpr uint64_t kNan64 = 0xfff8000000000000;
inline float canonical(float v) { return v == v ? v : std::bit_cast<float>(kNan32); }
inline double canonical(double v) { return v == v ? v : std::bit_cast<double>(kNan64); }
inline double quiet(double nan) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(nan) | 0x0008000000000000);
}
// The first NaN among the operands, made quiet, or the default one. f64 instructions check b first, then c,
// then a (seen on an H200).
template <class... V>
inline double nan_of(V... operands) {
  double found = std::bit_cast<double>(kNan64);
  ((operands != operands ? (found = quiet(operands), true) : false) || ...);
  return found;
}

// Subnormals become zero of the same sign.
inline float flush(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  return (bits & 0x7f800000u) == 0 ? std::bit_cast<float>(bits & 0x80000000u) : v;
}

// Whether |exact| is below 2^-126 when rounded to f32's 24 bits with an unbounded exponent: .ftz flushes
// these results.
template <Round kRound>
inline bool is_tiny(double exact) {
  const double v = std::abs(exact);
  if (kRound == Round::rn) return v < 0x1p-126 - 0x1p-151;
  if (kRound == Round::rz) return v < 0x1p-126;
  // Away from zero in one of the two directions; only there can rounding raise a result to 2^-126.
  return v <= 0x1p-126 - 0x1p-150;
}

// The modifiers applied to operands and result.
template <class T, bool kFtz_ = false, bool kSat = false>
struct Edges {
  static constexpr bool kFtz = kFtz_;
  static T in(T v) {
    if constexpr (kFtz) v = flush(v);
    return v;
  }
  static T out(T v) {
    if constexpr (kFtz) v = flush(v);
    if constexpr (kSat) return v > 0 ? (v < 1 ? v : T(1)) : T(0);  // NaN and -0 give +0
    return canonical(v);
  }
};

// Rounds to nearest during its lifetime, whatever mode is set.
class NearestMeanwhile {
 public:
  NearestMeanwhile() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ & ~0x6000u); }
  ~NearestMeanwhile() { _mm_setcsr(saved_); }
  NearestMeanwhile(const NearestMeanwhile&) = delete;

 private:
  unsigned saved_;
};

// make(round constant, edges type) for the modifiers of a float instruction.
template <class T, class F>
Body with_rounding(const Source& s, F make) {
  const auto edges = [&](auto round) -> Body {
    if constexpr (std::is_same_v<T, float>) {
      return with_flag(s.has("ftz"), [&](auto ftz) {
        return with_flag(s.has("sat"), [&](auto sat) {
          return make(round, Edges<float, decltype(ftz)::value, decltype(sat)::value>{});
        });
      });
    } else {
      return make(round, Edges<T>{});
    }
  };
  switch (rounding_of(s)) {
    case Round::rz:
      return edges(std::integral_constant<Round, Round::rz>{});
    case Round::rm:
      return edges(std::integral_constant<Round, Round::rm>{});
    case Round::rp:
      return edges(std::integral_constant<Round, Round::rp>{});
    default:
      return edges(std::integral_constant<Round, Round::rn>{});
  }
}

}  // namespace fp4lab::emu
