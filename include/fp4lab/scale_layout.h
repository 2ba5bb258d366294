// Where a block scale lies in the blocked 128x4 layout that cuBLAS documents and that tcgen05.cp reads: atoms
// of 128 rows x 4 scales = 512 bytes, atoms ordered along K first, then along rows, then batch; inside an
// atom row r and scale s sit at (r % 32) * 16 + (r / 32) * 4 + s (CUTLASS
// detail/sm100_blockscaled_layout.hpp, cuBLAS "1D block scaling factors layout"). Storage is padded to whole
// atoms; padding is 0x00, because a NaN scale times a zero element is NaN. The same for A and B, and for 16-
// and 32-element blocks. No standard header: kernels include this file too.
#pragma once

#include "fp4lab/portable.h"

namespace fp4lab {

inline constexpr int kScaleBlock = 16;       // elements of K under one NVFP4 scale
inline constexpr int kScaleAtomRows = 128;   // rows of one atom
inline constexpr int kScaleAtomScales = 4;   // scales along K of one atom
inline constexpr int kScaleAtomBytes = 512;  // bytes of one atom

FP4LAB_HD constexpr long long scale_atoms_k(long long scales_per_row) {
  return (scales_per_row + kScaleAtomScales - 1) / kScaleAtomScales;
}
FP4LAB_HD constexpr long long scale_atoms_rows(long long rows) {
  return (rows + kScaleAtomRows - 1) / kScaleAtomRows;
}
// Bytes of one batch entry of the blocked layout, padding included.
FP4LAB_HD constexpr long long blocked_scale_bytes(long long rows, long long scales_per_row) {
  return scale_atoms_rows(rows) * scale_atoms_k(scales_per_row) * kScaleAtomBytes;
}
// Byte inside an atom.
FP4LAB_HD constexpr int scale_atom_offset(int row, int scale) {
  return (row % 32) * 16 + (row % kScaleAtomRows) / 32 * 4 + scale % kScaleAtomScales;
}
// Byte of scale `scale` of row `row`. `batch` skips whole entries and then needs `rows`.
FP4LAB_HD constexpr long long blocked_scale_offset(long long row, long long scale, long long scales_per_row,
                                                   long long batch = 0, long long rows = 0) {
  const long long atom =
      (batch * scale_atoms_rows(rows) + row / kScaleAtomRows) * scale_atoms_k(scales_per_row) +
      scale / kScaleAtomScales;
  return atom * kScaleAtomBytes + scale_atom_offset(int(row % kScaleAtomRows), int(scale % kScaleAtomScales));
}

}  // namespace fp4lab
