// fp32 to NVFP4: one fp32 factor for the tensor, one ue4m3 scale for each 16 elements along K, e2m1 elements.
#pragma once

#include <span>

#include "fp4lab/operand.h"

namespace fp4lab {

// The tensor factor that puts the largest element at the top of both ranges: 448 * 6 / amax, and 1 for amax
// 0.
float nvfp4_global_scale(float amax);

struct QuantizedBlock {
  std::uint8_t scale = 0;      // ue4m3
  std::uint8_t codes[8] = {};  // 16 e2m1 codes, low nibble first
};

// One block: scale = e4m3(global * amax / 6), element = e2m1(x * global / scale); both round to nearest even.
// The scaled element is compared with the e2m1 boundaries exactly, so no division or product rounds on the
// way. A block whose scale rounds to 0 has codes 0 (sign kept). Fails on NaN and infinity, with the element.
QuantizedBlock quantize_block(std::span<const float, kScaleBlock> values, float global);

// Row-major fp32 [rows][k] with k % 16 == 0; the blocked scales are filled too. x ~ e2m1 * scale / global.
Operand quantize_nvfp4(std::span<const float> values, int rows, int k, float global);

}  // namespace fp4lab
