#include "model/generic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/tensor.h"

namespace fp4lab::model {
namespace {

constexpr Format kFormats[] = {{"fp16", 2},      {"bf16", 2},       {"fp8", 1},        {"fp8_e4m3", 1},
                               {"mxfp8", 1, 32}, {"mxf4", 0.5, 32}, {"nvfp4", 0.5, 16}};

double up(double a, double b) { return std::ceil(a / b); }

// Bytes of one k-tile in one CTA, by operand; scales come for whole blocks of 128 rows.
struct StageBytes {
  double left, right, left_scales, right_scales;
  double all() const { return left + right + left_scales + right_scales; }
};
StageBytes stage_bytes(const TiledProduct& p) {
  const double ctas = p.pair ? 2 : 1, k = p.tile_k * p.format->bytes;
  StageBytes s{p.tile_m / ctas * k, p.tile_n / ctas * k, 0, 0};
  if (p.format->scale_block) {
    s.left_scales = up(p.tile_m / ctas, 128) * 128 * p.tile_k / p.format->scale_block;
    s.right_scales = up(p.tile_n, 128) * 128 * p.tile_k / p.format->scale_block;
  }
  return s;
}

}  // namespace

const Format* find_format(std::string_view name) {
  for (const Format& f : kFormats)
    if (f.name == name) return &f;
  return nullptr;
}

int most_stages(const TiledProduct& p, const Chip& chip) {
  constexpr double kStaging = 16 * 1024, kBarriers = 1024;  // of the output; what else there is
  return std::clamp(int((chip.shared_bytes - kStaging - kBarriers) / (stage_bytes(p).all() + 16)), 1, 16);
}

Kernel kernel_of(const TiledProduct& p, const Chip& chip) {
  const double ctas = p.pair ? 2 : 1;
  const StageBytes s = stage_bytes(p);
  Mma mma{p.tile_m, p.tile_n, int(ctas), From::kShared, 0, p.format->scale_block != 0};
  // A copy brings 512 bytes: four scales of 128 rows.
  if (p.format->scale_block)
    mma.scale_copies =
        (up(p.tile_m / ctas, 128) + up(p.tile_n, 128)) * 32 / p.format->bytes / p.format->scale_block / 4;
  const double interval = chip.arch == "sm_90a"
                              ? wgmma_interval(p.tile_m / ctas, p.tile_n)
                              : mma_interval(mma, chip.port, p.pair ? chip.scale_copy_pair : chip.scale_copy);

  Kernel kernel;
  TileKind tile;
  const double k_tiles = up(p.k, p.tile_k);
  tile.steps = up(k_tiles, p.split);
  tile.arriving = s.all();
  // A box may reach beyond the operand: no memory gives those rows.
  const double left_there = std::min(1.0, p.m / p.tile_m), right_there = std::min(1.0, p.n / p.tile_n);
  tile.from_l2 = (s.left * left_there + s.left_scales) / p.cluster_n + s.right * right_there + s.right_scales;
  const double k_rows = std::max(1.0, p.tile_k * p.format->bytes / 128);
  tile.rows = (p.tile_m + p.tile_n) / ctas * k_rows + (s.left_scales + s.right_scales) / 128;
  tile.loads = k_rows * 2 + (p.format->scale_block ? 2 : 0);
  tile.mma = p.tile_k * p.format->bytes / 32 * interval;
  tile.columns = p.tile_n;
  tile.out_bytes = p.tile_m / ctas * p.tile_n * p.out_bytes;
  kernel.kinds = {tile};

  const double tiles_m = up(p.m, p.tile_m), tiles_n = up(p.n, p.tile_n * p.cluster_n);
  kernel.order = {{0, tiles_m * tiles_n * p.groups * std::min<double>(p.split, k_tiles)}};
  kernel.ctas = ctas * p.cluster_n;
  kernel.units = kernel.ctas == 1 ? chip.sms : kernel.ctas == 2 ? chip.pairs : chip.quads;
  kernel.stages = p.stages ? p.stages : most_stages(p, chip);
  kernel.slots = p.slots;
  kernel.persistent = p.persistent;
  kernel.parts = p.split;
  kernel.part_bytes = p.tile_m / ctas * p.tile_n * 4;
  kernel.stage_bytes = s.all();
  kernel.epilogue = p.block_scaled_store ? &chip.fp32_store : &chip.tma_store;
  if (!p.persistent)
    kernel.resident = std::max(1.0, std::floor(chip.shared_bytes / (kernel.stages * s.all() + 16 * 1024)));
  const double k_bytes = p.k * p.format->with_scales();
  Sweep sweep{tiles_m,       tiles_n,       p.tile_m * k_bytes,     double(p.tile_n) * p.cluster_n * k_bytes,
              p.m * k_bytes, p.n * k_bytes, p.m * p.n * p.out_bytes};
  kernel.sweeps.assign(size_t(std::max(1.0, p.groups)), sweep);
  return kernel;
}

Found best_plan(const TiledProduct& product, bool split, const Chip& chip, double sm_mhz,
                const Harness& harness) {
  Found best;
  for (const bool pair : {false, true})
    for (const int n : {64, 128, 192, 256})
      for (const int parts : {1, 2, 3, 4, 6, 8}) {
        TiledProduct p = product;
        p.pair = pair, p.tile_m = pair ? 256 : 128, p.tile_n = n, p.split = parts;
        p.tile_k = int(128 / p.format->bytes);
        if (parts > 1 && (!split || parts > p.k / p.tile_k)) continue;
        if (pair && p.m <= 256) continue;  // a pair wants more than one tile of rows
        p.slots = n > 192 && p.format->scale_block ? 1 : 2;
        p.stages = most_stages(p, chip);
        Estimate e = estimate(chip, sm_mhz, kernel_of(p, chip), harness);
        if (best.estimate.us == 0 || e.us < best.estimate.us) best = {p, std::move(e)};
      }
  return best;
}

std::string describe(const TiledProduct& p, const Chip& chip) {
  return fmt::format("{}x{}x{}{}, {} stages{}", p.tile_m, p.tile_n, p.tile_k, p.pair ? " of pairs" : "",
                     p.stages ? p.stages : most_stages(p, chip),
                     p.split > 1 ? fmt::format(", K in {}", p.split) : "");
}

}  // namespace fp4lab::model
