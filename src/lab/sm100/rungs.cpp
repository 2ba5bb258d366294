// The ladder: one row per kernel file, with the plan it takes for a case and what its static assertions
// demand.
#include <algorithm>

#include "fp4lab/error.h"
#include "fp4lab/machine.h"
#include "fp4lab/sm100.h"
#include "lab/sm100/choose.h"

namespace fp4lab::sm100 {
namespace {

int most_tokens(const Case& c) {
  int most = 1;
  for (const Shape& s : c.shapes) most = std::max(most, s.m);
  return most;
}
int round_up(int value, int step) { return (value + step - 1) / step * step; }

// Tiles, a split one counted once.
int tiles_of(const Plan& p, const Shape& s) {
  const int left = p.swap ? s.n : s.m, right = p.swap ? s.m : s.n;
  return (left + p.mma_m - 1) / p.mma_m * ((right + p.tile_columns() - 1) / p.tile_columns());
}
int tiles_of(const Plan& p, const Case& c) {
  int tiles = 0;
  for (const Shape& s : c.shapes) tiles += tiles_of(p, s);
  return tiles;
}
// CTAs, or pairs of them, that a B200 runs at once.
int concurrent(const Plan& p) { return machine_for(kArch).sms / p.cluster(); }

// A second accumulator where a CTA gets a second tile.
int accumulators(const Plan& p, const Case& c) { return tiles_of(p, c) > concurrent(p) ? 2 : 1; }

// As many stages as shared memory holds; scale buffers as deep as the stages where TMEM has room.
Plan deepest(Plan p, int limit = 8) {
  p.stages = std::clamp(most_stages(p), 1, limit);
  p.scale_slots = std::max(1, most_scale_slots(p));
  return p;
}

Plan baseline(const Case& c) {
  Plan p;
  p.mma_n = op_of(c.operation) == Op::kDual ? 64 : 128;
  return p;
}
Plan pipeline(const Case&) {
  Plan p;
  p.stages = p.scale_slots = 4;
  return p;
}
Plan specialized(const Case& c) {
  Plan p = baseline(c);
  p.roles = Roles::kSpecialized;
  p.op = op_of(c.operation);
  p = deepest(p);
  p.scale_slots = p.stages = std::min(p.stages, p.scale_slots);  // the rung wants one scale buffer per stage
  return p;
}
Plan persistent(const Case& c) {
  Plan p = baseline(c);
  p.op = op_of(c.operation);
  p.roles = Roles::kSpecialized;
  p.schedule = Schedule::kStatic;
  p.acc_slots = accumulators(p, c);
  p.store_bytes = 32;
  return deepest(p);
}
Plan swapped(const Case& c) {
  Plan p;
  p.swap = true;
  p.n_step = 8;
  p.mma_n = std::min(128, round_up(most_tokens(c), p.n_step));
  p.roles = Roles::kSpecialized;
  p.schedule = Schedule::kStatic;
  p.acc_slots = accumulators(p, c);
  p.weights = Hint::kEvictFirst;  // read once; tokens come back for every tile of weights
  return deepest(p);
}
Plan two_cta(const Case& c) {
  Plan p = swapped(c);
  p.cta_group = 2, p.mma_m = 256, p.n_step = 16;
  p.mma_n = std::min(128, round_up(most_tokens(c), p.n_step));
  p.acc_slots = accumulators(p, c);
  p.scale_copy = ScaleCopy::kTensor, p.multicast = true;
  return deepest(p);
}
Plan dual_two_cta(const Case& c) {
  Plan p = persistent(c);
  p.cta_group = 2, p.mma_m = 256;
  // With up to 256 tokens there is one row of tiles, and N = 64 makes enough of them for every pair.
  p.mma_n = most_tokens(c) <= 256 ? 64 : 128;
  p.acc_slots = p.mma_n == 64 ? accumulators(p, c) : 1;
  p.scale_copy = ScaleCopy::kTensor, p.multicast = true;
  return deepest(p);
}
Plan dual_lean(const Case& c) {
  Plan p = dual_two_cta(c);
  p.collector = true;
  return p;
}
// silu of a first product takes about as long as four stages of the second's MMAs.
Plan dual_top(const Case& c) {
  Plan p = dual_lean(c);
  p.scale_slots = p.stages = std::min(p.stages, p.scale_slots);
  p.late_stages = std::min(4, p.stages);
  return p;
}
Plan dynamic(const Case& c) {
  Plan p = two_cta(c);
  p.schedule = Schedule::kDynamic;
  return deepest(p);
}
// Enough parts that every pair has one.
Plan split(const Case& c) {
  Plan p = two_cta(c);
  p.split_k = std::clamp(concurrent(p) / std::max(1, tiles_of(p, c)), 2, 8);
  p.acc_slots = tiles_of(p, c) * p.split_k > concurrent(p) ? 2 : 1;
  return deepest(p);
}
Plan tma_store(const Case& c) {
  Plan p = two_cta(c);
  p.epilogue = Epilogue::kTma;
  return deepest(p);
}
Plan device_maps(const Case& c) {
  Plan p = two_cta(c);
  p.maps = Maps::kReplaced;
  return deepest(p);
}
Plan wide(const Case& c) {
  Plan p = two_cta(c);
  p.epilogue = Epilogue::kTransposed;
  return deepest(p);
}
// The first accumulators of the next tile are free while the second half of the last one is stored.
Plan halves(Plan p, const Case& c) {
  p.mma_n = 128, p.halves = 2, p.collector = true;
  p.acc_slots = tiles_of(p, c) > concurrent(p) ? 3 : 2;
  return deepest(p);
}
Plan halves_of_case(const Case& c) { return halves(wide(c), c); }
// Tiles of the slowest pair, a part counted as a part of one, when the last `split_groups` groups are split.
double slowest(Plan p, const Case& c, int split_groups) {
  const std::vector<int> order = group_order(p, c.shapes);
  std::vector<double> busy(concurrent(p));
  p.split_groups = split_groups;
  std::size_t next = 0;
  for (int index = 0; index < int(order.size()); ++index) {
    const Shape& s = c.shapes[order[index]];
    const int parts = p.parts(s.k, index, int(order.size()));
    for (int i = tiles_of(p, s) * parts; i > 0; --i) busy[next++ % busy.size()] += 1.0 / parts;
  }
  return *std::max_element(busy.begin(), busy.end());
}
// As few groups as balance the pairs: another one must save a quarter of a tile, since its sums are traffic.
Plan tail_split(const Case& c) {
  Plan p = wide(c);
  p.split_k = 2, p.sort_groups = true;
  p.split_groups = 1;
  for (int groups = 2; groups < int(c.shapes.size()); ++groups)
    if (slowest(p, c, groups) <= slowest(p, c, p.split_groups) - 0.25) p.split_groups = groups;
  return p;
}
// Grids that spread `tiles` evenly: for each number of waves the fewest CTAs that need no more, from 112 up.
// More CTAs than that would only take bandwidth from those that finish last.
std::vector<int> even_grids(const Plan& p, int tiles) {
  std::vector<int> grids;
  for (int waves = std::max(1, (tiles + concurrent(p) - 1) / concurrent(p));; ++waves) {
    const int ctas = (tiles + waves - 1) / waves * p.cluster();
    if (ctas < 112) break;
    grids.push_back(ctas);
  }
  if (grids.empty()) grids.push_back(0);
  return grids;
}
// The contest's plan: tokens per tile, accumulators, parts of K and the grid by the cost model, the rest as
// what pays.
Plan top(const Case& c) {
  std::vector<Plan> plans;
  const auto add = [&](Plan p) {
    p.tokens = Hint::kEvictLast;  // small, and every tile of weights wants them again
    p.sort_groups = true;
    p.op = op_of(c.operation);
    const int tiles = placement(p, c, machine_for(kArch).sms).tiles;
    const int enough = tiles > concurrent(p) ? p.halves + 1 : p.halves;
    for (p.acc_slots = enough; p.acc_slots >= p.halves; --p.acc_slots)
      for (int ctas : even_grids(p, tiles)) {
        p.ctas = ctas;
        plans.push_back(deepest(p));
      }
  };
  const int tokens = most_tokens(c);
  std::vector<int> widths = {128, 64, 192, 256};
  if (tokens <= 256) widths.push_back(round_up(tokens, 16));
  for (int mma_n : widths)
    for (int split_k : {1, 2, 3, 4, 6, 8}) {
      Plan p = wide(c);
      p.mma_n = mma_n, p.split_k = split_k;
      add(p);
    }
  const Plan tail = tail_split(c);
  if (tail.split_groups < int(c.shapes.size())) add(tail);
  if (tokens > 128) add(halves(wide(c), c));
  if (tokens > 128 && tail.split_groups < int(c.shapes.size())) add(halves(tail, c));
  return cheapest(plans, c);
}

void need(bool good, std::string text, std::vector<Reason>& out) {
  if (!good) out.push_back({"rung", std::move(text)});
}
void need_tile_per_cta(const Plan& p, std::vector<Reason>& out) {
  need(!p.swap && p.cta_group == 1, "this rung works unswapped with single CTAs (swap 0, cta_group 1)", out);
  need(p.schedule == Schedule::kTilePerCta && p.acc_slots == 1, "this rung takes one tile per CTA", out);
  need(p.epilogue == Epilogue::kDirect && p.split_k == 1, "this rung stores directly and does not split K",
       out);
}
void baseline_limits(const Plan& p, std::vector<Reason>& out) {
  need_tile_per_cta(p, out);
  need(p.roles == Roles::kOneWarp && p.stages == 1, "the baseline has one working warp and one stage", out);
}
void pipeline_limits(const Plan& p, std::vector<Reason>& out) {
  need_tile_per_cta(p, out);
  need(p.roles == Roles::kOneWarp && p.stages >= 2, "this rung has one working warp and at least two stages",
       out);
  need(p.scale_slots == p.stages, "this rung wants scale_slots = stages", out);
}
void specialized_limits(const Plan& p, std::vector<Reason>& out) {
  need_tile_per_cta(p, out);
  need(p.roles == Roles::kSpecialized, "this rung has specialised warps", out);
  need(p.scale_slots == p.stages, "this rung wants scale_slots = stages", out);
}
void need_static(const Plan& p, std::vector<Reason>& out) {
  need(p.roles == Roles::kSpecialized && p.schedule == Schedule::kStatic,
       "this rung has specialised warps and a static schedule", out);
  need(p.epilogue == Epilogue::kDirect && p.split_k == 1, "this rung stores directly and does not split K",
       out);
}
void persistent_limits(const Plan& p, std::vector<Reason>& out) {
  need_static(p, out);
  need(!p.swap && p.cta_group == 1, "this rung works unswapped with single CTAs (swap 0, cta_group 1)", out);
}
void swap_limits(const Plan& p, std::vector<Reason>& out) {
  need_static(p, out);
  need(p.swap && p.cta_group == 1, "this rung works swapped with single CTAs (swap 1, cta_group 1)", out);
}
void two_cta_limits(const Plan& p, std::vector<Reason>& out) {
  need_static(p, out);
  need(p.swap && p.cta_group == 2, "this rung works swapped with CTA pairs (swap 1, cta_group 2)", out);
}
void need_pair(const Plan& p, std::vector<Reason>& out) {
  need(p.swap && p.cta_group == 2, "this rung works swapped with CTA pairs (swap 1, cta_group 2)", out);
  need(p.roles == Roles::kSpecialized, "this rung has specialised warps", out);
}
void dynamic_limits(const Plan& p, std::vector<Reason>& out) {
  need_pair(p, out);
  need(p.schedule == Schedule::kDynamic, "this rung has a dynamic schedule", out);
  need(p.epilogue == Epilogue::kDirect && p.split_k == 1, "this rung stores directly and does not split K",
       out);
}
void split_limits(const Plan& p, std::vector<Reason>& out) {
  need_pair(p, out);
  need(p.schedule == Schedule::kStatic && p.epilogue == Epilogue::kDirect,
       "this rung has a static schedule and stores directly", out);
  need(p.split_k >= 2, fmt::format("split_k = {}: this rung splits K in at least 2", p.split_k), out);
}
void tma_store_limits(const Plan& p, std::vector<Reason>& out) {
  need_pair(p, out);
  need(p.schedule == Schedule::kStatic && p.split_k == 1,
       "this rung has a static schedule and does not split K", out);
  need(p.epilogue != Epilogue::kDirect, "this rung stores through shared memory (epilogue staged or tma)",
       out);
}
void device_maps_limits(const Plan& p, std::vector<Reason>& out) {
  two_cta_limits(p, out);
  need(p.maps == Maps::kReplaced, "this rung edits maps on the device (maps replaced)", out);
}

void dual_two_cta_limits(const Plan& p, std::vector<Reason>& out) {
  need_static(p, out);
  need(!p.swap && p.cta_group == 2, "this rung works unswapped with CTA pairs (swap 0, cta_group 2)", out);
}
void wide_limits(const Plan& p, std::vector<Reason>& out) {
  need_pair(p, out);
  need(p.schedule == Schedule::kStatic && p.maps == Maps::kByValue,
       "this rung has a static schedule and takes its tensor maps by value", out);
  need(p.epilogue == Epilogue::kTransposed, "this rung stores C transposed (epilogue transposed)", out);
}
void need_whole(const Plan& p, std::vector<Reason>& out) {
  need(p.split_k == 1 && p.halves == 1, "this rung does not split K, and a tile has one right operand", out);
}
void wide_store_limits(const Plan& p, std::vector<Reason>& out) {
  wide_limits(p, out);
  need_whole(p, out);
}
void halves_limits(const Plan& p, std::vector<Reason>& out) {
  wide_limits(p, out);
  need(p.split_k == 1 && p.halves == 2, "this rung does not split K, and its tiles have two halves", out);
}
void tail_split_limits(const Plan& p, std::vector<Reason>& out) {
  wide_limits(p, out);
  need(p.split_k >= 2 && p.halves == 1, "this rung splits K in at least 2, and its tiles have one half", out);
}
void dual_top_limits(const Plan& p, std::vector<Reason>& out) {
  dual_two_cta_limits(p, out);
  need(p.late_stages >= 1 && p.mma_n <= 128,
       "this rung has late stages, and up to 128 columns of the first product in registers", out);
}

constexpr Rung kRungs[] = {
    {{kArch, Op::kGroup, "v0_baseline", "", "one warp issues all TMA and MMA; one stage", "mma_n block_k"},
     baseline,
     baseline_limits},
    {{kArch, Op::kGroup, "v1_pipeline", "v0_baseline", "multistage pipeline: TMA runs ahead of the MMAs",
      "mma_n block_k stages"},
     pipeline,
     pipeline_limits},
    {{kArch, Op::kGroup, "v2_warp_specialized", "v1_pipeline",
      "warp specialisation: one TMA warp, one MMA warp, four epilogue warps",
      "mma_n block_k stages store_bytes"},
     specialized,
     specialized_limits},
    {{kArch, Op::kGroup, "v3_persistent", "v2_warp_specialized",
      "persistent CTAs: the epilogue overlaps the next tile's main loop",
      "mma_n block_k stages acc_slots scale_slots store_bytes raster ctas sort_groups"},
     persistent,
     persistent_limits},
    {{kArch, Op::kGroup, "v4_swap", "v3_persistent", "A and B swapped: weights on MMA_M, tokens on MMA_N",
      "mma_n n_step block_k stages acc_slots scale_slots weights tokens raster ctas sort_groups"},
     swapped,
     swap_limits},
    {{kArch, Op::kGroup, "v5_two_cta", "v4_swap", "2-CTA MMA (cta_group::2, M = 256), tokens shared",
      "mma_n n_step block_k stages acc_slots scale_slots multicast weights tokens raster ctas sort_groups"},
     two_cta,
     two_cta_limits},
    {{kArch, Op::kGroup, "v6_dynamic", "v5_two_cta", "dynamic tile scheduling (clusterlaunchcontrol)",
      "mma_n n_step block_k stages acc_slots scale_slots multicast weights tokens raster sort_groups"},
     dynamic,
     dynamic_limits},
    {{kArch, Op::kGroup, "v7_split_k", "v5_two_cta",
      "split-K: CTA pairs share a tile's K and reduce in a fixed order",
      "mma_n n_step block_k stages acc_slots scale_slots split_k multicast weights tokens raster ctas "
      "sort_groups"},
     split,
     split_limits},
    {{kArch, Op::kGroup, "v8_tma_store", "v5_two_cta",
      "epilogue through shared memory: TMA store, or stores of full sectors",
      "epilogue mma_n n_step block_k stages acc_slots scale_slots multicast weights tokens raster ctas "
      "sort_groups"},
     tma_store,
     tma_store_limits},
    {{kArch, Op::kGroup, "v9_device_maps", "v5_two_cta",
      "tensor maps updated on the device (tensormap.replace)",
      "mma_n n_step block_k stages acc_slots scale_slots multicast weights tokens raster ctas sort_groups"},
     device_maps,
     device_maps_limits},
    {{kArch, Op::kGroup, "v10_early_start", "v5_two_cta",
      "TMA starts as soon as the mbarriers are initialised; no fence at GPU scope",
      "mma_n n_step block_k stages acc_slots scale_slots multicast weights tokens raster ctas sort_groups "
      "pdl"},
     two_cta,
     two_cta_limits},
    {{kArch, Op::kGroup, "v11_wide_store", "v10_early_start",
      "C transposed by stmatrix and stored in full sectors, tcgen05.ld a chunk ahead",
      "mma_n n_step block_k stages acc_slots scale_slots multicast weights tokens raster ctas sort_groups "
      "pdl"},
     wide,
     wide_store_limits},
    {{kArch, Op::kGroup, "v12_lean_issue", "v11_wide_store",
      "descriptors built once per stage: fewer instructions between MMAs",
      "mma_n n_step block_k stages acc_slots scale_slots multicast weights tokens raster ctas sort_groups "
      "pdl"},
     wide,
     wide_store_limits},
    {{kArch, Op::kGroup, "v13_halves", "v12_lean_issue", "two token tiles share each weight tile",
      "mma_n n_step halves block_k stages acc_slots scale_slots collector multicast weights tokens raster "
      "ctas sort_groups pdl"},
     halves_of_case,
     halves_limits},
    {{kArch, Op::kGroup, "v14_tail_split", "v12_lean_issue",
      "split-K for the last groups only; the other tiles store directly",
      "mma_n n_step block_k stages acc_slots scale_slots split_k split_groups multicast weights tokens "
      "raster ctas sort_groups pdl"},
     tail_split,
     tail_split_limits},
    {{kArch, Op::kGroup, "v15_top", "v13_halves", "the ideas that pay, combined; a model picks the plan",
      "mma_n n_step halves block_k stages acc_slots scale_slots split_k split_groups collector multicast "
      "weights tokens raster ctas sort_groups pdl",
      "top"},
     top,
     wide_limits},
    {{kArch, Op::kDual, "v0_baseline", "",
      "A loaded once for both products, two accumulators, silu in the epilogue", "mma_n block_k silu"},
     baseline,
     baseline_limits},
    {{kArch, Op::kDual, "v1_warp_specialized", "v0_baseline", "multistage pipeline, warp specialisation",
      "mma_n block_k stages silu store_bytes"},
     specialized,
     specialized_limits},
    {{kArch, Op::kDual, "v2_persistent", "v1_warp_specialized",
      "persistent CTAs: the epilogue overlaps the next tile's main loop",
      "mma_n block_k stages acc_slots scale_slots silu store_bytes raster ctas"},
     persistent,
     persistent_limits},
    {{kArch, Op::kDual, "v3_two_cta", "v2_persistent",
      "2-CTA MMA (cta_group::2, M = 256): each CTA loads half of both B tiles",
      "mma_n block_k stages acc_slots scale_slots multicast silu store_bytes raster ctas"},
     dual_two_cta,
     dual_two_cta_limits},
    {{kArch, Op::kDual, "v4_early_start", "v3_two_cta",
      "TMA starts as soon as the mbarriers are initialised; no fence at GPU scope",
      "mma_n block_k stages acc_slots scale_slots multicast silu store_bytes raster ctas pdl"},
     dual_two_cta,
     dual_two_cta_limits},
    {{kArch, Op::kDual, "v5_loads_ahead", "v4_early_start",
      "tcgen05.ld of both products a chunk ahead of its use",
      "mma_n block_k stages acc_slots scale_slots multicast silu store_bytes raster ctas pdl"},
     dual_two_cta,
     dual_two_cta_limits},
    {{kArch, Op::kDual, "v6_lean_issue", "v5_loads_ahead",
      "descriptors built once per stage; tcgen05.cp of all scales before both MMAs",
      "mma_n block_k stages acc_slots scale_slots multicast silu store_bytes raster ctas collector pdl"},
     dual_lean,
     dual_two_cta_limits},
    {{kArch, Op::kDual, "v7_top", "v6_lean_issue",
      "the first product's MMAs of the last stages come first: its silu overlaps the second product's",
      "mma_n block_k stages acc_slots scale_slots multicast silu store_bytes raster ctas collector "
      "late_stages pdl",
      "top"},
     dual_top,
     dual_top_limits},
};

}  // namespace

std::span<const Rung> rungs() { return kRungs; }

const Rung& find_rung(Op op, std::string_view name) {
  return static_cast<const Rung&>(fp4lab::find_rung(kArch, op, name));
}

Plan default_plan(const Rung& rung, const Case& c) {
  Plan plan = rung.plan(c);
  plan.op = op_of(c.operation);
  plan.group_capacity = 1;
  while (plan.group_capacity < int(c.shapes.size())) plan.group_capacity *= 2;
  return plan;
}

std::vector<Reason> reasons(const Rung& rung, const Plan& plan, const Case& c) {
  std::vector<Reason> all = plan_reasons(plan);
  rung.limits(plan, all);
  for (const char* knob : {"halves", "split_groups", "late_stages", "pdl"})
    if (rung.knobs.find(knob) == std::string_view::npos && knob_value(plan, knob) != knob_value(Plan{}, knob))
      all.push_back({knob, fmt::format("{} = {}: this rung has it as {} only", knob, knob_value(plan, knob),
                                       knob_value(Plan{}, knob))});
  if (plan.op != rung.op || plan.op != op_of(c.operation))
    all.push_back({"op", fmt::format("{} computes a {} GEMM, case {} is a {}", rung.file(),
                                     knob_value(plan, "op"), c.name, operation_name(c.operation))});
  if (plan.group_capacity < int(c.shapes.size()))
    all.push_back({"group_capacity", fmt::format("{} groups, but the arguments hold {}", c.shapes.size(),
                                                 plan.group_capacity)});
  for (const Shape& s : c.shapes)
    for (Reason& reason : shape_reasons(plan, s.m, s.n, s.k)) all.push_back(std::move(reason));
  return all;
}

Plan plan_for(const Rung& rung, const Case& c, const std::vector<std::string>& knobs) {
  Plan plan = default_plan(rung, c);
  bool scales_named = false;
  for (const std::string& knob : knobs) {
    set_knob(plan, knob);
    scales_named |= knob.starts_with("scale_slots=");
  }
  if (!scales_named) plan.scale_slots = std::max(1, most_scale_slots(plan));
  return plan;
}

std::vector<std::string> compile_options(const Plan& plan) { return {"-DFP4LAB_PLAN=" + plan_define(plan)}; }

}  // namespace fp4lab::sm100
