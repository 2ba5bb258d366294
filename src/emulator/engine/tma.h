// The tensor memory accelerator's operations. Each reads its tensor map and its memory when it runs; where
// the schedule is tolerant, the map as it was at issue.
#pragma once

#include <array>
#include <optional>

#include "emulator/engine/delivery.h"
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
