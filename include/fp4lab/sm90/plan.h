// The schedule of a Hopper launch: which CTA computes which piece of which tile, and every byte count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fp4lab/legality.h"
#include "fp4lab/sm90/work.h"

namespace fp4lab::sm90 {

struct Shape {
  unsigned m, n, k;
};

struct PlanOptions {
  int sms = 132;       // CTAs that are resident at once, one a multiprocessor; H100 SXM and H200 have 132
  int warpgroups = 0;  // math warpgroups of 64 weight rows each: 2..4, or 0 = choose
  int max_tile = 0;    // most tokens of a tile, 8..256 in steps of 8, or 0 = choose
  int tile_step = 0;   // tiles are multiples of it, 8..64: few sizes, few loops in the kernel; 0 = choose
  // 1: cut tiles along K where units would idle, 2: cut every tile in halves, 0: never, -1 = choose
  int split = -1;
  int local = -1;  // steps of K that a CTA expands by itself before it multiplies: 0..2, -1 = choose
  int pdl = 1;     // 1: a launch may start while its predecessor in the stream ends
  // 1: all activations are expanded before the first product, 0: by ranges of K, -1 = choose
  int at_once = -1;
  bool loops = false;  // the rung's: one loop for each size of tile
};

struct Plan {
  PlanOptions options;          // as asked for
  std::vector<Reason> reasons;  // why there is no plan; then the rest is empty
  bool dual = false;
  int warpgroups = 0, max_tile = 0, tile_step = 0, stages = 0, local = 0;
  int split = 0;  // as in the options
  bool at_once = false;
  unsigned units = 0, ctas = 0, threads = 0, cut_tiles = 0;
  unsigned shared_bytes = 0;
  double predicted_cycles = 0, tensor_cycles = 0;  // of the slowest unit; if the tensor cores never waited
  std::vector<Shape> shapes;
  std::vector<Group> groups;     // pointers are null
  std::vector<Weights> weights;  // pointers are null
  std::vector<Work> work;        // [unit][pieces_per_unit]
  unsigned pieces_per_unit = 0, pieces = 0;
  std::vector<FirstPiece> first;  // [unit]
  std::vector<int> tiles;         // token tiles in use, ascending
  unsigned token_count = 0, ranges = 0;
  unsigned segments = 0, items = 0;  // of activations that are expanded at once
  std::uint64_t token_bytes = 0, weight_bytes = 0, partial_bytes = 0, flag_bytes = 0;

  // Options for the JIT: the constants that ptx/sm90/kernel.cuh reads.
  std::vector<std::string> defines() const;
  std::string describe() const;
};

// Shapes are {m, n, k} per group; dual: one shape, n of each of B1 and B2. Reasons against a plan: m, n, k
// outside m >= 1, n % 8 == 0, k % 64 == 0; options outside their ranges.
Plan plan(const std::vector<Shape>& shapes, bool dual, const PlanOptions& options);

}  // namespace fp4lab::sm90
