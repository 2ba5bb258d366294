// min and max of floats of any format (PTX ISA 9.7.3.11, 9.7.4.7): -0 < +0; a number wins over a NaN unless
// .NaN is given; .xorsign.abs compares magnitudes and gives the product's sign.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace fp4lab::emu {

// A format by its bits: U the word, kInfinity the code of +infinity, kNan the canonical NaN.
template <class U, U kInfinity_, U kNan_>
struct OrderedBits {
  using Word = U;
  static constexpr U kSign = U(U(1) << (8 * sizeof(U) - 1));
  static constexpr U kInfinity = kInfinity_, kNan = kNan_;
  static constexpr U kQuiet = U((kInfinity_ >> 1) & ~kInfinity_);  // the top bit of the mantissa
  static constexpr bool is_nan(U v) { return U(v & ~kSign) > kInfinity; }
  // A signed integer in the order of the values; -0 just below +0.
  static constexpr auto order(U v) {
    using S = std::make_signed_t<U>;
    return v & kSign ? S(~S(v & ~kSign)) : S(v);
  }
  static constexpr U flush(U v) {  // kInfinity is the exponent field's mask
    return (v & kInfinity) == 0 ? U(v & kSign) : v;
  }
};
using F32Bits = OrderedBits<uint32_t, 0x7f800000u, 0x7fffffffu>;
using F64Bits = OrderedBits<uint64_t, 0x7ff0000000000000u, 0xfff8000000000000u>;
using F16Bits = OrderedBits<uint16_t, 0x7c00, 0x7fff>;
using Bf16Bits = OrderedBits<uint16_t, 0x7f80, 0x7fff>;

template <bool kMax, bool kFtz, bool kNan, bool kAbs, bool kXorSign>
struct Extreme {
  static constexpr bool ftz = kFtz;

  // Of two f64 NaNs the result is the second, made quiet (seen on an H200).
  template <class B>
  static constexpr typename B::Word second_nan(typename B::Word b) {
    return b | B::kQuiet;
  }
  template <class B>
  static constexpr typename B::Word pick(typename B::Word a, typename B::Word b) {
    if (B::is_nan(a) || B::is_nan(b)) {
      if (sizeof(a) == 8 && B::is_nan(a) && B::is_nan(b)) return second_nan<B>(b);
      if (kNan || (B::is_nan(a) && B::is_nan(b))) return B::kNan;
      return B::is_nan(a) ? b : a;
    }
    return (B::order(a) < B::order(b)) != kMax ? a : b;
  }
  template <class B>
  static constexpr typename B::Word two(typename B::Word a, typename B::Word b) {
    using U = typename B::Word;
    if (kFtz) a = B::flush(a), b = B::flush(b);
    const U sign = U((a ^ b) & B::kSign);
    if (kAbs) a &= U(~B::kSign), b &= U(~B::kSign);
    const U d = pick<B>(a, b);
    return kXorSign && !B::is_nan(d) ? U((d & ~B::kSign) | sign) : d;
  }
  template <class B>
  static constexpr typename B::Word three(typename B::Word a, typename B::Word b, typename B::Word c) {
    if (kFtz) a = B::flush(a), b = B::flush(b), c = B::flush(c);
    if (kAbs) a &= ~B::kSign, b &= ~B::kSign, c &= ~B::kSign;
    return pick<B>(pick<B>(a, b), c);
  }
};

// make(Extreme<...>{}) for the modifiers .ftz, .NaN, .abs, .xorsign of a min or max.
template <bool kMax, class S, class F>
auto with_extreme(const S& s, F make) {
  const auto flag = [](bool on, auto then) { return on ? then(std::true_type{}) : then(std::false_type{}); };
  return flag(s.has("ftz"), [&](auto ftz) {
    return flag(s.has("NaN"), [&](auto nan) {
      constexpr bool kFtz = decltype(ftz)::value, kNan = decltype(nan)::value;
      if (s.has("xorsign")) return make(Extreme<kMax, kFtz, kNan, true, true>{});
      if (s.has("abs")) return make(Extreme<kMax, kFtz, kNan, true, false>{});
      return make(Extreme<kMax, kFtz, kNan, false, false>{});
    });
  });
}

}  // namespace fp4lab::emu
