#include "fp4lab/sm90/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lab/sm90/schedule.h"

namespace fp4lab::sm90 {
namespace {

// Weights that do not stay in the L2 (50 MB): CTAs of two math warpgroups, whose tokens pass the L2 most
// often, took a tenth longer than the model.
constexpr double kLargeWeights = 50e6, kTwoWarpgroupsStreaming = 1.1;

constexpr int kManyStages = 12;
int most_stages(int max_tile, int warpgroups) {
  int stages = 2;
  while (shared_bytes(max_tile, warpgroups, stages + 1) <= kSharedLimit && stages < kManyStages) ++stages;
  return stages;
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
