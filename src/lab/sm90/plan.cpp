#include "fp4lab/sm90/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "fp4lab/error.h"

namespace fp4lab::sm90 {
namespace {

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
// Weights that do not stay in the L2 (50 MB): CTAs of two math warpgroups, whose tokens pass the L2 most
// often, took a tenth longer than the model.
constexpr double kLargeWeights = 50e6, kTwoWarpgroupsStreaming = 1.1;

constexpr int kManyStages = 12;
int most_stages(int max_tile, int warpgroups) {
  int stages = 2;
  while (shared_bytes(max_tile, warpgroups, stages + 1) <= kSharedLimit && stages < kManyStages) ++stages;
  return stages;
}

struct TileJob {
  unsigned group, row, token, steps;
  int tile;
};

unsigned round_up(unsigned v, unsigned to) { return (v + to - 1) / to * to; }

// Tokens of a group in tiles as equal as `step` allows, a multiple of 8 that divides max_tile.
std::vector<int> token_tiles(unsigned m, int max_tile, int step) {
  const unsigned parts = (m + step - 1) / step, most = max_tile / step;
  const unsigned count = (parts + most - 1) / most;
  std::vector<int> tiles;
  for (unsigned i = 0; i < count; ++i)
    tiles.push_back(step * ((parts * (i + 1)) / count - (parts * i) / count));
  return tiles;
}

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

struct Piece {
  unsigned job, first_step, steps, helpers;
  bool finishes;
  unsigned half = 0;
};
using Schedule = std::vector<std::vector<Piece>>;

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

// Every tile in halves along K, which two neighbours add, each for a half of the tokens: neither waits for
// the other to end. No schedule (0) when there are more halves than units, or halves that are too short.
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

// Whole tiles, the most expensive first, each to the unit with the least work; then the unit with the most
// work gives a tile away, or exchanges one for a cheaper one, as long as that lowers the higher of the two
// units' work.
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

// Accumulators take tile / 2 of a math warp's registers: 232 with two warpgroups, 160 with three, 112 with
// four.
int most_tokens(int warpgroups) { return warpgroups == 2 ? 256 : warpgroups == 3 ? 144 : 88; }

struct Candidate {
  int warpgroups = 0, max_tile = 0, tile_step = 0;
  int split = 0;
  double cycles = 0;
  std::vector<TileJob> jobs;
  Schedule schedule;
};

// Loops that exclude each other share no registers in ptxas's count for wgmma: with more sizes of tiles than
// these it serialises the products (C7511, C7512) or spills.
std::size_t most_loops(int warpgroups) { return warpgroups == 2 ? 6 : warpgroups == 3 ? 3 : 2; }
unsigned most_helpers(const Schedule& schedule) {
  unsigned most = 0;
  for (const auto& unit : schedule)
    for (const Piece& piece : unit) most = std::max(most, piece.helpers);
  return most;
}
std::size_t sizes_of(const std::vector<TileJob>& jobs) {
  std::set<int> sizes;
  for (const TileJob& job : jobs) sizes.insert(job.tile);
  return sizes.size();
}

int stages_of(const std::vector<TileJob>& jobs, int warpgroups) {
  int most = 0;
  for (const TileJob& job : jobs) most = std::max(most, job.tile);
  return most_stages(most, warpgroups);
}

Candidate best(const std::vector<Shape>& shapes, bool dual, const PlanOptions& o) {
  Candidate chosen;
  const bool asked = o.tile_step != 0;
  unsigned most = 0;
  for (const auto& s : shapes) most = std::max(most, round_up(s.m, 8));
  double weight_bytes = 0;
  for (const auto& s : shapes)
    weight_bytes += double(s.n) * (dual ? 2 : 1) * s.k * kBlockBytes / (kRowsPerWarpgroup * kChunk);
  // The largest first: of equal plans, the one with the fewest sizes. v0 decides between sizes in its loop.
  using Steps = std::vector<int>;
  const Steps tile_steps = o.tile_step ? Steps{o.tile_step}
                           : o.loops   ? Steps{64, 48, 32, 24, 16, 8}
                                       : Steps{8};
  for (int tile_step : tile_steps) {
    std::set<int> sizes;
    if (o.max_tile)
      sizes = {o.max_tile / tile_step * tile_step};
    else
      for (unsigned t = 64; t <= 256; t += 8)
        sizes.insert(int(std::min(t / tile_step * tile_step, round_up(most, tile_step))));
    sizes.erase(0);
    for (int warpgroups = 2; warpgroups <= 4; ++warpgroups) {
      if (o.warpgroups && o.warpgroups != warpgroups) continue;
      for (int max_tile : sizes) {
        if (max_tile > most_tokens(warpgroups)) continue;
        const auto jobs = all_tiles(shapes, dual, warpgroups, max_tile, tile_step);
        if (o.loops && !asked && sizes_of(jobs) > most_loops(warpgroups)) continue;
        const Cost cost{warpgroups, o.loops ? stages_of(jobs, warpgroups) : kManyStages};
        const unsigned units = o.sms;
        for (int split = 0; split < 3; ++split) {
          if ((o.split >= 0 && o.split != split) || (split == 2 && !o.loops)) continue;
          Schedule schedule;
          double cycles = split == 0   ? whole_schedule(cost, jobs, units, schedule)
                          : split == 1 ? cut_schedule(cost, jobs, units, schedule)
                                       : paired_schedule(cost, jobs, units, schedule);
          if (cycles == 0) continue;
          cycles += cost.cut(most_helpers(schedule));
          if (warpgroups == 2 && weight_bytes > kLargeWeights && !o.loops) cycles *= kTwoWarpgroupsStreaming;
          if (chosen.schedule.empty() || cycles < chosen.cycles)
            chosen = {warpgroups, max_tile, tile_step, split, cycles, jobs, schedule};
        }
      }
    }
  }
  return chosen;
}

// Ranges of K come in order, behind the products, on the time of two warps: dear where units want later
// ranges first or multiply small tiles. All at once is dear where a warp has more than one item of it.
bool expands_at_once(const Candidate& c, const std::vector<Shape>& shapes) {
  unsigned steps = 0, segments = 0;
  std::size_t pieces = 0;
  for (const TileJob& job : c.jobs) steps = std::max(steps, job.steps);
  for (const auto& unit : c.schedule) pieces = std::max(pieces, unit.size());
  for (const Shape& s : shapes)
    segments += s.m * (round_up(s.k, kStep) / kStep * kChunksPerStep / kChunksPerSegment);
  const unsigned warps = c.schedule.size() * 4 * c.warpgroups;
  return steps <= kStepsPerRange || pieces > 1 || most_helpers(c.schedule) > 0 ||
         segments <= warps * kSegmentsPerRange;
}

std::vector<Reason> reasons_against(const std::vector<Shape>& shapes, bool dual, const PlanOptions& o) {
  std::vector<Reason> all;
  const auto unless = [&all]<class... Args>(bool good, const char* rule, fmt::format_string<Args...> text,
                                            Args&&... args) {
    if (!good) all.push_back({rule, fmt::format(text, std::forward<Args>(args)...)});
  };
  unless(!shapes.empty() && shapes.size() <= kMaxGroups, "groups",
         "{} groups, must be 1..{}: they travel in the kernel's parameters", shapes.size(), kMaxGroups);
  unless(!dual || shapes.size() == 1, "groups", "a dual GEMM has one group, not {}", shapes.size());
  for (std::size_t g = 0; g < shapes.size(); ++g) {
    const auto [m, n, k] = shapes[g];
    unless(m != 0 && m <= 65528, "m", "group {}: m = {}, must be 1..65528", g, m);
    unless(n != 0 && n % 8 == 0, "n", "group {}: n = {}, must be a multiple of 8: 16-byte stores of C", g, n);
    unless(k != 0 && k % 64 == 0 && k <= kMaxRanges * kStepsPerRange * kStep, "k",
           "group {}: k = {}, must be a multiple of 64 (a chunk) up to {}", g, k,
           kMaxRanges * kStepsPerRange * kStep);
  }
  unless(o.sms >= 1 && o.sms <= int(kMaxUnits), "sms", "sms = {}, must be 1..{}", o.sms, kMaxUnits);
  unless(o.warpgroups == 0 || (o.warpgroups >= 2 && o.warpgroups <= 4), "warpgroups",
         "warpgroups = {}, must be 2..4 or 0", o.warpgroups);
  const int most = most_tokens(o.warpgroups ? o.warpgroups : 2);
  unless(o.max_tile >= 0 && o.max_tile <= most && o.max_tile % 8 == 0, "max_tile",
         "max_tile = {}, must be 8..{} in steps of 8 (wgmma's N, and the registers that {} warpgroups leave "
         "for accumulators) or 0",
         o.max_tile, most, o.warpgroups ? o.warpgroups : 2);
  unless(o.tile_step >= 0 && o.tile_step <= 64 && o.tile_step % 8 == 0, "tile_step",
         "tile_step = {}, must be 8..64 in steps of 8 or 0", o.tile_step);
  unless(o.max_tile == 0 || o.max_tile >= o.tile_step, "tile_step",
         "tile_step = {} is more than max_tile = {}", o.tile_step, o.max_tile);
  unless(o.at_once >= -1 && o.at_once <= 1, "at_once", "at_once = {}, must be 0, 1 or -1", o.at_once);
  unless(o.split >= -1 && o.split <= 2, "split", "split = {}, must be 0..2 or -1", o.split);
  unless(o.split != 2 || o.loops, "split", "split = 2 is beyond v0_registers: tiles in halves came with v1");
  unless(o.local >= -1 && o.local <= int(kMostLocalSteps), "local", "local = {}, must be 0..{} or -1",
         o.local, kMostLocalSteps);
  unless(o.pdl == 0 || o.pdl == 1, "pdl", "pdl = {}, must be 0 or 1", o.pdl);
  return all;
}

void lay_out_operands(Plan& plan) {
  for (const auto& s : plan.shapes) {
    Group g{};
    g.m = s.m, g.n = s.n, g.k = s.k;
    g.m_padded = round_up(s.m, plan.tile_step);
    g.chunks = round_up(s.k, kStep) / kChunk;
    g.tokens = plan.token_bytes;
    g.first_token = plan.token_count;
    plan.token_bytes += static_cast<std::uint64_t>(g.m_padded) * g.chunks * kTokenRowBytes;
    plan.token_count += g.m_padded;
    plan.ranges = std::max(plan.ranges, (g.chunks / kChunksPerStep + kStepsPerRange - 1) / kStepsPerRange);
    plan.groups.push_back(g);

    Weights w{};
    w.n = s.n, w.k = s.k, w.steps = g.chunks / kChunksPerStep, w.warpgroups = plan.warpgroups;
    const unsigned tile_rows = kRowsPerWarpgroup * plan.warpgroups;
    w.tiles = round_up(s.n * (plan.dual ? 2 : 1), tile_rows) / tile_rows;
    w.packed = plan.weight_bytes;
    plan.weight_bytes +=
        static_cast<std::uint64_t>(w.tiles) * w.steps * plan.warpgroups * kWarpgroupStepBytes;
    plan.weights.push_back(w);
  }
}

// All activations at once: warps take items of `segments` segments of K of one token. An item takes its
// segments, and its loads, of which those of one item are under way while the one before is expanded.
void share_out_activations(Plan& plan) {
  unsigned chunks = 0;
  for (const Group& g : plan.groups) chunks = std::max(chunks, g.chunks);
  const unsigned all = (chunks + kChunksPerSegment - 1) / kChunksPerSegment;
  const unsigned warps = plan.ctas * 4 * plan.warpgroups;
  unsigned least = ~0u;
  constexpr unsigned kSegmentCycles = 60, kItemCycles = 400;
  for (unsigned segments = 1; segments <= kSegmentsPerRange; ++segments) {
    const unsigned items = plan.token_count * ((all + segments - 1) / segments);
    const unsigned cycles = (items + warps - 1) / warps * (segments * kSegmentCycles + kItemCycles);
    if (cycles <= least) least = cycles, plan.segments = segments, plan.items = items;
  }
  plan.ranges = 1;
}

void emit_work(Plan& plan, const Candidate& c) {
  std::set<int> tiles;
  std::size_t most = 1;
  for (const auto& unit : c.schedule) most = std::max(most, unit.size());
  plan.pieces_per_unit = most;
  plan.work.assign(most * c.schedule.size(), Work{});
  for (std::size_t u = 0; u < c.schedule.size(); ++u) {
    const auto& unit = c.schedule[u];
    Work* to = &plan.work[u * most];
    for (const auto& piece : unit) {
      const TileJob& t = c.jobs[piece.job];
      const Group& g = plan.groups[t.group];
      const Weights& weights = plan.weights[t.group];
      Work w{};
      const unsigned step_bytes = plan.warpgroups * kWarpgroupStepBytes;
      w.weights = weights.packed +
                  static_cast<std::uint64_t>(t.row / (kRowsPerWarpgroup * plan.warpgroups)) * weights.steps *
                      step_bytes +
                  static_cast<std::uint64_t>(piece.first_step) * step_bytes;
      w.token_stride = g.m_padded * kTokenRowBytes;
      w.tokens = g.tokens + static_cast<std::uint64_t>(piece.first_step) * kChunksPerStep * w.token_stride +
                 t.token * kTokenRowBytes;
      w.first_step = piece.first_step, w.steps = piece.steps;
      w.group = t.group, w.row = t.row, w.token = t.token;
      w.tile = t.tile;
      w.finishes = piece.finishes, w.helpers = piece.helpers, w.half = piece.half;
      w.last = &piece == &unit.back();
      *to++ = w;
      ++plan.pieces;
      plan.cut_tiles += (piece.finishes && piece.helpers > 0) || piece.half == 1;
      tiles.insert(t.tile);
    }
  }
  plan.tiles.assign(tiles.begin(), tiles.end());
  for (Work& w : plan.work)
    w.tile_index = std::lower_bound(plan.tiles.begin(), plan.tiles.end(), w.tile) - plan.tiles.begin();
  for (std::size_t u = 0; u < c.schedule.size(); ++u) {
    const Work& w = plan.work[u * most];
    if (w.steps == 0) {
      plan.first.push_back({});
      continue;
    }
    plan.first.push_back({unsigned(w.weights / (plan.warpgroups * kWarpgroupStepBytes)),
                          static_cast<unsigned short>(w.first_step), static_cast<unsigned short>(w.steps),
                          static_cast<unsigned short>(w.token), static_cast<unsigned char>(w.group),
                          FirstPiece::pack(w.tile, w.finishes == 0 || w.half != 0, w.last != 0)});
  }
}

}  // namespace

Plan plan(const std::vector<Shape>& shapes, bool dual, const PlanOptions& options) {
  Plan p;
  p.dual = dual;
  p.options = options;
  p.reasons = reasons_against(shapes, dual, options);
  if (!p.reasons.empty()) return p;
  const Candidate c = best(shapes, dual, options);
  if (c.schedule.empty()) {
    p.reasons.push_back(
        {"split", fmt::format("split = 2: there is no tiling whose tiles in halves of at least {} steps "
                              "of K each have one of {} units of their own",
                              kFewestSteps, options.sms)});
    return p;
  }
  p.split = c.split;
  p.at_once = options.at_once >= 0 ? options.at_once == 1 : expands_at_once(c, shapes);
  p.shapes = shapes;
  p.units = c.schedule.size();
  p.ctas = p.units;
  p.predicted_cycles = c.cycles;
  p.warpgroups = c.warpgroups;
  p.tile_step = c.tile_step;
  p.threads = 128 * (1 + c.warpgroups);
  for (const auto& t : c.jobs) p.tensor_cycles += t.steps * 4.0 * t.tile * c.warpgroups / p.units;
  lay_out_operands(p);
  if (p.at_once) share_out_activations(p);
  emit_work(p, c);
  p.max_tile = p.tiles.back();
  p.stages = most_stages(p.max_tile, p.warpgroups);
  p.local = options.local >= 0 ? options.local : p.max_tile > 176 ? 1 : 2;
  p.local = std::min(p.local, p.stages - 1);
  p.shared_bytes = shared_bytes(p.max_tile, p.warpgroups, p.stages);
  p.partial_bytes = static_cast<std::uint64_t>(p.ctas) * p.warpgroups * (p.max_tile / 8 * 128) * 16;
  p.flag_bytes = p.ctas * p.warpgroups * 4;
  return p;
}

std::vector<std::string> Plan::defines() const {
  std::string list;
  for (std::size_t i = 0; i < tiles.size(); ++i) list += fmt::format(" X({}, {})", i, tiles[i]);
  return {fmt::format("-DFP4LAB_TOKEN_TILES(X)={}", list.substr(1)),
          fmt::format("-DFP4LAB_MAX_TILE={}", max_tile),
          fmt::format("-DFP4LAB_WARPGROUPS={}", warpgroups),
          fmt::format("-DFP4LAB_STAGES={}", stages),
          fmt::format("-DFP4LAB_LOCAL={}", local),
          fmt::format("-DFP4LAB_AT_ONCE={}", int(at_once)),
          fmt::format("-DFP4LAB_SPLIT={}", split)};
}

std::string Plan::describe() const {
  return fmt::format(
      "warpgroups {} max_tile {} stages {} units {} pieces {} cut {} predicted {:.0f} cycles, "
      "tensor {:.0f}",
      warpgroups, max_tile, stages, units, pieces, cut_tiles, predicted_cycles, tensor_cycles);
}

}  // namespace fp4lab::sm90
