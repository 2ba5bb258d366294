// f32 and f64 add, sub, mul, fma, div, rcp and sqrt with IEEE rounding (PTX ISA 9.7.3). The host's SSE
// arithmetic is IEEE 754 and honours every rounding mode, so these are exact.
#include "emulator/isa/opcode.h"
#include "emulator/op/float_fma.h"
#include "emulator/op/rounding.h"

namespace fp4lab::emu {

namespace {

// op(a...) rounded by kRound, for every lane.
template <class T, Round kRound, class E, unsigned kOperands, class F>
Body rounded(F) {
  return [](Warp& w, const Instr& i) {
    const auto* a = w.source<T>(i.op[1]);
    const auto* b = kOperands > 1 ? w.source<T>(i.op[2]) : a;
    const auto* c = kOperands > 2 ? w.source<T>(i.op[3]) : a;
    auto* d = w.target<T>(i.op[0]);
    const ScopedRounding<kRound> mode;
    const auto hidden = [](T v) { return kRound == Round::rn ? v : opaque(v); };
    for_lanes(w.active, [&](unsigned l) {
      const auto in = [&](const auto* row) { return hidden(E::in(from_row<T>(row[l]))); };
      T v;
      if constexpr (kOperands == 1)
        v = F{}(in(a));
      else if constexpr (kOperands == 2)
        v = F{}(in(a), in(b));
      else
        v = F{}(in(a), in(b), in(c));
      d[l] = to_row<T>(E::out(hidden(v)));
    });
  };
}

template <unsigned kOperands, class F>
Body by_type(const Source& s, F) {
  const auto make = [](auto zero) {
    return [](auto round, auto edges) {
      return rounded<decltype(zero), decltype(round)::value, decltype(edges), kOperands>(F{});
    };
  };
  return s.type() == Type::f64 ? with_rounding<double>(s, make(0.0)) : with_rounding<float>(s, make(0.0f));
}

}  // namespace

Body bind_add_float(Instr&, const Source& s) {
  return by_type<2>(s, [](auto a, auto b) { return a + b; });
}
Body bind_sub_float(Instr&, const Source& s) {
  return by_type<2>(s, [](auto a, auto b) { return a - b; });
}
Body bind_mul_float(Instr&, const Source& s) {
  return by_type<2>(s, [](auto a, auto b) { return a * b; });
}
Body bind_div_float(Instr&, const Source& s) {
  return by_type<2>(s, [](auto a, auto b) { return a / b; });
}
Body bind_rcp_float(Instr&, const Source& s) {
  return by_type<1>(s, [](auto a) { return decltype(a)(1) / a; });
}
Body bind_sqrt_float(Instr&, const Source& s) {
  return by_type<1>(s, [](auto a) { return square_root(a); });
}
Body bind_fma_float(Instr&, const Source& s) {
  // The hot case of every epilogue has a body of its own.
  if (s.type() == Type::f32 && rounding_of(s) == Round::rn && !s.has("ftz") && !s.has("sat"))
    return fma_f32_body();
  return by_type<3>(s, [](auto a, auto b, auto c) { return fused(a, b, c); });
}

// mad is fma's older name.
Body bind_mad_float(Instr& i, const Source& s) { return bind_fma_float(i, s); }

}  // namespace fp4lab::emu
