// Blackwell plans: their tiles in the order in which the kernels walk over them (ptx/sm100/parts/tiles.cuh).
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "fp4lab/legality.h"
#include "model/plans.h"
#include "model/tensor.h"

namespace fp4lab::model {
namespace {

int up(int a, int b) { return (a + b - 1) / b; }

// One stage of a tile with `n` columns, of which `rows` rows of the right operand exist and `box` of each
// right tile are loaded by each CTA.
TileKind tile_of(const Plan& p, const Chip& chip, int n, int rows, int box, int left) {
  TileKind t;
  const int tiles = p.halves == 1 ? p.products() : up(n, p.mma_n);  // MMAs that share the left tile
  const double k_bytes = p.block_k / 2, ctas = p.cta_group;
  const double scales_right = tiles * p.scales_right_bytes(), scales = p.scale_bytes() + scales_right;
  t.arriving = p.load_bytes(box, tiles);
  // A box reaches beyond the operand: those rows are zeros that no memory gives.
  const double there = std::min(1.0, rows / (box * ctas * (p.halves == 1 ? 1 : tiles)));
  const double left_there = std::min(1.0, double(left) / p.mma_m);
  t.from_l2 = p.left_bytes() * left_there + tiles * box * k_bytes * there + p.scale_bytes() +
              scales_right / (p.multicast ? 2 : 1);
  t.rows = (p.left_rows() + tiles * box) * p.k_atoms() + scales / 128;
  t.loads = (1 + tiles) * p.k_atoms() + (p.scale_copy == ScaleCopy::kTensor ? 1 + tiles : 2);
  for (int i = 0; i < tiles; ++i) {
    Mma mma{p.mma_m, p.right_n(n, i), p.cta_group, From::kShared, double(p.scale_blocks()), true};
    if (i == 0) mma.scale_copies += 1;
    if (i > 0 && p.collector) mma.a = From::kTmem;  // A is in the collector already
    t.mma += p.k_blocks() *
             mma_interval(mma, chip.port, p.cta_group == 2 ? chip.scale_copy_pair : chip.scale_copy);
  }
  t.columns = n * p.products();
  t.out_bytes = 128.0 * n * 2;
  return t;
}

}  // namespace

Kernel kernel_of(const Plan& p, const std::vector<Shape>& shapes, const Chip& chip) {
  Kernel kernel;
  std::vector<int> order(shapes.size());
  std::iota(order.begin(), order.end(), 0);
  if (p.sort_groups)
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return shapes[a].m > shapes[b].m; });
  std::map<std::array<int, 5>, int> kinds;
  for (int index = 0; index < int(order.size()); ++index) {
    const Shape& s = shapes[order[index]];
    const int left = p.swap ? s.n : s.m, right = p.swap ? s.m : s.n;
    const int left_tiles = up(left, p.mma_m), right_tiles = up(right, p.tile_columns());
    const int parts = p.parts(s.k, index, int(order.size())), box = p.box_rows(right);
    const bool right_first = p.raster == Raster::kRightFirst;
    for (int i = 0; i < left_tiles * right_tiles; ++i) {
      const int l = right_first ? i / right_tiles : i % left_tiles;
      const int r = right_first ? i % right_tiles : i / left_tiles;
      const int rows = std::min(p.tile_columns(), right - r * p.tile_columns()),
                there = std::min(p.mma_m, left - l * p.mma_m);
      const std::array<int, 5> key{rows, box, there, s.k, parts};
      auto [at, added] = kinds.emplace(key, int(kernel.kinds.size()));
      if (added) {
        TileKind kind = tile_of(p, chip, p.tile_n(rows), rows, box, there);
        kind.steps = std::ceil(double(s.k) / p.block_k / parts);
        kernel.kinds.push_back(kind);
      }
      if (!kernel.order.empty() && kernel.order.back().kind == at->second)
        kernel.order.back().count += parts;
      else
        kernel.order.push_back({at->second, double(parts)});
    }
    const double k_bytes = s.k * 9.0 / 16, right_bytes = k_bytes * p.products();
    Sweep sweep{double(right_tiles), double(left_tiles),  right_bytes * p.tile_columns(),
                k_bytes * p.mma_m,   right_bytes * right, k_bytes * left,
                2.0 * s.m * s.n};
    if (!right_first) {
      std::swap(sweep.fast_tiles, sweep.slow_tiles), std::swap(sweep.fast_panel, sweep.slow_panel);
      std::swap(sweep.fast_bytes, sweep.slow_bytes);
    }
    kernel.sweeps.push_back(sweep);
  }
  kernel.ctas = p.cta_group;
  const double most = p.cta_group == 2 ? chip.pairs : chip.sms;
  kernel.persistent = p.schedule != Schedule::kTilePerCta;
  kernel.units =
      p.schedule == Schedule::kStatic && p.ctas > 0 ? std::min<double>(most, p.ctas / p.cta_group) : most;
  if (!kernel.persistent)
    kernel.resident = std::max(1.0, std::min(std::floor(chip.shared_bytes / p.shared_bytes()),
                                             std::floor(double(kTmemColumns) / p.tmem_columns())));
  kernel.stages = p.stages;
  kernel.slots = p.roles == Roles::kOneWarp ? 1 : std::max(1, p.acc_slots / p.halves);
  kernel.scale_slots = p.scale_slots < p.stages ? p.scale_slots : 0;
  kernel.epilogue = p.epilogue == Epilogue::kDirect ? &chip.direct_store : &chip.tma_store;
  kernel.parts = p.split_k;
  kernel.part_bytes = p.split_k > 1 ? p.partial_bytes() : 0;
  kernel.stage_bytes = p.stage_bytes();
  return kernel;
}

Estimate estimate(const Plan& p, const Case& c, const Chip& chip, double sm_mhz, const Harness& harness) {
  Harness own = harness;
  if (p.pdl) own.start_us -= std::min(own.start_us, chip.pdl_saves / 1000);
  if (p.launch == LaunchMode::kOne || c.shapes.size() == 1)
    return estimate(chip, sm_mhz, kernel_of(p, c.shapes, chip), own);
  Estimate all;
  if (p.launch == LaunchMode::kLoop) {  // one after the other
    for (const Shape& s : c.shapes) {
      Estimate e = estimate(chip, sm_mhz, kernel_of(p, {s}, chip), all.us == 0 ? own : Harness{});
      all.us += e.us, all.waves = std::max(all.waves, e.waves), all.dram_bytes += e.dram_bytes;
      all.bound = e.bound, all.in_flight = std::max(all.in_flight, e.in_flight);
      for (Term& t : e.terms) {
        const auto same = std::ranges::find(all.terms, t.name, &Term::name);
        if (same == all.terms.end())
          all.terms.push_back(std::move(t));
        else
          same->us += t.us;
      }
    }
  } else {  // side by side, as one launch would be
    all = estimate(chip, sm_mhz, kernel_of(p, c.shapes, chip), own);
  }
  const double each = (p.launch == LaunchMode::kGraph ? chip.graph_node : chip.launch) / 1000;
  const double more = each * double(c.shapes.size() - 1);
  all.terms.push_back({"launches", more, fmt::format("{} more", c.shapes.size() - 1)});
  all.us += more;
  return all;
}

}  // namespace fp4lab::model
