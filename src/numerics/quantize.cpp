#include "fp4lab/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "fp4lab/error.h"
#include "fp4lab/ue4m3.h"

namespace fp4lab {
namespace {

// e2m1 of x * global / scale without rounding the quotient: 2 * |x| * global is exact in double (48 bits),
// and so is each boundary times the scale (at most 4 + 4 bits), so the comparison is exact.
unsigned encode_scaled(float x, float global, float scale) {
  constexpr struct {
    double boundary;
    bool tie_up;  // the upper neighbour has the even code
  } kSteps[] = {{0.25, false}, {0.75, true}, {1.25, false}, {1.75, true},
                {2.5, false},  {3.5, true},  {5.0, false}};
  const double scaled = std::fabs(double(x) * double(global));
  unsigned code = 0;
  for (const auto& step : kSteps) {
    const double limit = step.boundary * double(scale);
    code += unsigned(scaled > limit || (step.tie_up && scaled == limit));
  }
  return code | (std::signbit(x) ? 8u : 0u);
}

}  // namespace

float nvfp4_global_scale(float amax) {
  if (!(amax >= 0) || std::isinf(amax)) fail("nvfp4_global_scale: amax is {}", amax);
  if (amax == 0) return 1.0f;
  return std::min(kE4m3Max * kE2m1Max / amax, 0x1.fffffep127f);
}

QuantizedBlock quantize_block(std::span<const float, kScaleBlock> values, float global) {
  if (!(global > 0) || std::isinf(global)) fail("quantize_block: the tensor factor is {}", global);
  float amax = 0;
  for (int i = 0; i < kScaleBlock; ++i) {
    if (!std::isfinite(values[i])) fail("quantize_block: element {} of the block is {}", i, values[i]);
    amax = std::max(amax, std::fabs(values[i]));
  }
  QuantizedBlock block;
  // The quotient by 6 is rounded to odd in double before e4m3 rounds it: a tie is then only seen where there
  // is one.
  const double product = double(amax) * double(global);
  double sixth = product / 6.0;
  const double remainder = std::fma(-sixth, 6.0, product);
  if (remainder != 0) {
    if (remainder < 0) sixth = std::nextafter(sixth, 0.0);
    auto bits = std::bit_cast<std::uint64_t>(sixth);
    sixth = std::bit_cast<double>(bits | 1);
  }
  // To float with round to odd as well (24 bits leave 20 below e4m3's last), so that one RNE decides.
  float to_float = float(sixth);
  if (double(to_float) != sixth && std::isfinite(to_float)) {
    if (double(to_float) > sixth) to_float = std::nextafter(to_float, 0.0f);
    to_float = float_from_bits(float_bits(to_float) | 1u);
  }
  block.scale = ue4m3_encode(to_float);
  const float scale = ue4m3_value(block.scale);
  for (int i = 0; i < kScaleBlock; i += 2) {
    unsigned pair[2];
    for (int j = 0; j < 2; ++j)
      pair[j] = block.scale == 0 ? (std::signbit(values[i + j]) ? 8u : 0u)
                                 : encode_scaled(values[i + j], global, scale);
    block.codes[i / 2] = e2m1_pack(pair[0], pair[1]);
  }
  return block;
}

Operand quantize_nvfp4(std::span<const float> values, int rows, int k, float global) {
  if (values.size() != std::size_t(rows) * k)
    fail("quantize_nvfp4: {} values for {} x {}", values.size(), rows, k);
  Operand operand = make_operand(rows, k);
  for (std::size_t block = 0; block < operand.scales.size(); ++block) {
    const QuantizedBlock q = quantize_block(values.subspan(block * kScaleBlock).first<kScaleBlock>(), global);
    operand.scales[block] = q.scale;
    std::copy(std::begin(q.codes), std::end(q.codes), operand.codes.begin() + std::ptrdiff_t(block * 8));
  }
  operand.blocked = block_scales(operand.scales, rows, operand.scales_per_row());
  return operand;
}

}  // namespace fp4lab
