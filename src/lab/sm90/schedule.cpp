#include "lab/sm90/schedule.h"

#include <numeric>

namespace fp4lab::sm90 {
namespace {

// Tokens of a group in tiles as equal as `step` allows, a multiple of 8 that divides max_tile.
std::vector<int> token_tiles(unsigned m, int max_tile, int step) {
  const unsigned parts = (m + step - 1) / step, most = max_tile / step;
  const unsigned count = (parts + most - 1) / most;
  std::vector<int> tiles;
  for (unsigned i = 0; i < count; ++i)
    tiles.push_back(step * ((parts * (i + 1)) / count - (parts * i) / count));
  return tiles;
}

// Hands the tiles in order to the units, each up to `limit` cycles, cutting the tile that does not fit. A
// unit's pieces come out in the order of execution: what others wait for first, what waits for others last,
// so that a unit waits only for units before it.
bool fill(const Cost& cost, const std::vector<TileJob>& jobs, unsigned units, double limit, Schedule& out) {
  out.assign(units, {});
  unsigned job = 0, done = 0, helpers = 0;
  for (unsigned u = 0; u < units && job < jobs.size(); ++u) {
    double left = limit;
    std::vector<Piece> pieces;
    while (job < jobs.size()) {
      const TileJob& t = jobs[job];
      const double per_step = cost.step(t.tile);
      const unsigned rest = t.steps - done;
      const double whole = rest * per_step + cost.finish(t.tile) + helpers * cost.add(t.tile);
      if (whole <= left) {
        pieces.push_back({job, done, rest, helpers, true});
        left -= whole;
        ++job, done = 0, helpers = 0;
        continue;
      }
      const double room = (left - cost.publish(t.tile)) / per_step;
      if (room < kFewestSteps || rest < 2 * kFewestSteps) break;
      const unsigned take = std::min(static_cast<unsigned>(room), rest - kFewestSteps);
      pieces.push_back({job, done, take, 0, false});
      done += take, ++helpers;
      break;
    }
    std::rotate(pieces.begin(), pieces.empty() ? pieces.begin() : pieces.end() - 1, pieces.end());
    if (pieces.size() > 2) std::rotate(pieces.begin() + 1, pieces.begin() + 2, pieces.end());
    out[u] = pieces;
  }
  return job == jobs.size();
}

}  // namespace

std::vector<TileJob> all_tiles(const std::vector<Shape>& shapes, bool dual, int warpgroups, int max_tile,
                               int tile_step) {
  std::vector<TileJob> jobs;
  for (unsigned g = 0; g < shapes.size(); ++g) {
    const unsigned rows = shapes[g].n * (dual ? 2 : 1), step = kRowsPerWarpgroup * warpgroups;
    const unsigned steps = round_up(shapes[g].k, kStep) / kStep;
    const auto tiles = token_tiles(shapes[g].m, max_tile, tile_step);
    for (unsigned row = 0; row < rows; row += step) {
      unsigned token = 0;
      for (int tile : tiles) {
        jobs.push_back({g, row, token, steps, tile});
        token += tile;
      }
    }
  }
  return jobs;
}

unsigned most_helpers(const Schedule& schedule) {
  unsigned most = 0;
  for (const auto& unit : schedule)
    for (const Piece& piece : unit) most = std::max(most, piece.helpers);
  return most;
}

double cut_schedule(const Cost& cost, const std::vector<TileJob>& jobs, unsigned units, Schedule& out) {
  double low = 0, high = 0;
  for (const auto& t : jobs) high += t.steps * cost.step(t.tile) + cost.finish(t.tile);
  low = high / units * 0.9;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (fill(cost, jobs, units, middle, out) ? high : low) = middle;
  }
  fill(cost, jobs, units, high, out);
  return high;
}

double paired_schedule(const Cost& cost, const std::vector<TileJob>& jobs, unsigned units, Schedule& out) {
  out.assign(units, {});
  double most = 0;
  for (unsigned j = 0; j < jobs.size(); ++j) {
    const TileJob& t = jobs[j];
    if (2 * j + 1 >= units || t.steps < 2 * kFewestSteps) return 0;
    const unsigned half = t.steps / 2;
    out[2 * j] = {{j, 0, half, 0, true, 1}};
    out[2 * j + 1] = {{j, half, t.steps - half, 0, true, 2}};
    most = std::max(most, (t.steps - half) * cost.step(t.tile) + cost.exchange(t.tile));
  }
  return most;
}

double whole_schedule(const Cost& model, const std::vector<TileJob>& jobs, unsigned units, Schedule& out) {
  std::vector<double> load(units, 0), cost(jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j)
    cost[j] = jobs[j].steps * model.step(jobs[j].tile) + model.finish(jobs[j].tile);
  std::vector<unsigned> order(jobs.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) { return cost[a] > cost[b]; });
  std::vector<std::vector<unsigned>> have(units);
  for (unsigned j : order) {
    const unsigned u = std::min_element(load.begin(), load.end()) - load.begin();
    have[u].push_back(j);
    load[u] += cost[j];
  }
  for (int round = 0; round < 2000; ++round) {
    const unsigned worst = std::max_element(load.begin(), load.end()) - load.begin();
    double best = load[worst] - 1;
    unsigned to = units;
    std::size_t give = 0, take = 0;
    for (unsigned u = 0; u < units; ++u) {
      if (u == worst) continue;
      for (std::size_t i = 0; i < have[worst].size(); ++i)
        for (std::size_t k = 0; k <= have[u].size(); ++k) {  // k == size: gives without taking
          const double moved = cost[have[worst][i]] - (k < have[u].size() ? cost[have[u][k]] : 0);
          const double peak = std::max(load[worst] - moved, load[u] + moved);
          if (moved > 0 && peak < best) best = peak, to = u, give = i, take = k;
        }
    }
    if (to == units) break;
    const double moved = cost[have[worst][give]] - (take < have[to].size() ? cost[have[to][take]] : 0);
    if (take < have[to].size()) {
      std::swap(have[worst][give], have[to][take]);
    } else {
      have[to].push_back(have[worst][give]);
      have[worst].erase(have[worst].begin() + give);
    }
    load[worst] -= moved, load[to] += moved;
  }
  out.assign(units, {});
  for (unsigned u = 0; u < units; ++u) {
    for (unsigned j : have[u]) out[u].push_back({j, 0, jobs[j].steps, 0, true});
    // Small tiles want weights fastest: not all units shall come to them at the same time.
    if (u % 2 == 1) std::reverse(out[u].begin(), out[u].end());
  }
  return *std::max_element(load.begin(), load.end());
}

}  // namespace fp4lab::sm90
