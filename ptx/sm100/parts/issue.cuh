// Multiplying one stage with few instructions: one thread issues everything, so what it computes beside the
// copies and MMAs is time that the tensor core may wait. Descriptors are made once for the kernel, moved to
// the stage by a multiplication, and from there only immediates are added. For each K = 64 the scales' copies
// come first, then the MMAs that share the left tile, next to each other.
#pragma once
#include "isa/tcgen05.cuh"
#include "sm100/parts/tiles.cuh"

namespace fp4lab {

// Where a stage's operands and scales are.
struct StageOperands {
  u64 left, right, scales_left, scales_right;  // descriptors: K = 64 number 0; right ones of right tile 0
  u32 columns_left, columns_right;             // TMEM columns of the scales

  __device__ __forceinline__ StageOperands(u32 shared, u32 tmem, int stage, int scale_slot)
      : left(advance(operand_descriptor(shared), stage * (plan.left_bytes() / 16))),
        right(advance(operand_descriptor(shared),
                      plan.right_offset(0, 0) / 16 + stage * (plan.right_tiles() * plan.right_bytes() / 16))),
        scales_left(advance(scale_descriptor(shared),
                            plan.scales_left_offset(0) / 16 + stage * (plan.scale_bytes() / 16))),
        scales_right(advance(scale_descriptor(shared),
                             plan.scales_right_offset(0, 0) / 16 +
                                 stage * (plan.right_tiles() * plan.scales_right_bytes() / 16))),
        columns_left(tmem + plan.scales_left_column(scale_slot, 0)),
        columns_right(tmem + plan.scales_right_column(scale_slot, 0, 0)) {}

  __device__ __forceinline__ u32 right_column(int i, int kb) const {
    return columns_right + plan.scales_right_column(0, i, kb) - plan.scales_right_column(0, 0, 0);
  }
  // By the thread that multiplies; TMEM columns must be free (see parts/multiply.cuh).
  __device__ __forceinline__ void copy_left(int kb) const {
    isa::tcgen05_cp_32x128b_warpx4<plan.cta_group>(columns_left + 4 * kb, advance(scales_left, kb * 32));
  }
  __device__ __forceinline__ void copy_right(int i, int kb) const {
#pragma unroll
    for (int b = 0; b < plan.scale_blocks(); ++b)
      isa::tcgen05_cp_32x128b_warpx4<plan.cta_group>(
          right_column(i, kb) + 4 * b,
          advance(scales_right, (i * plan.scales_right_bytes() + b * plan.scale_bytes()) / 16 + kb * 32));
  }
  // `half`: columns by which a right tile that starts inside a scale block finds its scales further on.
  template <isa::Collector collector>
  __device__ __forceinline__ void multiply(int i, int kb, u32 accumulator, u32 idesc, u32 half,
                                           bool accumulate) const {
    const int step = kb % 4 * 2;  // inside a swizzle atom K = 64 is 32 bytes
    isa::tcgen05_mma_mxf4nvf4_block16<plan.cta_group, collector>(
        accumulator, advance(left, kb / 4 * plan.left_rows() * 8 + step),
        advance(right, i * (plan.right_bytes() / 16) + kb / 4 * plan.right_rows() * 8 + step), idesc,
        columns_left + 4 * kb, right_column(i, kb) + half, accumulate);
  }
};

// `count` MMAs that share the left tile: one, two products, or two halves. When they are two the first leaves
// the left tile in the tensor core's buffer and the second takes it from there.
template <int count>
__device__ __forceinline__ void issue_stage(u32 shared, u32 tmem, int stage, const u32 (&accumulators)[count],
                                            int scale_slot, const Tile& tile, bool accumulate) {
  constexpr bool keep = plan.collector && count == 2;
  constexpr auto first = keep ? isa::Collector::kFill : isa::Collector::kDiscard;
  constexpr auto second = keep ? isa::Collector::kLastUse : isa::Collector::kDiscard;
  const StageOperands operands(shared, tmem, stage, scale_slot);
  u32 idesc[count], half[count];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    idesc[i] = plan.instruction_descriptor(plan.right_n(tile.n, i));
    half[i] = (tile.right + plan.right_start(i)) % 128 / 32;
  }
#pragma unroll
  for (int kb = 0; kb < plan.k_blocks(); ++kb) {
    const bool add = accumulate || kb > 0;
    operands.copy_left(kb);
#pragma unroll
    for (int i = 0; i < count; ++i) operands.copy_right(i, kb);
    operands.multiply<first>(0, kb, accumulators[0], idesc[0], half[0], add);
    if constexpr (count == 2) operands.multiply<second>(1, kb, accumulators[1], idesc[1], half[1], add);
  }
}

// The same for one of two products: the first brings the scales of both, the second follows when the stage is
// still there.
template <int product>
__device__ __forceinline__ void issue_product(u32 shared, u32 tmem, int stage, u32 accumulator,
                                              const Tile& tile, bool accumulate) {
  const StageOperands operands(shared, tmem, stage, stage);
  const u32 idesc = plan.instruction_descriptor(tile.n), half = tile.right % 128 / 32;
#pragma unroll
  for (int kb = 0; kb < plan.k_blocks(); ++kb) {
    if constexpr (product == 0) {
      operands.copy_left(kb);
      operands.copy_right(0, kb);
      operands.copy_right(1, kb);
    }
    operands.multiply<isa::Collector::kDiscard>(product, kb, accumulator, idesc, half, accumulate || kb > 0);
  }
}

}  // namespace fp4lab
