// f16, f16x2, bf16 and bf16x2 arithmetic (PTX ISA 9.7.4) and the mixed f32 forms (9.7.5).
//
// Computes one exact or odd-rounded double result and rounds it once to the format. Sums and products of two
// f16 or bf16 values, and their product plus a third, may have bits far below the format's last one:
// add_to_odd records whether there were any.
#include <cmath>

#include "emulator/isa/opcode.h"
#include "emulator/op/float_format.h"
#include "emulator/op/float_order.h"
#include "emulator/op/half_rows.h"
#include "emulator/op/half_value.h"
#include "emulator/op/mufu.h"
#include "emulator/op/rounding.h"

namespace fp4lab::emu {

namespace {

// Steps after the rounding of a result.
enum class Clamp { none, sat, relu };

template <class H, bool kFtz, Clamp kClamp>
struct HalfEdges {
  using Bits = typename H::Bits;
  static constexpr bool kPlain = !kFtz && kClamp == Clamp::none;
  static constexpr bool kBfloat = std::is_same_v<H, BfloatValue>;
  static double in(uint16_t h) { return H::value(kFtz ? Bits::flush(h) : h); }
  static uint16_t out(double v) {
    uint16_t h = H::nearest(v);
    if (kFtz) {
      h = Bits::flush(h);
      // Flushes results that stay below 2^-14 when rounded with an unbounded exponent (see is_tiny).
      if ((h & ~Bits::kSign) == 0x0400 && std::abs(v) < 0x1p-14 - 0x1p-26) h &= Bits::kSign;
    }
    if (kClamp == Clamp::sat) {
      if (!(H::value(h) > 0)) return 0;  // NaN and -0 too
      return H::value(h) > 1 ? H::kOne : h;
    }
    if (kClamp == Clamp::relu && !Bits::is_nan(h) && (h & Bits::kSign)) return 0;
    return h;
  }
};

// A body over single values or, for the x2 types, over both halves of a word. Full warps without ftz, sat and
// relu use kOp's vector code, if there is any.
template <class E, unsigned kOperands, bool kPair, HalfOp kOp, class F>
Body map_half(F) {
  return [](Warp& w, const Instr& i) {
    const auto* a = w.source<uint32_t>(i.op[1]);
    const auto* b = kOperands > 1 ? w.source<uint32_t>(i.op[2]) : a;
    const auto* c = kOperands > 2 ? w.source<uint32_t>(i.op[3]) : a;
    auto* d = w.target<uint32_t>(i.op[0]);
    if constexpr (E::kPlain && kOp != HalfOp::none)
      if (w.active == 0xffffffffu && half_rows<kOp, E::kBfloat>(a, b, c, d, kPair ? 0xffffffff : 0xffff))
        return;
    for_lanes(w.active, [&](unsigned l) {
      const auto one = [&](unsigned shift) -> uint32_t {
        const auto in = [&](const uint32_t* row) { return E::in(uint16_t(row[l] >> shift)); };
        double v;
        if constexpr (kOperands == 1)
          v = F{}(in(a));
        else if constexpr (kOperands == 2)
          v = F{}(in(a), in(b));
        else
          v = F{}(in(a), in(b), in(c));
        return uint32_t(E::out(v)) << shift;
      };
      const uint32_t low = one(0);
      d[l] = kPair ? low | one(16) : low;
    });
  };
}

bool is_bfloat(Type t) { return t == Type::bf16 || t == Type::bf16x2; }
bool is_pair(Type t) { return t == Type::f16x2 || t == Type::bf16x2; }

template <unsigned kOperands, HalfOp kOp = HalfOp::none, class F>
Body bind_half(const Source& s, F f) {
  const auto with_pair = [&](auto edges) {
    return with_flag(is_pair(s.type()), [&](auto pair) {
      return map_half<decltype(edges), kOperands, decltype(pair)::value, kOp>(f);
    });
  };
  const auto with_clamp = [&](auto format, auto ftz) {
    using H = decltype(format);
    constexpr bool kFtz = decltype(ftz)::value;
    if (s.has("sat")) return with_pair(HalfEdges<H, kFtz, Clamp::sat>{});
    if (s.has("relu")) return with_pair(HalfEdges<H, kFtz, Clamp::relu>{});
    return with_pair(HalfEdges<H, kFtz, Clamp::none>{});
  };
  if (is_bfloat(s.type()))
    return s.has("ftz") ? with_clamp(BfloatValue{}, std::true_type{})
                        : with_clamp(BfloatValue{}, std::false_type{});
  return s.has("ftz") ? with_clamp(HalfValue{}, std::true_type{})
                      : with_clamp(HalfValue{}, std::false_type{});
}

// Sign and order work on bits, for each half of a word.
template <class F>
Body bind_bits1(const Source& s, F) {
  return with_flag(is_pair(s.type()), [](auto pair) {
    return map1<uint32_t>([](uint32_t a) {
      const uint32_t low = F{}(uint16_t(a));
      return decltype(pair)::value ? low | uint32_t(F{}(uint16_t(a >> 16))) << 16 : low;
    });
  });
}
template <class F>
Body bind_bits2(const Source& s, F) {
  return with_flag(is_pair(s.type()), [](auto pair) {
    return map2<uint32_t>([](uint32_t a, uint32_t b) {
      const uint32_t low = F{}(uint16_t(a), uint16_t(b));
      return decltype(pair)::value ? low | uint32_t(F{}(uint16_t(a >> 16), uint16_t(b >> 16))) << 16 : low;
    });
  });
}

template <bool kMax>
Body bind_half_extreme(const Source& s) {
  return with_extreme<kMax>(s, [&](auto extreme) {
    using X = decltype(extreme);
    if (is_bfloat(s.type()))
      return bind_bits2(s, [](uint16_t a, uint16_t b) { return X::template two<Bf16Bits>(a, b); });
    return bind_bits2(s, [](uint16_t a, uint16_t b) { return X::template two<F16Bits>(a, b); });
  });
}

}  // namespace

Body bind_add_half(Instr&, const Source& s) {
  return bind_half<2, HalfOp::add>(s, [](double a, double b) { return add_to_odd(a, b); });
}
Body bind_sub_half(Instr&, const Source& s) {
  return bind_half<2, HalfOp::sub>(s, [](double a, double b) { return add_to_odd(a, -b); });
}
Body bind_mul_half(Instr&, const Source& s) {
  return bind_half<2, HalfOp::mul>(s, [](double a, double b) { return a * b; });
}
Body bind_fma_half(Instr&, const Source& s) {
  return bind_half<3, HalfOp::fma>(s, [](double a, double b, double c) { return add_to_odd(a * b, c); });
}
// The result is +0 if a factor (not the addend) is the NaN with which tensor maps fill elements out of bounds
// (seen on an H200).
Body bind_fma_oob(Instr& i, const Source& s) {
  static constexpr uint16_t kOobNan = 0x7ff7;
  const Body plain = bind_fma_half(i, s);
  i.aux = reinterpret_cast<uintptr_t>(plain);
  return [](Warp& w, const Instr& i) {
    uint32_t keep[kLanes];
    const uint32_t* v[2] = {w.source<uint32_t>(i.op[1]), w.source<uint32_t>(i.op[2])};
    for_lanes(w.active, [&](unsigned l) {
      keep[l] = 0xffffffff;
      for (const uint32_t* x : v) {
        if ((x[l] & 0x7fff) == kOobNan) keep[l] &= 0xffff0000;
        if ((x[l] >> 16 & 0x7fff) == kOobNan) keep[l] &= 0x0000ffff;
      }
    });
    reinterpret_cast<Body>(i.aux)(w, i);
    auto* d = w.target<uint32_t>(i.op[0]);
    for_lanes(w.active, [&](unsigned l) { d[l] &= keep[l]; });
  };
}
namespace {

// The multifunction unit's result for f16 and bf16: its truncated f32 result; overflow gives infinity.
struct CutToF16 {
  static float in(uint16_t h) { return HalfValue::to_float(h); }
  static uint16_t out(float v) {
    if (std::abs(v) >= 0x1p16f) return uint16_t((v < 0 ? 0x8000 : 0) | kF16.infinity());
    return uint16_t(encode(v, kF16, FormatRound::to_zero, false));
  }
};
struct CutToBf16 {
  static float in(uint16_t h) { return BfloatValue::to_float(h); }
  static uint16_t out(float v) { return uint16_t(std::bit_cast<uint32_t>(v) >> 16); }
};

template <class F>
Body bind_mufu(const Source& s, F) {
  if (is_bfloat(s.type()))
    return bind_bits1(s, [](uint16_t a) { return CutToBf16::out(F{}(CutToBf16::in(a))); });
  return bind_bits1(s, [](uint16_t a) { return CutToF16::out(F{}(CutToF16::in(a))); });
}

}  // namespace

Body bind_ex2_half(Instr&, const Source& s) {
  return bind_mufu(s, [](float a) { return mufu::ex2(a); });
}
Body bind_tanh_half(Instr&, const Source& s) {
  return bind_mufu(s, [](float a) { return mufu::tanh(a); });
}

namespace {

// A NaN comes out canonical (seen on an H200).
template <class B, bool kNegate>
Body bind_sign(const Source& s) {
  const auto changed = [](auto ftz) {
    return [](uint16_t a) -> uint16_t {
      if (B::is_nan(a)) return B::kNan;
      if (decltype(ftz)::value) a = B::flush(a);
      return kNegate ? a ^ 0x8000 : a & 0x7fff;
    };
  };
  return s.has("ftz") ? bind_bits1(s, changed(std::true_type{})) : bind_bits1(s, changed(std::false_type{}));
}
template <bool kNegate>
Body bind_sign(const Source& s) {
  return is_bfloat(s.type()) ? bind_sign<Bf16Bits, kNegate>(s) : bind_sign<F16Bits, kNegate>(s);
}

}  // namespace

Body bind_neg_half(Instr&, const Source& s) { return bind_sign<true>(s); }
Body bind_abs_half(Instr&, const Source& s) { return bind_sign<false>(s); }
Body bind_min_half(Instr&, const Source& s) { return bind_half_extreme<false>(s); }
Body bind_max_half(Instr&, const Source& s) { return bind_half_extreme<true>(s); }

// Mixed precision: f16 or bf16 operands widened, the arithmetic is f32's.
namespace {

template <class H, unsigned kOperands, class F>
Body bind_mixed(const Source& s, F) {
  return with_rounding<float>(s, [](auto round, auto edges) -> Body {
    return [](Warp& w, const Instr& i) {
      using E = decltype(edges);
      constexpr Round kRound = decltype(round)::value;
      const auto* a = w.source<uint32_t>(i.op[1]);
      const auto* b = w.source<uint32_t>(i.op[2]);
      const auto* c = w.source<uint32_t>(i.op[kOperands]);
      auto* d = w.target<float>(i.op[0]);
      const ScopedRounding<kRound> mode;
      for_lanes(w.active, [&](unsigned l) {
        const float x = opaque(H::to_float(uint16_t(a[l])));
        const float z = opaque(std::bit_cast<float>(c[l]));
        float v;
        if constexpr (kOperands == 2)
          v = F{}(x, z);
        else
          v = F{}(x, opaque(H::to_float(uint16_t(b[l]))), z);
        d[l] = to_row<float>(E::out(opaque(v)));
      });
    };
  });
}

template <unsigned kOperands, class F>
Body bind_mixed(const Source& s, F f) {
  return is_bfloat(s.type(1)) ? bind_mixed<BfloatValue, kOperands>(s, f)
                              : bind_mixed<HalfValue, kOperands>(s, f);
}

}  // namespace

Body bind_add_mixed(Instr&, const Source& s) {
  return bind_mixed<2>(s, [](float a, float c) { return a + c; });
}
Body bind_sub_mixed(Instr&, const Source& s) {
  return bind_mixed<2>(s, [](float a, float c) { return a - c; });
}
Body bind_fma_mixed(Instr&, const Source& s) {
  return bind_mixed<3>(s, [](float a, float b, float c) { return __builtin_fmaf(a, b, c); });
}

}  // namespace fp4lab::emu
