// Extended-precision arithmetic (PTX ISA 9.7.2): the carry flag CC.CF is one bit per lane, Warp::carry().
#include "emulator/isa/opcode.h"
#include "emulator/op/map.h"

namespace fp4lab::emu {

namespace {

// A body for d = f(operands..., carry in), which also computes the carry out; kIn, kOut: whether the
// instruction reads and writes the flag.
template <class T, bool kIn, bool kOut, unsigned kOperands, bool kDefault = false, class F>
Body carrying(F) {
  return [](Warp& w, const Instr& i) {
    const auto* a = w.source<T>(i.op[1]);
    const auto* b = w.source<T>(i.op[2]);
    const auto* c = kOperands == 3 ? w.source<T>(i.op[3]) : b;
    auto* d = w.target<T>(i.op[0]);
    uint32_t out = 0;
    const uint32_t in = kIn        ? w.carry()
                        : kDefault ? 0xffffffffu
                                   : 0;  // the carry in of an instruction that reads no flag
    for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
      const unsigned l = unsigned(std::countr_zero(lanes));
      bool carry = in >> l & 1;
      if constexpr (kOperands == 3)
        d[l] = F{}(a[l], b[l], c[l], carry);
      else
        d[l] = F{}(a[l], b[l], carry);
      out |= uint32_t(carry) << l;
    }
    if (kOut) w.set_carry(out);
  };
}

template <class T>
T add_with(T a, T b, bool& carry) {
  T sum;
  const bool first = __builtin_add_overflow(a, b, &sum);
  const bool second = __builtin_add_overflow(sum, T(carry), &sum);
  carry = first || second;
  return sum;
}
// a - b is a + ~b + 1, and the flag is that sum's carry: set if there is no borrow. The manual calls it a
// borrow, but CUDA's own 128-bit division reads it with addc after subc.cc, and there it is the carry.
template <class T>
T sub_with(T a, T b, bool& carry) {
  return add_with(a, T(~b), carry);
}

// make(T{}, reads flag, writes flag); the bits of signed and unsigned results are the same.
template <class F>
Body with_carry(const Source& s, bool in, F make) {
  const auto typed = [&](auto zero) {
    return with_flag(
        in, [&](auto i) { return with_flag(s.has("cc"), [&](auto o) { return make(zero, i, o); }); });
  };
  return bits_of(s.type()) == 64 ? typed(uint64_t{}) : typed(uint32_t{});
}

Body bind_sum(const Source& s, bool in) {
  return with_carry(s, in, [](auto zero, auto i, auto o) {
    using T = decltype(zero);
    return carrying<T, i.value, o.value, 2>([](T a, T b, bool& c) { return add_with(a, b, c); });
  });
}
Body bind_difference(const Source& s, bool in) {
  return with_carry(s, in, [](auto zero, auto i, auto o) {
    using T = decltype(zero);
    return carrying<T, i.value, o.value, 2, true>([](T a, T b, bool& c) { return sub_with(a, b, c); });
  });
}

// The high half of a product depends on signedness, the low half does not.
template <class T, class Wide, class SignedWide>
T high_of(T a, T b, bool is_signed) {
  using S = std::make_signed_t<T>;
  return is_signed ? T((SignedWide(S(a)) * SignedWide(S(b))) >> (8 * sizeof(T)))
                   : T((Wide(a) * Wide(b)) >> (8 * sizeof(T)));
}
template <bool kSigned>
uint32_t high(uint32_t a, uint32_t b) {
  return high_of<uint32_t, uint64_t, int64_t>(a, b, kSigned);
}
template <bool kSigned>
uint64_t high(uint64_t a, uint64_t b) {
  return high_of<uint64_t, unsigned __int128, __int128>(a, b, kSigned);
}

Body bind_mad(const Source& s, bool in) {
  const bool is_signed = s.type() == Type::s32 || s.type() == Type::s64;
  return with_flag(is_signed, [&](auto sign) {
    return with_carry(s, in, [&](auto zero, auto i, auto o) {
      using T = decltype(zero);
      if (s.has("hi"))
        return carrying<T, i.value, o.value, 3>(
            [](T a, T b, T c, bool& carry) { return add_with(high<decltype(sign)::value>(a, b), c, carry); });
      return carrying<T, i.value, o.value, 3>(
          [](T a, T b, T c, bool& carry) { return add_with(T(a * b), c, carry); });
    });
  });
}

}  // namespace

Body bind_add_cc(Instr&, const Source& s) { return bind_sum(s, false); }
Body bind_addc(Instr&, const Source& s) { return bind_sum(s, true); }
Body bind_sub_cc(Instr&, const Source& s) { return bind_difference(s, false); }
Body bind_subc(Instr&, const Source& s) { return bind_difference(s, true); }
Body bind_mad_cc(Instr&, const Source& s) { return bind_mad(s, false); }
Body bind_madc(Instr&, const Source& s) { return bind_mad(s, true); }

}  // namespace fp4lab::emu
