// f32x2: two independent f32 operations on the halves of 64-bit registers (sm_100, PTX ISA 9.7.3.3
// to 9.7.3.6).
#include "emulator/isa/opcode.h"
#include "emulator/op/float_fma.h"
#include "emulator/op/rounding.h"

namespace fp4lab::emu {

namespace {

template <Round kRound, class E, unsigned kOperands, class F>
Body pairs(F) {
  return [](Warp& w, const Instr& i) {
    const auto* a = w.source<uint64_t>(i.op[1]);
    const auto* b = w.source<uint64_t>(i.op[2]);
    const auto* c = kOperands > 2 ? w.source<uint64_t>(i.op[3]) : a;
    auto* d = w.target<uint64_t>(i.op[0]);
    const ScopedRounding<kRound> mode;
    for_lanes(w.active, [&](unsigned l) {
      uint64_t result = 0;
      for (unsigned shift = 0; shift < 64; shift += 32) {
        const auto in = [&](uint64_t cell) {
          const float v = E::in(std::bit_cast<float>(uint32_t(cell >> shift)));
          return kRound == Round::rn ? v : opaque(v);
        };
        float v;
        if constexpr (kOperands == 2)
          v = F{}(in(a[l]), in(b[l]));
        else
          v = F{}(in(a[l]), in(b[l]), in(c[l]));
        if (kRound != Round::rn) v = opaque(v);
        result |= uint64_t(std::bit_cast<uint32_t>(E::out(v))) << shift;
      }
      d[l] = result;
    });
  };
}

template <unsigned kOperands, class F>
Body bind_pairs(const Source& s, F) {
  return with_rounding<float>(s, [](auto round, auto edges) {
    return pairs<decltype(round)::value, decltype(edges), kOperands>(F{});
  });
}

}  // namespace

Body bind_add_f32x2(Instr&, const Source& s) {
  return bind_pairs<2>(s, [](float a, float b) { return a + b; });
}
Body bind_sub_f32x2(Instr&, const Source& s) {
  return bind_pairs<2>(s, [](float a, float b) { return a - b; });
}
Body bind_mul_f32x2(Instr&, const Source& s) {
  return bind_pairs<2>(s, [](float a, float b) { return a * b; });
}
Body bind_fma_f32x2(Instr&, const Source& s) {
  return bind_pairs<3>(s, [](float a, float b, float c) { return fused(a, b, c); });
}

}  // namespace fp4lab::emu
