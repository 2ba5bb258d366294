// Logic and shifts (PTX ISA 9.7.8) and prmt (9.7.9.7).
#include <algorithm>

#include "emulator/isa/opcode.h"
#include "emulator/op/bits.h"
#include "emulator/op/map.h"

namespace fp4lab::emu {

namespace {

// and, or, xor, not of predicates work on lane masks.
template <class F>
Body masks2(F) {
  return [](Warp& w, const Instr& i) { w.set_mask(i.op[0], F{}(w.mask(i.op[1]), w.mask(i.op[2]))); };
}

template <class F>
Body bitwise2(const Source& s, F f) {
  if (s.type() == Type::pred) return masks2(f);
  return with_bits(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map2<T>([](T a, T b) { return T(F{}(a, b)); });
  });
}

// Combines lop3's "any bit set" predicate with q, or returns it if there is no boolean operator.
enum class Combine { none, with_or, with_and };

template <Combine kCombine>
void lop3(Warp& w, const Instr& i) {
  const auto* a = w.source<uint32_t>(i.op[kCombine == Combine::none ? 1 : 2]);
  const auto* b = w.source<uint32_t>(i.op[kCombine == Combine::none ? 2 : 3]);
  const auto* c = w.source<uint32_t>(i.op[kCombine == Combine::none ? 3 : 4]);
  auto* d = w.target<uint32_t>(i.op[0]);
  const uint8_t table = uint8_t(i.aux);
  if constexpr (kCombine == Combine::none) {
    for_lanes(w.active, [&](unsigned l) { d[l] = bits::lop3(a[l], b[l], c[l], table); });
  } else {
    const uint32_t q = w.mask(i.op[6]);
    uint32_t any = 0;
    for_lanes(w.active, [&](unsigned l) {
      d[l] = bits::lop3(a[l], b[l], c[l], table);
      any |= uint32_t(d[l] != 0) << l;
    });
    w.set_mask(i.op[1], kCombine == Combine::with_or ? any | q : any & q);
  }
}

// shr.u64 and shr.b64 by a constant: the bytes that are shifted out need not be written, since nvcc extracts
// the upper word of a pair whose lower word it never wrote. aux: the amount, at most 63.
void upper_part(Warp& w, const Instr& i) {
  const auto* a = w.source_bytes<uint64_t>(i.op[1], uint8_t(0xff << i.aux / 8));
  auto* d = w.target<uint64_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) { d[l] = a[l] >> i.aux; });
}

}  // namespace

Body bind_and(Instr&, const Source& s) {
  return bitwise2(s, [](auto a, auto b) { return a & b; });
}
Body bind_or(Instr&, const Source& s) {
  return bitwise2(s, [](auto a, auto b) { return a | b; });
}
Body bind_xor(Instr&, const Source& s) {
  return bitwise2(s, [](auto a, auto b) { return a ^ b; });
}
Body bind_not(Instr&, const Source& s) {
  if (s.type() == Type::pred) return [](Warp& w, const Instr& i) { w.set_mask(i.op[0], ~w.mask(i.op[1])); };
  return with_bits(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map1<T>([](T a) { return T(~a); });
  });
}
Body bind_cnot(Instr&, const Source& s) {
  return with_bits(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map1<T>([](T a) { return T(a == 0); });
  });
}

Body bind_lop3(Instr& i, const Source&) {
  i.aux = uint64_t(i.op[4].displacement);
  return lop3<Combine::none>;
}
Body bind_lop3_pred(Instr& i, const Source& s) {
  i.aux = uint64_t(i.op[5].displacement);
  return s.has("or") ? lop3<Combine::with_or> : lop3<Combine::with_and>;
}

// Shift amounts above the width are clamped to it: the result is all zeros, or all sign bits for shr.s.
Body bind_shl(Instr&, const Source& s) {
  return with_bits(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map2<T, T, uint32_t>([](T a, uint32_t b) { return b >= 8 * sizeof(T) ? T(0) : T(a << b); });
  });
}
Body bind_shr(Instr& i, const Source& s) {
  const bool is_constant = i.op[2].immediate && uint32_t(i.op[2].displacement) < 64;
  if (is_constant && (s.type() == Type::u64 || s.type() == Type::b64)) {
    i.aux = uint32_t(i.op[2].displacement);
    return upper_part;
  }
  return with_integer(s.type(), [](auto zero) {
    using T = decltype(zero);
    return map2<T, T, uint32_t>([](T a, uint32_t b) {
      constexpr uint32_t msb = 8 * sizeof(T) - 1;
      return T(T(a >> std::min(b, msb)) >> (b > msb));
    });
  });
}
Body bind_shf(Instr&, const Source& s) {
  return with_flag(s.has("wrap"), [&](auto wrap) {
    constexpr bool kWrap = decltype(wrap)::value;
    if (s.has("l"))
      return map3<uint32_t>([](uint32_t a, uint32_t b, uint32_t c) { return bits::shf_l<kWrap>(a, b, c); });
    return map3<uint32_t>([](uint32_t a, uint32_t b, uint32_t c) { return bits::shf_r<kWrap>(a, b, c); });
  });
}

Body bind_prmt(Instr&, const Source& s) {
  using bits::PrmtMode;
  const auto special = [](auto mode) {
    return map3<uint32_t>([](uint32_t a, uint32_t b, uint32_t c) {
      return bits::prmt(a, b, bits::prmt_selector(decltype(mode)::value, c & 3));
    });
  };
  if (s.has("f4e")) return special(std::integral_constant<PrmtMode, PrmtMode::f4e>{});
  if (s.has("b4e")) return special(std::integral_constant<PrmtMode, PrmtMode::b4e>{});
  if (s.has("rc8")) return special(std::integral_constant<PrmtMode, PrmtMode::rc8>{});
  if (s.has("ecl")) return special(std::integral_constant<PrmtMode, PrmtMode::ecl>{});
  if (s.has("ecr")) return special(std::integral_constant<PrmtMode, PrmtMode::ecr>{});
  if (s.has("rc16")) return special(std::integral_constant<PrmtMode, PrmtMode::rc16>{});
  return map3<uint32_t>([](uint32_t a, uint32_t b, uint32_t c) { return bits::prmt(a, b, c); });
}

}  // namespace fp4lab::emu
