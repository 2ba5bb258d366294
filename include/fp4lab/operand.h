// One NVFP4 matrix, K-major: packed e2m1 codes with a ue4m3 scale for each 16 elements along K.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fp4lab/e2m1.h"
#include "fp4lab/scale_layout.h"

namespace fp4lab {

// A vector that does not clear what it is about to be filled with: operands reach hundreds of megabytes, and
// the threads that fill them should also be the ones that first touch the pages.
template <class T>
struct UninitializedAllocator : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = UninitializedAllocator<U>;
  };
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    if constexpr (sizeof...(Args) == 0 && std::is_trivially_default_constructible_v<U>)
      ::new (static_cast<void*>(at)) U;
    else
      ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
};
using Bytes = std::vector<std::uint8_t, UninitializedAllocator<std::uint8_t>>;

struct Operand {
  int rows = 0;
  int k = 0;      // a multiple of 16
  Bytes codes;    // [rows][k / 2], low nibble = even k
  Bytes scales;   // [rows][k / 16], ue4m3
  Bytes blocked;  // the same scales, blocked 128x4 (scale_layout.h), padded with 0x00

  int scales_per_row() const { return k / kScaleBlock; }
  const std::uint8_t* code_row(int row) const { return codes.data() + std::size_t(row) * (k / 2); }
  const std::uint8_t* scale_row(int row) const {
    return scales.data() + std::size_t(row) * (k / kScaleBlock);
  }
};

// Sizes codes and scales for rows x k and leaves their bytes unset; blocked stays empty until block_scales.
// Fails where k is not a multiple of 16 or a size is negative.
Operand make_operand(int rows, int k);

// Row-major scales [rows][scales_per_row] to the blocked layout, and back.
Bytes block_scales(std::span<const std::uint8_t> scales, int rows, int scales_per_row);
Bytes unblock_scales(std::span<const std::uint8_t> blocked, int rows, int scales_per_row);

// The matrix as fp32 values [rows][k], every one exact (6 significant bits).
std::vector<float> dequantize(const Operand& operand);

}  // namespace fp4lab
