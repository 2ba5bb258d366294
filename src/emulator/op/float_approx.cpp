// The approximate f32 functions (PTX ISA 9.7.3): computed in double and rounded to nearest, which is within
// the manual's error bounds, but not bit for bit what the hardware's tables give: fidelity `bounded`.
#include <cmath>

#include "emulator/isa/opcode.h"
#include "emulator/op/rounding.h"

namespace fp4lab::emu {

namespace {

template <class F>
Body approximate1(const Source& s, F) {
  return with_flag(s.has("ftz"), [](auto ftz) {
    using E = Edges<float, decltype(ftz)::value>;
    return map1<float>([](float a) { return E::out(float(F{}(double(E::in(a))))); });
  });
}

template <class F>
Body approximate2(const Source& s, F) {
  return with_flag(s.has("ftz"), [](auto ftz) {
    using E = Edges<float, decltype(ftz)::value>;
    return map2<float>(
        [](float a, float b) { return E::out(float(F{}(double(E::in(a)), double(E::in(b))))); });
  });
}

// div.approx computes a * (1/b), and 1/b is flushed to zero for |b| > 2^126: the quotient is then a zero, or
// NaN for an infinite a.
double divide_approx(double a, double b) {
  if (std::abs(b) > 0x1p126 && std::isfinite(b)) return a * std::copysign(0.0, b);
  return a / b;
}

// rcp/rsqrt.approx.ftz.f64 see the upper 32 bits of their operand and give the upper 32 bits of the result.
template <class F>
Body upper_half(F) {
  return map1<uint64_t>([](uint64_t a) -> uint64_t {
    constexpr uint64_t kUpper = 0xffffffff00000000, kSign = uint64_t(1) << 63,
                       kExponent = uint64_t(0x7ff) << 52;
    a &= kUpper;
    if ((a & kExponent) == 0) a &= kSign;  // subnormals are flushed
    const double v = F{}(std::bit_cast<double>(a));
    if (v != v) return 0x7fffffff00000000;
    uint64_t bits = std::bit_cast<uint64_t>(v);
    if ((bits & kExponent) != kExponent) bits += 0x80000000;  // to the nearest 1.11.20 value
    bits &= kUpper;
    return (bits & kExponent) == 0 ? bits & kSign : bits;
  });
}

}  // namespace

Body bind_div_approx(Instr&, const Source& s) {
  return approximate2(s, [](double a, double b) { return divide_approx(a, b); });
}
Body bind_div_full(Instr&, const Source& s) {
  return approximate2(s, [](double a, double b) { return a / b; });
}
Body bind_rcp_approx(Instr&, const Source& s) {
  return approximate1(s, [](double a) { return 1 / a; });
}
Body bind_sqrt_approx(Instr&, const Source& s) {
  return approximate1(s, [](double a) { return std::sqrt(a); });
}
Body bind_rsqrt_approx(Instr&, const Source& s) {
  return approximate1(s, [](double a) { return 1 / std::sqrt(a); });
}
Body bind_rsqrt_f64(Instr&, const Source&) {
  return map1<double>([](double a) { return a == a ? canonical(1 / std::sqrt(a)) : quiet(a); });
}
Body bind_sin(Instr&, const Source& s) {
  return approximate1(s, [](double a) { return std::sin(a); });
}
Body bind_cos(Instr&, const Source& s) {
  return approximate1(s, [](double a) { return std::cos(a); });
}
Body bind_lg2(Instr&, const Source& s) {
  return approximate1(s, [](double a) { return std::log2(a); });
}
Body bind_ex2(Instr&, const Source& s) {
  return approximate1(s, [](double a) { return std::exp2(a); });
}
Body bind_tanh(Instr&, const Source& s) {
  return approximate1(s, [](double a) { return std::tanh(a); });
}
Body bind_rcp_upper(Instr&, const Source&) {
  return upper_half([](double a) { return 1 / a; });
}
Body bind_rsqrt_upper(Instr&, const Source&) {
  return upper_half([](double a) { return 1 / std::sqrt(a); });
}

}  // namespace fp4lab::emu
