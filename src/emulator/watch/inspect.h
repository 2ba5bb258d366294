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
  // The PTX line at which each warp is looked at when it comes there first.
  std::optional<uint32_t> stop_line;
  // Shared memory, as an offset or the name of a variable of the kernel: accesses and barrier events.
  std::optional<std::string> watched;
  // Of the block-scaled fp4 tcgen05.mma number `product` (from 0) of CTA 0: rows of an operand, or of D.
  struct Tile {
    uint64_t product = 0;
    char operand = 'A';  // A or B (shared memory, with its scales), D (tensor memory)
    unsigned row0 = 0, row1 = 7, column0 = 0, column1 = 7;
  };
  std::optional<Tile> tile;

  // Of the last launch.
  const std::string& report() const { return report_; }

  void launch_begin(const Grid&) override;
  void step(Warp&, const Instr&, uint32_t active) override;
  void access(const Access&) override;
  void barrier(const BarrierEvent&) override;
  void complete(const AsyncOp&) override;

 private:
  void say(const std::string& line);
  void registers(Warp&, const Instr&, uint32_t lanes);
  void operand(const struct MmaOp&);
  void accumulator(const struct MmaOp&);

  std::string report_;
  uint32_t address_ = 0, stops_ = 0, lines_ = 0;
  bool watching_ = false;
  uint64_t products_ = 0;
};

}  // namespace fp4lab::emu
