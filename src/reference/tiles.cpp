#include "reference/tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference/parallel.h"

namespace fp4lab {
namespace {

constexpr int kChunkSteps = 8;  // steps of B unpacked at a time

int steps_of(int k) { return (k + kMmaK - 1) / kMmaK; }

}  // namespace

PackedRows::PackedRows(const Operand& a, Simd simd, int threads) : rows_(a.rows), steps_(steps_of(a.k)) {
  const std::size_t count = std::size_t(rows_) * steps_;
  codes_.resize(count * kMmaK);
  scale_codes_.resize(count * kMmaGroups);
  bias_.resize(count * kMmaGroups);
  scale_.resize(count * kMmaGroups);
  power_.resize(count * kMmaGroups);
  nan_.resize(count);
  ranges_.resize(std::size_t(blocks()) * steps_);
  const MmaKernels& kernels = mma_kernels(simd);
  parallel_for(threads, std::int64_t(blocks()) * steps_, [&](std::int64_t task) {
    const int block = int(task / steps_), step = int(task % steps_), rows = block_rows(block);
    const int k = step * kMmaK, width = std::min(kMmaK, a.k - k);
    const std::size_t base = at(block, step);
    for (int row = 0; row < rows; ++row) {
      const int source = block * kRowBlock + row;
      std::int8_t* codes = &codes_[(base + row) * kMmaK];
      std::uint8_t* scales = &scale_codes_[(base + row) * kMmaGroups];
      std::memset(codes + width, 0, kMmaK - width);
      std::memset(scales, 0, kMmaGroups);
      kernels.unpack_e2m1_twice(a.code_row(source) + k / 2, width, codes);
      std::memcpy(scales, a.scale_row(source) + k / kScaleBlock, width / kScaleBlock);
    }
    ranges_[std::size_t(task)] = pack_rows(
        &codes_[base * kMmaK], &scale_codes_[base * kMmaGroups], rows, ScaleFormat::kUe4m3,
        &bias_[base * kMmaGroups], &scale_[base * kMmaGroups], &power_[base * kMmaGroups], &nan_[base]);
  });
}

MmaRows PackedRows::step(int block, int step) const {
  const std::size_t base = at(block, step);
  return {block_rows(block),
          &codes_[base * kMmaK],
          &bias_[base * kMmaGroups],
          &scale_[base * kMmaGroups],
          &power_[base * kMmaGroups],
          &nan_[base],
          &scale_codes_[base * kMmaGroups],
          ranges_[std::size_t(block) * steps_ + step]};
}

TileEngine::TileEngine(const PackedRows& a, Simd simd) : a_(a), kernels_(mma_kernels(simd)) {
  codes_.resize(std::size_t(kernels_.panel) * kChunkSteps * kMmaK);
}

template <class F>
void TileEngine::each_step(const Operand& b, int first, F f) {
  const int cols = std::min(kernels_.panel, b.rows - first);
  const int stride = kChunkSteps * kMmaK;
  MmaPanel panel;
  for (int step = 0; step < a_.steps(); ++step) {
    const int k = step * kMmaK;
    if (step % kChunkSteps == 0) {
      const int width = std::min(stride, b.k - k);
      for (int col = 0; col < cols; ++col) {
        std::int8_t* codes = &codes_[std::size_t(col) * stride];
        kernels_.unpack_e2m1_twice(b.code_row(first + col) + k / 2, width, codes);
        std::memset(codes + width, 0, stride - width);
      }
    }
    const std::int8_t* codes = &codes_[std::size_t(step % kChunkSteps) * kMmaK];
    if (k + kMmaK <= b.k) {
      kernels_.pack_panel(codes, stride, b.scale_row(first) + k / kScaleBlock, b.scales_per_row(), cols,
                          ScaleFormat::kUe4m3, false, panel);
    } else {
      std::uint8_t scales[kMaxPanel * kMmaGroups] = {};
      for (int col = 0; col < cols; ++col)
        std::memcpy(scales + col * kMmaGroups, b.scale_row(first + col) + k / kScaleBlock,
                    (b.k - k) / kScaleBlock);
      kernels_.pack_panel(codes, stride, scales, kMmaGroups, cols, ScaleFormat::kUe4m3, false, panel);
    }
    f(step, panel);
  }
}

const float* TileEngine::tensor_core(int block, const Operand& b, int first) {
  sums_.assign(std::size_t(a_.block_rows(block)) * panel(), 0.0f);
  each_step(b, first, [&](int step, const MmaPanel& p) {
    kernels_.step_tensor_core(a_.step(block, step), p, ScaleFormat::kUe4m3, step != 0, sums_.data(), panel());
  });
  return sums_.data();
}

const std::int64_t* TileEngine::exact(int block, const Operand& b, const MmaBound& bound, int first) {
  const std::size_t count = std::size_t(a_.block_rows(block)) * panel();
  exact_.assign(count, 0);
  if (bound.units == 0) return exact_.data();
  const double int_steps = std::floor(double(0x7FFFFFFF) / bound.units);
  if (int_steps >= 1) {
    ints_.assign(count, 0);
    const int shift = bound.lsb - kExactUnit;
    int left = int(std::min(int_steps, 1e9));
    const int per_flush = left;
    each_step(b, first, [&](int step, const MmaPanel& p) {
      kernels_.step_exact_int32(a_.step(block, step), p, bound.lsb, ints_.data());
      if (--left > 0 && step + 1 < a_.steps()) return;
      left = per_flush;
      for (std::size_t i = 0; i < count; ++i)
        exact_[i] += std::int64_t(ints_[i]) * (std::int64_t(1) << shift), ints_[i] = 0;
    });
    return exact_.data();
  }
  // 2^49 units per step at most, so a double takes 16 of them.
  doubles_.assign(count, 0.0);
  const int per_flush = int(std::min(0x1p53 / bound.units, 1e9));
  int left = per_flush;
  each_step(b, first, [&](int step, const MmaPanel& p) {
    kernels_.step_exact_double(a_.step(block, step), p, doubles_.data());
    if (--left > 0 && step + 1 < a_.steps()) return;
    left = per_flush;
    for (std::size_t i = 0; i < count; ++i) {
      exact_[i] += std::int64_t(doubles_[i] * 0x1p20);
      doubles_[i] = 0;
    }
  });
  return exact_.data();
}

}  // namespace fp4lab
