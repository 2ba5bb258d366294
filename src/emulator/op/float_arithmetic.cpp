// f32 and f64 add, sub, mul, fma, div, rcp and sqrt with IEEE rounding (PTX ISA 9.7.3). The host's SSE
// arithmetic is IEEE 754 and honours every rounding mode, so these are exact.
#include "emulator/isa/opcode.h"
#include "emulator/op/float_fma.h"
#include "emulator/op/float_format.h"
#include "emulator/op/rounding.h"

namespace fp4lab::emu {

namespace {

// An operation: its result in the current rounding mode; for .ftz a double that compares with the numbers
// near 2^-126 as the exact result does; for f64 the NaN that it returns.
struct Add {
  template <class T>
  static T result(T a, T b) {
    return a + b;
  }
  static double wide(double a, double b) { return a + b; }
  static double nan(double a, double b) { return nan_of(b, a); }
};
struct Subtract : Add {
  template <class T>
  static T result(T a, T b) {
    return a - b;
  }
  static double wide(double a, double b) { return a - b; }
};
struct Multiply : Add {
  template <class T>
  static T result(T a, T b) {
    return a * b;
  }
  static double wide(double a, double b) { return a * b; }
};
struct Divide {
  template <class T>
  static T result(T a, T b) {
    return a / b;
  }
  static double wide(double a, double b) { return a / b; }
  static double nan(double a, double b) { return nan_of(a, b); }
};
struct Reciprocal {
  template <class T>
  static T result(T a) {
    return 1 / a;
  }
  static double wide(double a) { return 1 / a; }
  static double nan(double a) { return nan_of(a); }
};
struct SquareRoot : Reciprocal {
  template <class T>
  static T result(T a) {
    return square_root(a);
  }
  static double wide(double a) { return a; }  // never small
};
struct Fused {
  template <class T>
  static T result(T a, T b, T c) {
    return fused(a, b, c);
  }
  static double wide(double a, double b, double c) { return add_to_odd(a * b, c); }
  static double nan(double a, double b, double c) { return nan_of(b, c, a); }
};

// A result that rounding raised to 2^-126 is flushed too if it stays smaller when rounded with an unbounded
// exponent (seen on an H200 for mul, fma, rcp and div).
template <class F, Round kRound, class... A>
float flush_tiny(float v, A... a) {
  if ((std::bit_cast<uint32_t>(v) & 0x7fffffff) != 0x00800000) return v;
  const NearestMeanwhile mode;
  return is_tiny<kRound>(opaque(F::wide(opaque(double(a))...))) ? std::copysign(0.0f, v) : v;
}

// F rounded by kRound, for every lane.
template <class T, Round kRound, class E, class F, unsigned kOperands>
void rounded(Warp& w, const Instr& i) {
  const auto* a = w.source<T>(i.op[1]);
  const auto* b = kOperands > 1 ? w.source<T>(i.op[2]) : a;
  const auto* c = kOperands > 2 ? w.source<T>(i.op[3]) : a;
  auto* d = w.target<T>(i.op[0]);
  const ScopedRounding<kRound> mode;
  const auto hidden = [](T v) { return kRound == Round::rn ? v : opaque(v); };
  const auto apply = [&](auto... x) {
    T v = hidden(F::result(x...));
    if constexpr (E::kFtz) v = flush_tiny<F, kRound>(v, x...);
    if constexpr (sizeof(T) == 8)
      return v == v ? v : F::nan(x...);
    else
      return E::out(v);
  };
  for_lanes(w.active, [&](unsigned l) {
    const auto in = [&](const auto* row) { return hidden(E::in(from_row<T>(row[l]))); };
    T v;
    if constexpr (kOperands == 1)
      v = apply(in(a));
    else if constexpr (kOperands == 2)
      v = apply(in(a), in(b));
    else
      v = apply(in(a), in(b), in(c));
    d[l] = to_row<T>(v);
  });
}

template <class F, unsigned kOperands>
Body by_type(const Source& s) {
  const auto make = [](auto zero) {
    return [](auto round, auto edges) -> Body {
      return rounded<decltype(zero), decltype(round)::value, decltype(edges), F, kOperands>;
    };
  };
  return s.type() == Type::f64 ? with_rounding<double>(s, make(0.0)) : with_rounding<float>(s, make(0.0f));
}

}  // namespace

Body bind_add_float(Instr&, const Source& s) { return by_type<Add, 2>(s); }
Body bind_sub_float(Instr&, const Source& s) { return by_type<Subtract, 2>(s); }
Body bind_mul_float(Instr&, const Source& s) { return by_type<Multiply, 2>(s); }
Body bind_div_float(Instr&, const Source& s) { return by_type<Divide, 2>(s); }
Body bind_rcp_float(Instr&, const Source& s) { return by_type<Reciprocal, 1>(s); }
Body bind_sqrt_float(Instr&, const Source& s) { return by_type<SquareRoot, 1>(s); }
Body bind_fma_float(Instr&, const Source& s) {
  // The most frequent case of epilogues has a body of its own.
  if (s.type() == Type::f32 && rounding_of(s) == Round::rn && !s.has("ftz") && !s.has("sat"))
    return fma_f32_body();
  return by_type<Fused, 3>(s);
}
// mad is fma's older name.
Body bind_mad_float(Instr& i, const Source& s) { return bind_fma_float(i, s); }

}  // namespace fp4lab::emu
