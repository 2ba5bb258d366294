// Looks into a run at a chosen place, and writes down what it sees: registers and barriers at a PTX line,
// everything that happens to an address, and tiles as the tensor core sees them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "emulator/core/watch.h"

namespace fp4lab::emu {

class Inspect final : public Watcher {
 public:
  // The PTX line at which each warp is looked at when it comes there first: its operands' registers, what is
  // in shared memory where they point, and the CTA's mbarriers.
  std::optional<uint32_t> stop_line;
  // Shared memory, as an offset or the name of a variable of the kernel: accesses and barrier events.
  std::optional<std::string> watched;
  // Of tcgen05.mma or wgmma number `product` (from 0, as they complete) of CTA 0: rows of an operand in
  // shared memory with its scales, or of D in tensor memory.
  struct Tile {
    uint64_t product = 0;
    char operand = 'A';  // A, B or D
    unsigned row0 = 0, row1 = 7, column0 = 0, column1 = 7;
  };
  std::optional<Tile> tile;

  // Of the last launch.
  const std::string& report() const { return report_; }
  // What was asked for and in no launch found so far, in words; empty: all was seen.
  std::string missed() const;

  void launch_begin(const Grid&) override;
  void step(Warp&, const Instr&, uint32_t active) override;
  void access(const Access&) override;
  void barrier(const BarrierEvent&) override;
  void complete(const AsyncOp&) override;

 private:
  void say(const std::string& line);
  void registers(Warp&, const Instr&, uint32_t lanes);
  void shared_memory(Warp&, const Instr&, uint32_t lanes);
  void operand(const struct MatrixProduct&);
  void scaled_row(const struct MmaOp&, const struct StoredOperand&, unsigned row, unsigned scale_column);
  std::string values(const AsyncOp&, const StoredOperand&, unsigned row, unsigned k, unsigned count,
                     const std::string& scale = "") const;
  void accumulator(const struct MmaOp&);

  std::string report_;
  uint32_t address_ = 0, stops_ = 0, lines_ = 0;
  bool watching_ = false, seen_ = false;
  uint64_t products_ = 0;
};

}  // namespace fp4lab::emu
