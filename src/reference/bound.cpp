#include <cmath>

#include "fp4lab/reference.h"

namespace fp4lab {
namespace {

Operand magnitudes(const Operand& x) {
  Operand abs = make_operand(x.rows, x.k);
  for (std::size_t i = 0; i < x.codes.size(); ++i)
    abs.codes[i] = x.codes[i] & 0x77;  // both nibbles without their sign
  for (std::size_t i = 0; i < x.scales.size(); ++i) abs.scales[i] = x.scales[i] & 0x7f;
  return abs;
}

std::vector<float> sum_bound(const Operand& a, const Operand& b) {
  std::vector<float> bound = reference_gemm_f32(magnitudes(a), magnitudes(b));
  const float steps = float(a.k) / 16 * 0x1p-23f;
  for (float& s : bound) s *= steps;
  return bound;
}

}  // namespace

std::vector<float> accumulation_bound(Operation operation, const GroupData& group) {
  std::vector<float> bound = sum_bound(group.a, group.b);
  if (operation != Operation::kDual) return bound;
  const std::vector<float> bound2 = sum_bound(group.a, group.b2);
  const std::vector<float> x = reference_gemm_f32(group.a, group.b),
                           y = reference_gemm_f32(group.a, group.b2);
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const float silu = x[i] / (1 + std::exp(-x[i]));
    bound[i] = 1.1f * bound[i] * (std::fabs(y[i]) + bound2[i]) + std::fabs(silu) * bound2[i];
  }
  return bound;
}

}  // namespace fp4lab
