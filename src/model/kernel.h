// What the model needs to know of a kernel that computes products tile by tile, whoever wrote it: counts
// only. Plans become one of these (sm100.cpp, generic.cpp); estimate() turns it into time.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "fp4lab/model.h"
#include "model/chip.h"

namespace fp4lab::model {

/// Tiles of one size. Bytes, rows and loads are those of one k-tile and one CTA.
struct TileKind {
  double steps = 0;     // k-tiles of its main loop
  double arriving = 0;  // bytes that arrive in shared memory
  double from_l2 = 0;  // bytes that this CTA's loads read from the L2: less where a multicast brings the rest
  double rows = 0;     // of up to 128 bytes, that its TMA unit writes
  double loads = 2;    // TMA instructions
  double mma = 0;      // cycles of the tensor core, or of the port where that is slower
  double columns = 0, out_bytes = 0;  // of its epilogue
};

/// One product's operands and the order in which tiles walk over them.
struct Sweep {
  double fast_tiles = 1, slow_tiles = 1;  // of a unit; the fast coordinate changes from tile to tile
  double fast_panel = 0, slow_panel = 0;  // bytes of one tile's operand over all of K
  double fast_bytes = 0, slow_bytes = 0;  // of the whole operands
  double out_bytes = 0;
};

struct Kernel {
  std::vector<TileKind> kinds;
  struct Run {
    int kind = 0;
    double count = 1;
  };
  std::vector<Run> order;  // tiles in the order in which units take them
  double units = 1;        // CTAs, pairs or clusters that work on a tile each, at once
  double ctas = 1;         // of a unit
  double stages = 1, slots = 1;
  double scale_slots = 0;  // of scale factors in TMEM, where they are fewer than the stages
  bool persistent = true;  // false: a tile is a CTA's whole life
  double resident = 1;     // CTAs on one SM, when not persistent
  const EpiloguePath* epilogue = nullptr;
  double parts = 1;        // split-K
  double part_bytes = 0;   // fp32 sums of one part, one CTA
  double stage_bytes = 0;  // of the ring
  std::vector<Sweep> sweeps;
};

/// What is not the kernel's: how it was launched and timed (harness.h).
struct Harness {
  std::string_view source, kernel;  // substrings of a point's source and kernel; empty: any
  double start_us = 0;              // before and after the kernel
  double floor_us = 0;              // no time is shorter
  double dirty_mb = 0;  // lines in the L2 that were written before and that a call's loads drive out
};

struct Estimate {
  double us = 0;
  std::string bound;
  std::vector<Term> terms;
  double waves = 0, dram_bytes = 0, in_flight = 0;
  double tensor_share = 0;  // of the machine's tensor cores and the whole time
};

/// The time of one launch at this SM clock.
Estimate estimate(const Chip& chip, double sm_mhz, const Kernel& kernel, const Harness& harness);

/// Cycles that one k-tile takes in a loop that goes on, `active` CTAs loading at once, and what bounds it.
struct Step {
  double cycles = 0;
  const char* bound = "";
};
Step step(const Chip& chip, double sm_mhz, const TileKind& kind, const Kernel& kernel, double active,
          double miss_share);

}  // namespace fp4lab::model
