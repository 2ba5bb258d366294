// Products by kernels that are not ours: a tile, a cluster, a ring of stages; as published tables name them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/kernel.h"

namespace fp4lab::model {

/// A number format of the operands: bytes of a value, of its share of the scales, and how many K a scale has.
struct Format {
  std::string_view name;
  double bytes;
  int scale_block = 0;  // values along K that share a scale of a byte; 0: no scales
  double with_scales() const { return bytes + (scale_block ? 1.0 / scale_block : 0); }
};
/// "fp16", "bf16", "fp8", "fp8_e4m3", "mxfp8", "mxf4", "nvfp4"; none for anything else.
const Format* find_format(std::string_view name);

/// C[m][n] = A[m][k] B[n][k]^T, `groups` of them, by a warp-specialised TMA kernel.
struct TiledProduct {
  const Format* format = nullptr;
  double m = 0, n = 0, k = 0, groups = 1;
  int tile_m = 128, tile_n = 128, tile_k = 64;  // of the CTA pair where pair is true
  bool pair = false;                            // two CTAs share an MMA
  int cluster_n = 1;                            // tiles side by side whose left operand is multicast
  int stages = 0;                               // 0: as many as fit
  int slots = 2;                                // accumulators
  int split = 1;
  bool persistent = true;
  int out_bytes = 2;
  bool block_scaled_store =
      false;  // stores fp32 through registers, as the CuTe DSL block-scaled example does
};
/// Stages that fit beside the output's staging.
int most_stages(const TiledProduct& p, const Chip& chip);
Kernel kernel_of(const TiledProduct& p, const Chip& chip);

/// The fastest plan for this product on the chip, by the model, of those that libraries offer: rows of A on
/// M, one CTA or a pair, 64 to 256 columns; split-K only where `split` allows it.
struct Found {
  TiledProduct plan;
  Estimate estimate;
};
Found best_plan(const TiledProduct& product, bool split, const Chip& chip, double sm_mhz,
                const Harness& harness);

/// "256x128x256 of pairs, 6 stages".
std::string describe(const TiledProduct& p, const Chip& chip);

}  // namespace fp4lab::model
