// The approximate functions of f32 and f64 (PTX ISA 9.7.3): the multifunction unit's, with the code that
// ptxas 13.0 adds where the manual requires denormals or a larger range. The bits are an H200's.
#include "emulator/op/float_approx.h"

#include <cmath>

#include "emulator/isa/opcode.h"
#include "emulator/op/rounding.h"

namespace fp4lab::emu {

namespace {

// make for `.ftz`, which is the unit itself, or with the steps that preserve denormals.
template <class Flushing, class Keeping>
Body approximate1(const Source& s, Flushing, Keeping) {
  if (s.has("ftz")) return map1<float>([](float a) { return canonical(Flushing{}(a)); });
  return map1<float>([](float a) { return canonical(Keeping{}(a)); });
}
template <class Both>
Body approximate1(Both) {
  return map1<float>([](float a) { return canonical(Both{}(a)); });
}

template <class Flushing, class Keeping>
Body approximate2(const Source& s, Flushing, Keeping) {
  if (s.has("ftz")) return map2<float>([](float a, float b) { return canonical(Flushing{}(a, b)); });
  return map2<float>([](float a, float b) { return canonical(Keeping{}(a, b)); });
}

// Works on the upper halves of f64 values; the lower half of the result is zero.
template <class F>
Body upper_half(F) {
  return map1<uint64_t>([](uint64_t a) { return uint64_t(F{}(uint32_t(a >> 32))) << 32; });
}

}  // namespace

Body bind_div_approx(Instr&, const Source& s) {
  return approximate2(
      s, [](float a, float b) { return approx::multiply_ftz(a, mufu::rcp(b)); },
      [](float a, float b) { return approx::divide(a, b); });
}
Body bind_div_full(Instr&, const Source& s) {
  return approximate2(
      s, [](float a, float b) { return approx::divide_full_ftz(a, b); },
      [](float a, float b) { return approx::divide_full(a, b); });
}
Body bind_rcp_approx(Instr&, const Source& s) {
  return approximate1(
      s, [](float a) { return mufu::rcp(a); }, [](float a) { return approx::rcp(a); });
}
Body bind_sqrt_approx(Instr&, const Source& s) {
  return approximate1(
      s, [](float a) { return mufu::sqrt(a); }, [](float a) { return approx::sqrt(a); });
}
Body bind_rsqrt_approx(Instr&, const Source& s) {
  return approximate1(
      s, [](float a) { return mufu::rsq(a); }, [](float a) { return approx::rsqrt(a); });
}
Body bind_lg2(Instr&, const Source& s) {
  return approximate1(
      s, [](float a) { return mufu::lg2(a); }, [](float a) { return approx::lg2(a); });
}
Body bind_ex2(Instr&, const Source& s) {
  return approximate1(
      s, [](float a) { return mufu::ex2(a); }, [](float a) { return approx::ex2(a); });
}
Body bind_sin(Instr&, const Source&) {
  return approximate1([](float a) { return mufu::sin(approx::turns(a)); });
}
Body bind_cos(Instr&, const Source&) {
  return approximate1([](float a) { return mufu::cos(approx::turns(a)); });
}
Body bind_tanh(Instr&, const Source&) {
  return approximate1([](float a) { return mufu::tanh(a); });
}
Body bind_rcp_upper(Instr&, const Source&) {
  return upper_half([](uint32_t a) { return mufu::rcp64h(a); });
}
Body bind_rsqrt_upper(Instr&, const Source&) {
  return upper_half([](uint32_t a) { return mufu::rsq64h(a); });
}
Body bind_rsqrt_f64(Instr&, const Source&) {
  return map1<double>([](double a) { return approx::rsqrt_f64(a); });
}

}  // namespace fp4lab::emu
