// The tensor memory accelerator's operations. Each reads its tensor map and its memory when it runs; where
// the schedule is tolerant, the map as it was at issue.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "emulator/engine/operand.h"
#include "emulator/engine/tensor_map.h"

namespace fp4lab::emu {

// Where an operand [map, ...] points: host address of the 128 bytes, found again at every use.
struct TensorMapRef {
  uint64_t address = 0;  // generic
  // A map in global memory as it was at issue, where the schedule is tolerant: contest kernels replace a map
  // while copies that use it are under way, and are right on hardware, which has read it by then.
  std::optional<std::array<std::byte, kTensorMapBytes>> issued;

  void point_to(uint64_t address, const Cluster&);
  // Faults when it is in neither the kernel's parameters nor global memory, not aligned to 64 bytes, or does
  // not hold a valid map.
  TensorMap read(Cluster&, const AsyncOp&) const;
};

// Where a load delivers: one entry for each destination CTA.
struct TmaTarget {
  Cta* cta = nullptr;
  Cta* barrier_cta = nullptr;
};

// Whether a CTA's shared memory still takes part in a load: as long as it does, the CTA must not exit. What
// is on its way to other CTAs alone does not hold the one that issued it. `parts` are those not delivered
// yet.
inline bool any_concerns(const std::vector<TmaTarget>& targets, const Cta& cta) {
  return std::ranges::any_of(targets,
                             [&](const TmaTarget& t) { return t.cta == &cta || t.barrier_cta == &cta; });
}
template <class Part>
bool any_part_concerns(const std::vector<Part>& parts, const std::vector<TmaTarget>& targets,
                       const Cta& cta) {
  return std::ranges::any_of(parts, [&](const Part& part) {
    const TmaTarget& t = targets[part.target];
    return t.cta == &cta || t.barrier_cta == &cta;
  });
}

// See CtaState::ahead_of_init; parts that have been delivered have found their mbarrier.
inline bool any_ahead_of_init(const std::vector<TmaTarget>& targets, uint32_t barrier, const AsyncOp& op) {
  return std::ranges::any_of(targets, [&](const TmaTarget& t) {
    return t.barrier_cta && t.barrier_cta->state->ahead_of_init(op, barrier);
  });
}

// Whether a copy would begin before the warps that can run have had their chance since its issue. Hardware
// takes as long as that, and public kernels count on it (bertmaher/simplegemm issues the store of a tile
// while three of the four warps may still have a few of its rows to write). Where the schedule tolerates
// that, the copy begins behind them.
inline bool too_soon(const Cluster& cluster, const AsyncOp& copy) {
  return cluster.grid.schedule.tolerant && !cluster.all_moved_since(copy.turn);
}

// Faults unless the start coordinates suit the map: as many as its rank, the innermost at a multiple of 16
// bytes (seen on an H200: any other traps as an illegal instruction), and the map is of the instruction's
// mode.
void check_coordinates(const TensorMap&, const int32_t* coordinates, unsigned count, bool im2col = false);

// Element-wise reductions of cp.reduce.async.bulk{.tensor}: memory[i] = op(memory[i], value[i]).
enum class Reduction : uint8_t { none, add, min, max, inc, dec, bit_and, bit_or, bit_xor };
// Type names as in PTX; `count` elements. False when there is no such operation on the type.
bool reduce_elements(Reduction, Type, bool flush_denormals, const std::byte* value, std::byte* memory,
                     uint32_t count);
Reduction reduction_named(const Source&);

}  // namespace fp4lab::emu
