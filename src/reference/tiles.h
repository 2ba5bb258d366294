// The product of two operands, tile by tile: up to 256 rows of A against one panel of columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fp4lab/operand.h"
#include "numerics/mma_panel.h"

namespace fp4lab {

inline constexpr int kRowBlock = 256;
inline constexpr int kExactUnit = -20;      // every exact sum is a multiple of 2^-20: 1/4 * 2^-9 * 2^-9
inline constexpr int kMaxExactK = 1 << 20;  // 2^47 per group of 16 leaves room for 2^16 groups in 63 bits

// A, unpacked and laid out step by step, shared by all threads.
class PackedRows {
 public:
  PackedRows(const Operand& a, Simd simd, int threads);
  int blocks() const { return (rows_ + kRowBlock - 1) / kRowBlock; }
  int steps() const { return steps_; }
  int block_rows(int block) const { return std::min(kRowBlock, rows_ - block * kRowBlock); }
  MmaRows step(int block, int step) const;

 private:
  std::size_t at(int block, int step) const {
    return std::size_t(block) * kRowBlock * steps_ + std::size_t(step) * block_rows(block);
  }
  int rows_, steps_;
  std::vector<std::int8_t> codes_;
  Bytes scale_codes_;
  std::vector<std::int32_t> bias_;
  std::vector<float> scale_, power_;
  Bytes nan_;
  std::vector<MmaRange> ranges_;
};

// One thread's way from packed B to the sums of a tile.
class TileEngine {
 public:
  TileEngine(const PackedRows& a, Simd simd);
  int panel() const { return kernels_.panel; }
  // Sums of rows of `block` and columns first .. first + panel of A * B^T, [row][panel]; valid until the next
  // call.
  const float* tensor_core(int block, const Operand& b, int first);
  // In units of 2^kExactUnit; NaN scales count as 0. `bound` is that of both operands' ranges for kMmaGroups
  // groups.
  const std::int64_t* exact(int block, const Operand& b, const MmaBound& bound, int first);

 private:
  // f(step, panel) for all steps, the panel being packed on the way.
  template <class F>
  void each_step(const Operand& b, int first, F f);

  const PackedRows& a_;
  const MmaKernels& kernels_;
  std::vector<float> sums_;
  std::vector<std::int64_t> exact_;
  std::vector<std::int32_t> ints_;
  std::vector<double> doubles_;
  std::vector<std::int8_t> codes_;
};

}  // namespace fp4lab
