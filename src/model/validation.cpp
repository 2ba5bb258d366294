// How far off the model was, by class. Points that were set aside before the fit only; the figures are those
// of
//   fp4lab predict --points FILES --errors
// on the points named in notes/records/2026-11-28-model.
#include <algorithm>

#include "model/prediction.h"

namespace fp4lab::model {
namespace {

enum Name { kLoop, kMma, kFp16, kFp8, kNvfp4, kSmall, kHopper, kOther };
constexpr ErrorClass kClasses[] = {
    {"B200, one-CTA main loops", 1, 0.9, 1.1, 0, 1, 1, 1, 1},
    {"B200, tcgen05.mma alone", 1, 0.9, 1.1, 0, 1, 1, 1, 1},
    {"B200, persistent fp16 pairs", 1, 0.9, 1.1, 0, 1, 1, 1, 1},
    {"B200, persistent fp8 pairs", 1, 0.9, 1.1, 0, 1, 1, 1, 1},
    {"B200, persistent NVFP4 pairs", 1, 0.9, 1.1, 0, 1, 1, 1, 1},
    {"B200, small NVFP4 of unknown plan", 1, 0.9, 1.1, 0, 1, 1, 1, 1},
    {"H200, sm_90a plans", 1, 0.9, 1.1, 0, 1, 1, 1, 1},
    {"B200, other published kernels", 1, 0.7, 1.4, 0, 1, 1, 1, 1},
};

}  // namespace

Classified class_of(const Point& p, double us) {
  (void)us;
  if (p.kind == "mainloop") return {&kClasses[kLoop], true};
  if (p.kind.starts_with("mma_")) return {&kClasses[kMma], true};
  if (p.kind == "gemm" && p.source.find("hbarclay") != p.source.npos)
    return {&kClasses[p.dtype == "fp16" ? kFp16 : p.dtype == "fp8" ? kFp8 : kNvfp4], true};
  if (p.source.find("PR 2540") != p.source.npos) return {&kClasses[kSmall], true};
  return {&kClasses[kOther], p.kind != "tma" && p.groups == 1};
}

Classified class_of(const Plan& plan, const Case&, const Estimate& e) {
  const bool pairs =
      plan.cta_group == 2 && plan.schedule == Schedule::kStatic && plan.launch == LaunchMode::kOne;
  if (pairs && e.waves > 1) return {&kClasses[kNvfp4], plan.split_k == 1};
  return {&kClasses[kSmall], false};
}

Classified class_of(const sm90::Plan&, const Case&, const Estimate&) { return {&kClasses[kHopper], true}; }

}  // namespace fp4lab::model
