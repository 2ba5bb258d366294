#include "reference/limbs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fp4lab/e2m1.h"
#include "fp4lab/error.h"
#include "fp4lab/ue4m3.h"
#include "reference/limb_kernels.h"
#include "reference/parallel.h"

namespace fp4lab {
namespace {

constexpr int kChunkSteps =
    8;  // K = 512 at a time: digits of B and the part of A in use stay in the second-level cache

}  // namespace

int limbs_needed(const MmaRange& range) {
  if (range.scale_max == 0) return 1;
  const double largest = std::ldexp(double(range.scale_max), -range.lsb) * range.code_max;
  int limbs = 1;
  for (double reach = 127; largest > reach; reach = reach * 256 + 127) ++limbs;
  if (limbs > kMaxLimbs)
    fail("limbs_needed: {} units of 2^{} do not fit in {} digits", largest, range.lsb, kMaxLimbs);
  return limbs;
}

LimbTable::LimbTable(const MmaRange& range, int limbs)
    : limbs(limbs), lsb(range.scale_max == 0 ? -10 : range.lsb - 1) {
  std::memset(digit, 0, sizeof digit);
  for (unsigned scale = 0; scale < 256; ++scale) {
    if (e4m3_is_nan(scale)) continue;
    const int units = ue4m3_fixed(scale) >> (lsb + 1 + 9);  // exact for every scale in range
    for (unsigned code = 0; code < 16; ++code) {
      int value = e2m1_twice(code) * units;
      for (int limb = 0; limb < limbs; ++limb) {
        const auto low = std::int8_t(value & 0xFF);
        digit[limb][scale][code] = low;
        value = (value - low) / 256;
      }
    }
  }
}

LimbRows::LimbRows(const Operand& a, const LimbTable& table, int threads)
    : tiles_((a.rows + kLimbTile - 1) / kLimbTile), steps_((a.k + kMmaK - 1) / kMmaK), limbs_(table.limbs) {
  data_.resize(std::size_t(tiles_) * steps_ * limbs_ * kLimbTileBytes);
  parallel_for(threads, tiles_, [&](std::int64_t t) {
    const int first = int(t) * kLimbTile, rows = std::min(kLimbTile, a.rows - first);
    for (int step = 0; step < steps_; ++step)
      amx::pack_right(a, table, first, rows, step, data_.data() + offset(int(t), step));
  });
}

LimbEngine::LimbEngine(const LimbRows& a, const LimbTable& a_table, const LimbTable& b_table)
    : a_(a), b_table_(b_table), limbs_(a_table.limbs), shift_(a_table.lsb + b_table.lsb + 20) {
  if (a_table.limbs != b_table.limbs)
    fail("LimbEngine: {} digits for A, {} for B", a_table.limbs, b_table.limbs);
}

const std::int64_t* LimbEngine::exact(int first_tile, int tiles, const Operand& b, int first, int cols) {
  const int left_tiles = (cols + kLimbTile - 1) / kLimbTile, sums_count = 2 * limbs_ - 1;
  const std::size_t product_size = std::size_t(sums_count) * kLimbTile * kLimbTile;
  const std::size_t left_size = std::size_t(kChunkSteps) * limbs_ * kLimbTileBytes;
  stride_ = tiles * kLimbTile;
  sums_.resize(std::size_t(left_tiles) * kLimbTile * stride_);
  products_.resize(std::size_t(left_tiles) * tiles * product_size);
  std::fill(products_.begin(), products_.end(), 0);
  left_.resize(2 * left_size);
  const auto products = [&](int left, int right) {
    return products_.data() + (std::size_t(left) * tiles + right) * product_size;
  };
  amx::tiles_on();
  for (int step = 0; step < a_.steps(); step += kChunkSteps) {
    const int steps = std::min(kChunkSteps, a_.steps() - step);
    const auto digits = [&](int left) { return left_.data() + left % 2 * left_size; };
    const auto pack = [&](int left) {
      const int row = left * kLimbTile;
      amx::pack_left(b, b_table_, first + row, std::min(kLimbTile, cols - row), step, steps, digits(left));
    };
    const auto right_tile = [&](int right) { return a_.tile(first_tile + right, step); };
    int left = 0;
    for (; limbs_ == 1 && left + 1 < left_tiles; left += 2) {
      pack(left), pack(left + 1);
      int right = 0;
      for (; right + 1 < tiles; right += 2) {
        std::int32_t* const square[2][2] = {{products(left, right), products(left, right + 1)},
                                            {products(left + 1, right), products(left + 1, right + 1)}};
        amx::multiply_square(digits(left), digits(left + 1), right_tile(right), right_tile(right + 1), steps,
                             square);
      }
      for (; right < tiles; ++right)
        for (int i : {left, left + 1})
          amx::multiply(1, digits(i), right_tile(right), steps, products(i, right));
    }
    for (; left < left_tiles; ++left) {
      pack(left);
      for (int right = 0; right < tiles; ++right)
        amx::multiply(limbs_, digits(left), right_tile(right), steps, products(left, right));
    }
  }
  amx::tiles_off();
  for (int left = 0; left < left_tiles; ++left)
    for (int right = 0; right < tiles; ++right)
      amx::combine(products(left, right), sums_count, shift_,
                   sums_.data() + std::size_t(left) * kLimbTile * stride_ + right * kLimbTile, stride_);
  return sums_.data();
}

}  // namespace fp4lab
