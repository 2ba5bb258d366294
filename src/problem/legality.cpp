#include "fp4lab/legality.h"

#include <fmt/format.h>

#include <algorithm>

namespace fp4lab {
namespace {

class Reasons {
 public:
  template <class... Args>
  void unless(bool good, const char* rule, fmt::format_string<Args...> text, Args&&... args) {
    if (!good) list.push_back({rule, fmt::format(text, std::forward<Args>(args)...)});
  }
  std::vector<Reason> list;
};

bool mma_m_fits(const Plan& p) { return p.mma_m == 128 * p.cta_group; }
bool mma_n_fits(const Plan& p) {
  const int step = 8 * p.cta_group;
  return p.mma_n >= step && p.mma_n <= 256 && p.mma_n % step == 0;
}

void instruction_reasons(const Plan& p, Reasons& r) {
  r.unless(p.cta_group == 1 || p.cta_group == 2, "cta_group",
           "cta_group is 1 or 2 (one CTA, or a pair; PTX ISA 9.7.16.5), not {}", p.cta_group);
  r.unless(p.mma_m != 64, "mma_m",
           "kind::mxf4nvf4 has no M = 64: M is 128 with cta_group 1, 256 with cta_group 2 (PTX ISA "
           "9.7.16.2.1). For few tokens swap the operands: weights on MMA_M = 128, tokens on MMA_N = 8..256");
  r.unless(p.mma_m == 64 || mma_m_fits(p), "mma_m",
           "M = {} with cta_group {}: kind::mxf4nvf4 takes M = 128 with cta_group 1 and 256 with cta_group 2 "
           "(PTX ISA 9.7.16.2.1; M = 128 over a pair exists in the manual, but its scale layout is unproven)",
           p.mma_m, p.cta_group);
  r.unless(mma_n_fits(p), "mma_n",
           "N = {}: kind::mxf4nvf4 takes {}..256 in steps of {} with cta_group {} (PTX ISA 9.7.16.2.1)",
           p.mma_n, 8 * p.cta_group, 8 * p.cta_group, p.cta_group);
  r.unless(p.n_step % (8 * p.cta_group) == 0 && p.n_step > 0 && p.mma_n % p.n_step == 0, "n_step",
           "n_step = {}: a multiple of {} (the instruction's step with cta_group {}) that divides mma_n = {}",
           p.n_step, 8 * p.cta_group, p.cta_group, p.mma_n);
  r.unless(p.halves == 1 || (p.halves == 2 && p.op == Op::kGroup && p.swap), "halves",
           "halves = {}: 1, or 2 in a swapped group GEMM, where two tiles of tokens share the weights",
           p.halves);
  r.unless(
      p.halves == 1 || p.mma_n % 64 == 0, "halves",
      "halves = 2 with N = {}: the second half starts at a multiple of 64 rows, where its scales start at an "
      "even TMEM column",
      p.mma_n);
  r.unless(
      p.block_k >= 256 && p.block_k % 256 == 0, "block_k",
      "block_k = {}: a multiple of 256, since a 128-byte swizzle atom holds K = 256 of e2m1 (PTX ISA 5.5.7)",
      p.block_k);
}

void resource_reasons(const Plan& p, Reasons& r) {
  r.unless(p.stages >= 1, "stages", "stages = {}: at least 1", p.stages);
  r.unless(p.acc_slots >= 1 && p.acc_slots >= p.halves, "acc_slots",
           "acc_slots = {}: at least {}, one for each half of a tile", p.acc_slots, p.halves);
  r.unless(p.scale_slots >= 1 && p.scale_slots <= p.stages, "scale_slots",
           "scale_slots = {}: 1..stages = {}; more would never be used", p.scale_slots, p.stages);
  if (!r.list.empty()) return;  // the sums below need sane factors
  r.unless(p.shared_bytes() <= kSharedBytesPerCta, "shared memory",
           "{} stages of {} bytes and {} bytes of barriers and staging are {} bytes of shared memory; a CTA "
           "has {} (227 KiB), enough for {} stages",
           p.stages, p.stage_bytes(), p.shared_bytes() - p.stages * p.stage_bytes(), p.shared_bytes(),
           kSharedBytesPerCta,
           (kSharedBytesPerCta - (p.shared_bytes() - p.stages * p.stage_bytes())) / p.stage_bytes());
  r.unless(p.tmem_columns_used() <= kTmemColumns, "TMEM",
           "{} accumulators of {} columns and {} scale buffers of {} are {} columns; TMEM has {} (PTX ISA "
           "9.7.16.1)",
           p.acc_slots * p.products(), p.acc_columns(), p.scale_slots, p.scale_slot_columns(),
           p.tmem_columns_used(), kTmemColumns);
  const long bytes = long(p.cta_group) * p.stage_bytes();
  r.unless(bytes < (1 << 20), "mbarrier bytes",
           "a stage of {} bytes: an mbarrier phase counts at most 2^20 - 1 (PTX ISA 9.7.13.15.5)", bytes);
  r.unless(p.group_capacity >= 1 && p.args_bytes() <= kArgumentBytes, "group_capacity",
           "arguments for {} groups take {} bytes; a kernel's parameters end at {}", p.group_capacity,
           p.args_bytes(), kArgumentBytes);
}

void combination_reasons(const Plan& p, Reasons& r) {
  r.unless(p.store_bytes == 16 || p.store_bytes == 32, "store_bytes",
           "store_bytes = {}: 16 (st.global.v4.b32) or 32 (st.global.v8.b32, PTX ISA 9.7.9.11)",
           p.store_bytes);
  r.unless(p.cta_group == 1 || p.roles == Roles::kSpecialized, "roles",
           "cta_group 2 needs roles=specialized");
  r.unless(p.cta_group == 1 || p.scale_copy == ScaleCopy::kTensor, "scale_copy",
           "cta_group 2 needs scale_copy=tensor: the odd CTA's copies must signal the even CTA's mbarrier, "
           "and plain cp.async.bulk has no .cta_group (PTX ISA 9.7.9.25.4.1)");
  r.unless(!p.multicast || p.cta_group == 2, "multicast", "multicast needs a pair of CTAs (cta_group 2)");
  r.unless(p.schedule != Schedule::kTilePerCta || p.acc_slots == 1, "acc_slots",
           "acc_slots = {} with one tile per CTA: only one would be used", p.acc_slots);
  r.unless(p.roles == Roles::kSpecialized || p.schedule == Schedule::kTilePerCta, "schedule",
           "a persistent schedule needs roles=specialized");
  r.unless(p.op == Op::kGroup || !p.swap, "swap",
           "the dual GEMM is not swapped: its A tile is the one that is shared");
  r.unless(p.maps == Maps::kByValue || (p.scale_copy == ScaleCopy::kTensor && p.split_k == 1), "maps",
           "maps=replaced needs scale_copy=tensor and split_k=1 (it uses the workspace for maps)");
  r.unless(p.swap || p.epilogue == Epilogue::kDirect, "epilogue",
           "epilogue={} is for swapped plans; unswapped ones store whole sectors from registers",
           p.epilogue == Epilogue::kTma      ? "tma"
           : p.epilogue == Epilogue::kStaged ? "staged"
                                             : "transposed");
  r.unless(!p.collector || p.right_tiles() == 2, "collector",
           "collector=1 is for the dual GEMM and for halves=2: only there do two MMAs in a row read the same "
           "A (PTX "
           "ISA 9.7.16.10)");
  r.unless(
      p.late_stages == 0 || (p.op == Op::kDual && p.late_stages <= p.stages && p.scale_slots == p.stages),
      "late_stages",
      "late_stages = {}: for the dual GEMM, up to stages = {}, which stay in the ring until the second "
      "product "
      "has read them, with a scale buffer for each",
      p.late_stages, p.stages);
  r.unless(p.split_k >= 1, "split_k", "split_k = {}: at least 1", p.split_k);
  r.unless(p.op == Op::kGroup || p.split_k == 1, "split_k",
           "silu is not linear: the dual GEMM cannot add partial results");
}

}  // namespace

std::vector<Reason> plan_reasons(const Plan& plan) {
  Reasons r;
  instruction_reasons(plan, r);
  resource_reasons(plan, r);
  combination_reasons(plan, r);
  return r.list;
}

std::vector<Reason> shape_reasons(const Plan& p, int m, int n, int k) {
  Reasons r;
  r.unless(m >= 1, "M", "M = {}: at least 1", m);
  r.unless(n >= 128 && n % 128 == 0, "N", "N = {}: a multiple of 128 (a row block of scales)", n);
  r.unless(k >= p.block_k && k % p.block_k == 0, "K", "K = {}: a multiple of block_k = {}", k, p.block_k);
  const int right = p.swap ? m : n;
  r.unless(right <= p.mma_n || p.mma_n % 64 == 0, "mma_n",
           "{} rows in tiles of {}: a tile must start at a multiple of 64 rows, where its scales start at an "
           "even TMEM column",
           right, p.mma_n);
  return r.list;
}

std::vector<Reason> explain_tile(int m, int n, int k) {
  Plan plan;
  plan.mma_m = m, plan.mma_n = n, plan.block_k = k;
  plan.cta_group = m > 128 ? 2 : 1;
  plan.n_step = 8 * plan.cta_group;
  Reasons r;
  instruction_reasons(plan, r);
  const int step = 8 * plan.cta_group;
  if (!mma_m_fits(plan)) {
    const int below = n / 8 * 8;
    if (m <= 256)
      r.unless(false, "neighbour", "legal: {}x{}x{} swapped, the {} rows as MMA_N under 128 rows of weights",
               128, std::min(256, (m + 7) / 8 * 8), k, m);
    r.unless(false, "neighbour", "legal: 128x{}x{}, {} of 128 rows idle", std::max(8, below), k,
             m < 128 ? 128 - m : 0);
  }
  if (!mma_n_fits(plan)) {
    const int up = std::min(256, (std::max(n, 1) + step - 1) / step * step);
    r.unless(false, "neighbour", "legal: N = {}", up);
  }
  if (k % 256 != 0 || k < 256)
    r.unless(false, "neighbour", "legal: K = {}", std::max(256, (k + 255) / 256 * 256));
  return r.list;
}

int most_stages(Plan plan) {
  for (plan.stages = 1; plan.shared_bytes() <= kSharedBytesPerCta;) ++plan.stages;
  return plan.stages - 1;
}

int most_scale_slots(const Plan& plan) {
  if (plan.scale_slot_columns() <= 0) return 0;
  const int room = kTmemColumns - plan.acc_column(plan.acc_slots, 0);
  return std::clamp(room / plan.scale_slot_columns(), 0, plan.stages);
}

}  // namespace fp4lab
