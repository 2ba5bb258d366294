// Why a plan cannot be a Blackwell kernel, before anything is compiled. Each reason names the number that is
// wrong, the limit, and where the limit is written.
#pragma once

#include <string>
#include <vector>

#include "fp4lab/plan.h"

namespace fp4lab {

struct Reason {
  std::string rule;  // short and stable, for counting: "mma_m", "shared memory", ...
  std::string text;  // one sentence with the numbers, the source, and what is legal
};

// Everything that is wrong with the plan as such, in the order of the knobs; empty when it is legal.
std::vector<Reason> plan_reasons(const Plan& plan);

// One product C[m][n] of the plan's operation: what this plan cannot do with it.
std::vector<Reason> shape_reasons(const Plan& plan, int m, int n, int k);

// "tile 64x128x256": the legal neighbours of a tile that NVFP4 cannot have, as a sentence each; empty for a
// legal tile.
std::vector<Reason> explain_tile(int m, int n, int k);

// Largest number of stages that fits in shared memory, everything else as in `plan`; 0 when not even one.
int most_stages(Plan plan);
// Largest number of scale buffers, one for each stage at most, that TMEM holds beside the plan's
// accumulators; 0 when not even one.
int most_scale_slots(const Plan& plan);

constexpr int kSharedBytesPerCta = 232448;  // CUDA programming guide, compute capability 10.0: 227 KiB opt-in
constexpr int kTmemColumns = 512;           // PTX ISA 9.7.16.1
constexpr int kArgumentBytes = 32764;       // CUDA programming guide, kernel parameters since 12.1

}  // namespace fp4lab
