// One box of a tensor map, run by run: a run is what lies along the innermost dimension. Geometry only; the
// engine in tma.cpp moves the bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "emulator/core/error.h"
#include "emulator/engine/tensor_map.h"

namespace fp4lab::emu {

// Start coordinates in elements, dimension 0 first; room for the dimension that split_units adds.
using TensorCoordinates = std::array<int32_t, 6>;

// An interleaved map and its coordinates as those of a map that is not.
inline void split_units(TensorMap& m, TensorCoordinates& coordinates) {
  if (!m.interleave) return;
  m.split_units();
  std::shift_right(coordinates.begin(), coordinates.end(), 1);
  coordinates[0] = 0;
}

struct TensorRun {
  bool inside = false;      // some of it is in bounds; else nothing below is set
  uint64_t global = 0;      // address of the first byte in bounds
  uint32_t lo = 0, hi = 0;  // in-bounds bytes of the run: [lo, hi) of run_bytes()
};

// Run number `index` of the box at `coordinates` (elements, dimension 0 first).
inline TensorRun tensor_run(const TensorMap& m, const int32_t* coordinates, uint32_t index) {
  TensorRun run;
  int64_t base = 0;
  for (unsigned d = 1; d < m.rank; ++d) {
    const uint32_t extent = m.extent(d);
    const int64_t c = int64_t(coordinates[d]) + int64_t(index % extent) * m.element_stride[d];
    index /= extent;
    if (c < 0 || c >= static_cast<int64_t>(m.dim[d])) return run;
    base += c * static_cast<int64_t>(m.stride[d]);
  }
  const int64_t begin = int64_t(coordinates[0]) * m.element_bits() / 8;  // exact: a multiple of 16
  const int64_t limit = static_cast<int64_t>(m.dim[0] * m.element_bits() / 8) - begin;
  const int64_t bytes = m.run_bytes();
  const int64_t lo = begin < 0 ? -begin : 0, hi = limit < bytes ? limit : bytes;
  if (lo >= hi) return run;
  run.inside = true;
  run.lo = static_cast<uint32_t>(lo), run.hi = static_cast<uint32_t>(hi);
  run.global = m.address + static_cast<uint64_t>(base + begin + lo);
  return run;
}

// .tile::gather4 and .tile::scatter4: the box is one row high, and four rows follow each other in shared
// memory, each with a coordinate of its own behind that of the columns (PTX ISA 5.5.3.4).
inline TensorRun tensor_run_of_four(const TensorMap& m, const int32_t* coordinates, uint32_t index) {
  const int32_t row[2] = {coordinates[0], coordinates[1 + index]};
  return tensor_run(m, row, 0);
}
inline void four_rows(TensorMap& m) {
  if (m.rank != 2 || m.box[1] != 1)
    fault(FaultKind::tensor_map, 0,
          "four rows by a tensor map of rank {} with a box of {} rows: it must be of rank 2, with one row",
          m.rank, m.box[1]);
  m.box[1] = 4, m.element_stride[1] = 1;
}

// .im2col (PTX ISA 5.5.4): the filter's corner moves from pixel to pixel through the bounding box, W first,
// then H, D and N, in steps of the traversal strides; at the box's end it begins at the lower corner again. A
// pixel lies `offsets` beside the corner. The pixels' coordinates, rank() for each; the map's box becomes one
// column of pixels.
// Of an interleaved map, whose units were split before, the slice of channels stays.
inline std::vector<TensorCoordinates> im2col_pixels(TensorMap& m, const int32_t* coordinates,
                                                    const uint16_t* offsets) {
  const unsigned spatial = m.rank - (m.interleave ? 3u : 2u);
  TensorCoordinates corner{};
  std::copy_n(coordinates, m.rank, corner.begin());
  auto last = [&](unsigned d) { return static_cast<int64_t>(m.dim[d]) - 1 + m.upper[d - 1]; };
  for (unsigned d = 1; d <= spatial; ++d)
    if (corner[d] < m.lower[d - 1] || corner[d] > last(d))
      fault(FaultKind::misuse, 0,
            "im2col: the filter's corner {} in dimension {} is outside the bounding box, {} to {}", corner[d],
            d, m.lower[d - 1], last(d));
  std::vector<TensorCoordinates> pixels(m.pixels);
  for (auto& pixel : pixels) {
    pixel = corner;
    for (unsigned d = 1; d <= spatial; ++d) pixel[d] += offsets[d - 1];
    unsigned d = 1;
    for (; d <= spatial; ++d) {
      corner[d] += static_cast<int32_t>(m.element_stride[d]);
      if (corner[d] <= last(d)) break;
      corner[d] = m.lower[d - 1];
    }
    if (d > spatial) corner[m.rank - 1u] += static_cast<int32_t>(m.element_stride[m.rank - 1u]);
  }
  m.box[1] = m.pixels;
  m.element_stride.fill(1);
  return pixels;
}

// The value of elements out of bounds, repeated through 16 bytes. The NaN of CU_TENSOR_MAP_FLOAT_OOB_FILL is
// the 16-bit pattern 0x7ff7 in every type (seen on an H200).
inline void fill_pattern(const TensorMap& m, std::byte out[16]) {
  for (unsigned i = 0; i < 16; ++i) out[i] = m.fill ? std::byte{uint8_t(i % 2 ? 0x7f : 0xf7)} : std::byte{0};
}

// f32 to tf32 as a load does it: to nearest even, subnormal numbers too (also with ..._TFLOAT32_FTZ), and one
// NaN; what lies out of bounds is filled as it is (seen on an H200).
inline void round_to_tf32(std::byte* row, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i += 4) {
    uint32_t v;
    std::memcpy(&v, row + i, 4);
    const uint32_t magnitude = v & 0x7fffffff;
    if (magnitude > 0x7f800000)
      v = 0x7fffe000;
    else
      v = (v & 0x80000000) | ((magnitude + 0xfff + (magnitude >> 13 & 1)) & 0x7fffe000);
    std::memcpy(row + i, &v, 4);
  }
}

namespace detail {

// The swizzles with 16-byte atoms or larger are address ^ ((address >> shift) & mask).
struct Xor {
  uint32_t shift, mask;
};
constexpr Xor swizzle_xor(TensorSwizzle s) {
  switch (s) {
    case TensorSwizzle::b32:
      return {3, 0x10};
    case TensorSwizzle::b64:
      return {3, 0x30};
    case TensorSwizzle::b128:
      return {3, 0x70};
    case TensorSwizzle::b128_atom32:
      return {2, 0x60};
    case TensorSwizzle::b128_atom64:
      return {1, 0x40};
    default:
      return {0, 0};
  }
}

}  // namespace detail

// Copies the linear run `in` (pitch() bytes, padding included) to where the swizzle puts it; `linear` is the
// offset of the run's first byte in the unswizzled image, `window` the host address of offset 0.
inline void scatter_run(TensorSwizzle s, uint32_t linear, uint32_t bytes, const std::byte* in,
                        std::byte* window) {
  if (s == TensorSwizzle::none) {
    std::memcpy(window + linear, in, bytes);
  } else if (s == TensorSwizzle::b128_atom32_flip8) {
    for (uint32_t i = 0; i < bytes; i += 8) std::memcpy(window + swizzled(s, linear + i), in + i, 8);
  } else {
    const auto [shift, mask] = detail::swizzle_xor(s);
    for (uint32_t i = 0, at = linear; i < bytes; i += 16, at += 16)
      std::memcpy(window + (at ^ ((at >> shift) & mask)), in + i, 16);
  }
}

inline void gather_run(TensorSwizzle s, uint32_t linear, uint32_t bytes, std::byte* out,
                       const std::byte* window) {
  if (s == TensorSwizzle::none) {
    std::memcpy(out, window + linear, bytes);
  } else if (s == TensorSwizzle::b128_atom32_flip8) {
    for (uint32_t i = 0; i < bytes; i += 8) std::memcpy(out + i, window + swizzled(s, linear + i), 8);
  } else {
    const auto [shift, mask] = detail::swizzle_xor(s);
    for (uint32_t i = 0, at = linear; i < bytes; i += 16, at += 16)
      std::memcpy(out + i, window + (at ^ ((at >> shift) & mask)), 16);
  }
}

}  // namespace fp4lab::emu
