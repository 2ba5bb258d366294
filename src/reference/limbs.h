// The exact product on AMX int8 tiles. Every element times its scale is an integer of at most 22 bits in
// units of the lowest scale bit that occurs; it is written in balanced digits of base 256, v = d0 + 256 d1 +
// 65536 d2 with d in -128..127, and the product of two matrices becomes the sum of their digit products, each
// of them an int8 product with int32 sums that cannot overflow. How many digits are needed depends on the
// scales that occur: scales {1, 2} need one, all of ue4m3 needs three.
#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include "fp4lab/operand.h"
#include "numerics/mma_panel.h"

namespace fp4lab {

inline constexpr int kMaxLimbs = 3;
inline constexpr int kLimbTile = 16;  // rows of a tile, which is 64 elements of K wide
inline constexpr int kLimbTileBytes = 1024;
inline constexpr int kLimbMaxK = 32768;   // 3 digit products of 2^14 each stay within 31 bits up to here
inline constexpr int kLimbColumns = 128;  // columns of B per task

// Digits needed for the operand with this range.
int limbs_needed(const MmaRange& range);

// Digits of code * scale for every scale code and every e2m1 code.
struct LimbTable {
  LimbTable(const MmaRange& range, int limbs);
  int limbs;
  int lsb;  // exponent of the unit: the lowest scale bit, times 1/2 for the codes being twice the value
  alignas(16) std::int8_t digit[kMaxLimbs][256][16];  // NaN scales: zeros
};

// Tiles are loaded by cache lines, so their memory starts at one. Like Bytes, not cleared.
template <class T>
struct TileAllocator : UninitializedAllocator<T> {
  template <class U>
  struct rebind {
    using other = TileAllocator<U>;
  };
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(64)));
  }
  void deallocate(T* at, std::size_t) { ::operator delete(at, std::align_val_t(64)); }
};
template <class T>
using TileVector = std::vector<T, TileAllocator<T>>;

// A in tiles of 16 rows x 64 K, four K to a row of the tile as tdpbssd wants its second operand; shared by
// all threads.
class LimbRows {
 public:
  LimbRows(const Operand& a, const LimbTable& table, int threads);
  int tiles() const { return tiles_; }
  int steps() const { return steps_; }
  const std::int8_t* tile(int tile, int step) const { return data_.data() + offset(tile, step); }

 private:
  std::size_t offset(int tile, int step) const {
    return (std::size_t(tile) * steps_ + step) * limbs_ * kLimbTileBytes;
  }
  int tiles_, steps_, limbs_;
  TileVector<std::int8_t> data_;
};

// One thread's exact sums.
class LimbEngine {
 public:
  LimbEngine(const LimbRows& a, const LimbTable& a_table, const LimbTable& b_table);
  // Rows [16 * first_tile, 16 * (first_tile + tiles)) of A against columns first .. first + cols, in units of
  // 2^-20: element (row, col) at [col * stride() + row]. Valid until the next call.
  const std::int64_t* exact(int first_tile, int tiles, const Operand& b, int first, int cols);
  int stride() const { return stride_; }

 private:
  const LimbRows& a_;
  const LimbTable& b_table_;
  int limbs_, shift_, stride_ = 0;
  TileVector<std::int64_t> sums_;
  TileVector<std::int32_t> products_;
  TileVector<std::int8_t> left_;
};

}  // namespace fp4lab
