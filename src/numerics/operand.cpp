#include "fp4lab/operand.h"

#include <algorithm>
#include <cstring>

#include "fp4lab/error.h"
#include "fp4lab/ue4m3.h"

namespace fp4lab {

Operand make_operand(int rows, int k) {
  if (rows < 0 || k < 0 || k % kScaleBlock != 0)
    fail("operand of {} rows x K {}: K must be a multiple of {}, one scale's block", rows, k, kScaleBlock);
  Operand operand;
  operand.rows = rows;
  operand.k = k;
  operand.codes.resize(std::size_t(rows) * (k / 2));
  operand.scales.resize(std::size_t(rows) * (k / kScaleBlock));
  return operand;
}

Bytes block_scales(std::span<const std::uint8_t> scales, int rows, int scales_per_row) {
  if (scales.size() != std::size_t(rows) * scales_per_row)
    fail("block_scales: {} bytes for {} rows x {} scales", scales.size(), rows, scales_per_row);
  Bytes blocked(std::size_t(blocked_scale_bytes(rows, scales_per_row)));
  const bool padded = rows % kScaleAtomRows != 0 || scales_per_row % kScaleAtomScales != 0;
  if (padded) std::fill(blocked.begin(), blocked.end(), std::uint8_t(0));
  for (int row = 0; row < rows; ++row) {
    const std::uint8_t* from = scales.data() + std::size_t(row) * scales_per_row;
    std::uint8_t* to = blocked.data() + blocked_scale_offset(row, 0, scales_per_row);
    int scale = 0;
    for (; scale + 4 <= scales_per_row; scale += 4, to += kScaleAtomBytes) std::memcpy(to, from + scale, 4);
    for (int rest = 0; scale + rest < scales_per_row; ++rest) to[rest] = from[scale + rest];
  }
  return blocked;
}

Bytes unblock_scales(std::span<const std::uint8_t> blocked, int rows, int scales_per_row) {
  if (blocked.size() != std::size_t(blocked_scale_bytes(rows, scales_per_row)))
    fail("unblock_scales: {} bytes, but {} rows x {} scales take {}", blocked.size(), rows, scales_per_row,
         blocked_scale_bytes(rows, scales_per_row));
  Bytes scales(std::size_t(rows) * scales_per_row);
  for (int row = 0; row < rows; ++row)
    for (int scale = 0; scale < scales_per_row; ++scale)
      scales[std::size_t(row) * scales_per_row + scale] =
          blocked[std::size_t(blocked_scale_offset(row, scale, scales_per_row))];
  return scales;
}

std::vector<float> dequantize(const Operand& operand) {
  std::vector<float> values(std::size_t(operand.rows) * operand.k);
  for (int row = 0; row < operand.rows; ++row) {
    float* out = values.data() + std::size_t(row) * operand.k;
    for (int k = 0; k < operand.k; ++k)
      out[k] = e2m1_value(e2m1_unpack(operand.code_row(row), k)) *
               ue4m3_value(operand.scale_row(row)[k / kScaleBlock]);
  }
  return values;
}

}  // namespace fp4lab
