// Who multiplies which tiles: the tiles of a problem, and three ways of handing them to the units.
#pragma once

#include <algorithm>
#include <vector>

#include "fp4lab/sm90/plan.h"

namespace fp4lab::sm90 {

// A stage is asked for stages - 1 steps before it is wanted, and takes about this long while all CTAs ask.
constexpr double kStageCycles = 2400;

// Cost model in SM cycles, fitted to the H200 (notes/records: Hopper). A chunk of a math warpgroup is four
// wgmma m64nNk16 of N/2 cycles; its decoding competes with them for issue, which costs N plus about 118
// cycles in all.
struct Cost {
  int warpgroups, stages;
  double step(int tile) const {
    const double products = 2.0 * warpgroups * std::max(2.0 * tile, tile + 118.0) + 30;
    return std::max(products, kStageCycles / (stages - 1));
  }
  double finish(int tile) const { return 1200 + 13.0 * tile; }
  double publish(int tile) const { return 1500 + 10.0 * tile; }
  double add(int tile) const { return 6.0 * tile; }
  // Of a tile in halves: its end, with the sums of half of the tokens on their way to the neighbour and back.
  double exchange(int tile) const { return 5000 + finish(tile) / 2; }
  // Of a schedule with cut tiles: the one who finishes a tile waits for sums that pass through the L2.
  double cut(unsigned helpers) const { return helpers == 0 ? 0 : 1000 + 4000.0 * helpers; }
};
constexpr unsigned kFewestSteps = 4;  // of a piece of a cut tile

constexpr unsigned round_up(unsigned v, unsigned to) { return (v + to - 1) / to * to; }

struct TileJob {
  unsigned group, row, token, steps;
  int tile;
};

std::vector<TileJob> all_tiles(const std::vector<Shape>& shapes, bool dual, int warpgroups, int max_tile,
                               int tile_step);

struct Piece {
  unsigned job, first_step, steps, helpers;
  bool finishes;
  unsigned half = 0;
};
using Schedule = std::vector<std::vector<Piece>>;

unsigned most_helpers(const Schedule&);

// Each returns the cycles of the unit that takes longest.
// The tiles in order, cut where a unit is full.
double cut_schedule(const Cost&, const std::vector<TileJob>& jobs, unsigned units, Schedule& out);
// Every tile in halves along K, which two neighbours add, each for a half of the tokens: neither waits for
// the other to end. No schedule (0) when there are more halves than units, or halves that are too short.
double paired_schedule(const Cost&, const std::vector<TileJob>& jobs, unsigned units, Schedule& out);
// Whole tiles, the most expensive first, each to the unit with the least work; then the unit with the most
// work gives a tile away, or exchanges one for a cheaper one, as long as that lowers the higher of the two
// units' work.
double whole_schedule(const Cost&, const std::vector<TileJob>& jobs, unsigned units, Schedule& out);

}  // namespace fp4lab::sm90
