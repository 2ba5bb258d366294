// f32 and f64 instructions that compare, classify or touch the sign (PTX ISA 9.7.3.1, .2, .9 to .12).
#include "emulator/isa/opcode.h"
#include "emulator/op/float_order.h"
#include "emulator/op/rounding.h"

namespace fp4lab::emu {

namespace {

template <bool kMax>
Body bind_extreme(const Source& s, bool three) {
  if (s.type() == Type::f64)
    return map2<uint64_t>([](uint64_t a, uint64_t b) {
      return Extreme<kMax, false, false, false, false>::template two<F64Bits>(a, b);
    });
  return with_extreme<kMax>(s, [&](auto extreme) -> Body {
    using X = decltype(extreme);
    if (three)
      return map3<uint32_t>(
          [](uint32_t a, uint32_t b, uint32_t c) { return X::template three<F32Bits>(a, b, c); });
    return map2<uint32_t>([](uint32_t a, uint32_t b) { return X::template two<F32Bits>(a, b); });
  });
}

// testp for a format: tests are named by the manual.
template <class B>
Body bind_test(const Source& s) {
  using U = typename B::Word;
  const auto test = [](auto f) -> Body {
    using F = decltype(f);
    return [](Warp& w, const Instr& i) {
      const auto* a = w.source<U>(i.op[1]);
      uint32_t holds = 0;
      for_lanes(w.active, [&](unsigned l) { holds |= uint32_t(F{}(U(a[l] & ~B::kSign))) << l; });
      w.set_mask(i.op[0], holds);
    };
  };
  if (s.has("finite")) return test([](U m) { return m < B::kInfinity; });
  if (s.has("infinite")) return test([](U m) { return m == B::kInfinity; });
  if (s.has("number")) return test([](U m) { return m <= B::kInfinity; });
  if (s.has("notanumber")) return test([](U m) { return m > B::kInfinity; });
  // Zeros count as normal.
  if (s.has("normal"))
    return test([](U m) { return m == 0 || (m < B::kInfinity && (m & B::kInfinity) != 0); });
  return test([](U m) { return m != 0 && (m & B::kInfinity) == 0; });
}

// abs and neg of an f32 NaN give the canonical NaN; an f64 NaN becomes quiet and is otherwise unchanged (seen
// on an H200; PTX leaves it open).
template <class B, bool kFtz, bool kNegate>
typename B::Word sign_changed(typename B::Word a) {
  using U = typename B::Word;
  if (B::is_nan(a)) return sizeof(U) == 8 ? U(a | B::kQuiet) : B::kNan;
  if (kFtz) a = B::flush(a);
  return kNegate ? U(a ^ B::kSign) : U(a & U(~B::kSign));
}

template <bool kNegate>
Body bind_sign(const Source& s) {
  if (s.type() == Type::f64)
    return map1<uint64_t>([](uint64_t a) { return sign_changed<F64Bits, false, kNegate>(a); });
  if (s.has("ftz")) return map1<uint32_t>([](uint32_t a) { return sign_changed<F32Bits, true, kNegate>(a); });
  return map1<uint32_t>([](uint32_t a) { return sign_changed<F32Bits, false, kNegate>(a); });
}

}  // namespace

Body bind_min_float(Instr&, const Source& s) { return bind_extreme<false>(s, false); }
Body bind_max_float(Instr&, const Source& s) { return bind_extreme<true>(s, false); }
Body bind_min3_float(Instr&, const Source& s) { return bind_extreme<false>(s, true); }
Body bind_max3_float(Instr&, const Source& s) { return bind_extreme<true>(s, true); }

Body bind_abs_float(Instr&, const Source& s) { return bind_sign<false>(s); }
Body bind_neg_float(Instr&, const Source& s) { return bind_sign<true>(s); }
// The sign of a on the magnitude of b.
Body bind_copysign(Instr&, const Source& s) {
  if (s.type() == Type::f64)
    return map2<uint64_t>(
        [](uint64_t a, uint64_t b) { return (a & F64Bits::kSign) | (b & ~F64Bits::kSign); });
  return map2<uint32_t>([](uint32_t a, uint32_t b) { return (a & F32Bits::kSign) | (b & ~F32Bits::kSign); });
}
Body bind_testp(Instr&, const Source& s) {
  return s.type() == Type::f64 ? bind_test<F64Bits>(s) : bind_test<F32Bits>(s);
}

}  // namespace fp4lab::emu
