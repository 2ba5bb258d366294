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
    {"B200, one-CTA main loops", 144, 0.970, 1.034, 954, 0.953, 1.039, 0.956, 1.029},
    {"B200, tcgen05.mma alone", 78, 0.995, 1.025, 35, 0.995, 1.005, 0.873, 1.004},
    {"B200, published persistent fp16 pairs", 144, 0.951, 1.168, 1080, 0.916, 1.107, 0.902, 1.138},
    {"B200, published persistent fp8 pairs", 144, 0.947, 1.156, 1080, 0.894, 1.107, 0.859, 1.154},
    {"B200, published persistent NVFP4 pairs", 72, 0.937, 1.069, 252, 0.921, 1.035, 0.876, 1.000},
    {"B200, small NVFP4 of unknown plan", 24, 0.925, 1.199, 36, 0.939, 1.125, 0.684, 1.000},
    {"H200, sm_90a plans", 290, 0.957, 1.066, 3725, 0.922, 1.080, 0.933, 1.063},
    {"B200, other published kernels", 63, 0.930, 1.283, 26, 0.859, 1.152, 0.924, 1.245},
};

constexpr double kShortestNvfp4 = 23;  // us, of the points of kNvfp4

}  // namespace

Classified class_of(const Point& p, double) {
  const auto of = [](Name name, bool holds) { return Classified{&kClasses[name], holds, &kClasses[name]}; };
  if (p.kind == "mainloop") return of(kLoop, true);
  if (p.kind.starts_with("mma_")) return of(kMma, true);
  if (p.kind == "gemm" && p.source.find("hbarclay") != p.source.npos)
    return of(p.dtype == "fp16" ? kFp16 : p.dtype == "fp8" ? kFp8 : kNvfp4, true);
  if (p.source.find("PR 2540") != p.source.npos) return of(kSmall, true);
  return of(kOther, p.kind != "tma" && p.groups == 1);
}

// None of our Blackwell kernels has run. The published kernels that were measured are pairs with more than
// one wave of tiles, a static schedule and whole K, launched one behind the other, of 23 us and more; small
// products are nearest to those of unknown plan.
Classified class_of(const Plan& plan, const Case&, const Estimate& e) {
  const bool alike = plan.cta_group == 2 && plan.schedule == Schedule::kStatic &&
                     plan.launch == LaunchMode::kOne && plan.split_k == 1 && plan.op == Op::kGroup &&
                     !plan.pdl && e.us > kShortestNvfp4;
  if (e.waves > 1) return {&kClasses[kNvfp4], alike, &kClasses[kNvfp4]};
  return {&kClasses[kSmall], false, &kClasses[kNvfp4]};
}

Classified class_of(const sm90::Plan&, const Case&, const Estimate&) {
  return {&kClasses[kHopper], true, &kClasses[kHopper]};
}

}  // namespace fp4lab::model
