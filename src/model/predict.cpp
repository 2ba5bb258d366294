#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fp4lab/error.h"
#include "fp4lab/sm100.h"
#include "fp4lab/sm90.h"
#include "model/harness.h"
#include "model/plans.h"
#include "model/prediction.h"

namespace fp4lab {
namespace {

using namespace model;

struct Predicted {
  Estimate estimate;
  Classified classified;
};

Predicted predicted(const Candidate& candidate, const Case& c, const Chip& chip, double mhz) {
  require_legal(candidate, c);
  return std::visit(
      [&](const auto& plan) {
        Estimate e = estimate(plan, c, chip, mhz, find_harness("fp4lab", chip.name));
        const Classified classified = class_of(plan, c, e);
        return Predicted{std::move(e), classified};
      },
      candidate.plan);
}

struct At {
  const Chip& chip;
  double mhz;
};
At machine_of(const Candidate& candidate, const Setting& setting) {
  const Chip& chip = find_chip(setting.machine, candidate.rung->arch);
  if (chip.arch != candidate.rung->arch)
    fail("{} runs {}, {} is a kernel for {}", chip.name, chip.arch, candidate.rung->name,
         candidate.rung->arch);
  return {chip, setting.sm_mhz > 0 ? setting.sm_mhz : double(chip.sm_mhz)};
}

}  // namespace

std::string Validation::text() const {
  if (!holds) return fmt::format("not validated; error of the nearest class: {}, {} points", on, points);
  return fmt::format("validated on {}, {} points", on, points);
}

std::string Prediction::text() const {
  return fmt::format("predicted {:.2f} us ({:.2f} to {:.2f}: 80 %), {} at {:.0f} MHz, {}", us, low, high,
                     machine, sm_mhz, validation.text());
}

std::string PredictedRatio::text() const {
  return fmt::format("predicted {:.2f} times as fast ({:.2f} to {:.2f}: 80 %), {} at {:.0f} MHz, {}", ratio,
                     low, high, machine, sm_mhz, validation.text());
}

Prediction predict(const Candidate& candidate, const Case& c, const Setting& setting) {
  const auto [chip, mhz] = machine_of(candidate, setting);
  const Predicted p = predicted(candidate, c, chip, mhz);
  Prediction answer = prediction_of(p.estimate, chip, mhz, p.classified);
  if (setting.sm_mhz == 0) {  // a clock that nobody named is one more uncertainty, independent of the model's
    const auto wider = [&](double bound, double at) {
      const double clock = std::log(predicted(candidate, c, chip, at).estimate.us / answer.us);
      return std::hypot(std::log(bound / answer.us), clock);
    };
    answer.low = answer.us * std::exp(-wider(answer.low, chip.sm_mhz_high));
    answer.high = answer.us * std::exp(wider(answer.high, chip.sm_mhz_low));
  }
  return answer;
}

PredictedRatio predict_ratio(const Candidate& variant, const Candidate& baseline, const Case& c,
                             const Setting& setting) {
  const auto [chip, mhz] = machine_of(variant, setting);
  const Predicted v = predicted(variant, c, chip, mhz), b = predicted(baseline, c, chip, mhz);
  PredictedRatio r;
  r.ratio = b.estimate.us / v.estimate.us;
  // The less certain class of the two speaks for both.
  const Classified& from = !v.classified.holds ? v.classified : b.classified;
  const ErrorClass& e = *from.ratios;
  const bool near = std::abs(std::log(r.ratio)) < std::log(1.2);
  double low = near ? e.near_low : e.far_low, high = near ? e.near_high : e.far_high;
  // Errors are of the larger time over the smaller one.
  if (r.ratio < 1) std::swap(low, high), low = 1 / low, high = 1 / high;
  r.low = r.ratio * low, r.high = r.ratio * high;
  r.validation = {std::string(e.on), e.pairs, low, high, v.classified.holds && b.classified.holds};
  r.machine = chip.name, r.sm_mhz = mhz;
  return r;
}

std::pair<double, double> interval_for_verdict(double ratio, double low, double high, bool validated) {
  if (validated) return {low, high};
  constexpr double kTimes = 2, kAtLeast = 1.2;
  return {ratio * std::min(std::pow(low / ratio, kTimes), 1 / kAtLeast),
          ratio * std::max(std::pow(high / ratio, kTimes), kAtLeast)};
}

std::vector<size_t> order_by_prediction(const std::vector<Candidate>& candidates, const Case& c,
                                        const Setting& setting) {
  std::vector<std::pair<double, size_t>> times;
  for (size_t i = 0; i < candidates.size(); ++i) times.emplace_back(predict(candidates[i], c, setting).us, i);
  std::ranges::sort(times);
  std::vector<size_t> order;
  for (const auto& [us, i] : times) order.push_back(i);
  return order;
}

void sort_by_prediction(std::vector<Candidate>& candidates, const Case& c, size_t best,
                        const Setting& setting) {
  std::vector<size_t> order = order_by_prediction(candidates, c, setting);
  if (best && order.size() > best) order.resize(best);
  std::vector<Candidate> sorted;
  for (const size_t i : order) sorted.push_back(std::move(candidates[i]));
  candidates = std::move(sorted);
}

nlohmann::json record_of(const Prediction& p) {
  nlohmann::json terms = nlohmann::json::array();
  for (const Term& t : p.terms) terms.push_back({{"term", t.name}, {"predicted_us", t.us}, {"of", t.what}});
  return {{"predicted_us", p.us},
          {"us", p.us},
          {"interval_low_us", p.low},
          {"interval_high_us", p.high},
          {"interval", 0.8},
          {"machine", p.machine},
          {"sm_mhz", p.sm_mhz},
          {"validated", p.validation.holds},
          {"validation", p.validation.text()},
          {"bound", p.bound},
          {"waves", p.waves},
          {"bytes_in_flight", p.bytes_in_flight},
          {"dram_bytes", p.dram_bytes},
          {"terms", terms}};
}

nlohmann::json record_of(const PredictedRatio& r) {
  return {{"predicted_ratio", r.ratio},
          {"interval_low", r.low},
          {"interval_high", r.high},
          {"interval", 0.8},
          {"machine", r.machine},
          {"sm_mhz", r.sm_mhz},
          {"validated", r.validation.holds},
          {"validation", r.validation.text()}};
}

namespace model {

Prediction prediction_of(const Estimate& e, const Chip& chip, double sm_mhz, const Classified& classified) {
  const ErrorClass& error = *classified.nearest;
  Prediction p;
  p.us = e.us, p.low = e.us * error.low, p.high = e.us * error.high;
  p.validation = {std::string(error.on), error.points, error.low, error.high, classified.holds};
  p.machine = chip.name, p.sm_mhz = sm_mhz;
  p.bound = e.bound, p.terms = e.terms, p.waves = e.waves;
  p.bytes_in_flight = e.in_flight, p.dram_bytes = e.dram_bytes;
  return p;
}

}  // namespace model
}  // namespace fp4lab
