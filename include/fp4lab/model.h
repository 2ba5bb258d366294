// How long would a plan take? Computed from machine constants with sources (src/model), never measured: every
// figure carries the machine, the clock, and the error that the model had where it could be compared with
// measurements.
//
//   const Prediction p = predict(candidate, c);
//   fmt::print("{}\n", p.text());  // "predicted 21.3 us (18.0-25.2: 80 %), B200 at 1850 MHz, validated on
//   ..." const PredictedRatio r = predict_ratio(variant, baseline, c);
//
// notes/design/model.md tells the model.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fp4lab/problem.h"
#include "fp4lab/rung.h"

namespace fp4lab {

/// Where a kernel is thought to run.
struct Setting {
  std::string machine;  // "B200", "H200", "H100"; empty: the one of the kernel's architecture
  double sm_mhz = 0;    // 0: the clock that the machine is known to hold under such work
};

/// How far predictions of a kind were from measurements that no constant was fitted to.
struct Validation {
  std::string on;  // what was compared: "H200, sm_90a plans, 20 to 60 us"
  int points = 0;  // measured points
  double low = 0;  // of measured / predicted, the 10th and the 90th percentile
  double high = 0;
  bool holds = false;  // false: nothing of this kind was ever measured; the figures are the nearest kind's
  std::string text() const;  // "validated on ..." or "not validated; nearest: ..."
};

/// A part of a predicted time. The terms of a prediction add up to its time.
struct Term {
  std::string name;
  double us = 0;
  std::string what;  // the quantities behind it
};

/// A predicted time of one launch on the device, operands in DRAM, not in the L2.
struct Prediction {
  double us = 0;
  double low = 0, high = 0;  // 80 % of measurements are expected between these; wider when no clock was named
  Validation validation;
  std::string machine;
  double sm_mhz = 0;
  std::string bound;           // what the main loop waits for: "tensor", "latency", "fill", "memory", ...
  std::vector<Term> terms;     // they add up to us
  double bytes_in_flight = 0;  // of all SMs, while the ring of stages is full
  double waves = 0;            // tiles per unit (CTA, pair) that computes at a time
  double dram_bytes = 0;

  /// One line that says all of this is a prediction, for what machine and clock, and how sure.
  std::string text() const;
};

/// Predicts the candidate's time for the case. Fails when the plan is not legal for the case and on a machine
/// that there is not. It launches nothing and takes microseconds.
Prediction predict(const Candidate& candidate, const Case& c, const Setting& setting = {});

/// How many times as fast the variant is predicted to be: time of the baseline / time of the variant. Its
/// error is validated by itself, on pairs of plans of one shape: what the model gets wrong in both cancels.
struct PredictedRatio {
  double ratio = 1;
  double low = 1, high = 1;  // 80 %
  Validation validation;
  std::string machine;
  double sm_mhz = 0;
  std::string text() const;
};
PredictedRatio predict_ratio(const Candidate& variant, const Candidate& baseline, const Case& c,
                             const Setting& setting = {});

/// The interval that a verdict is based on. A class of plans that was never compared with measurements has an
/// error that nobody knows: twice that of the nearest class (in logarithm), and at least a factor of 1.2.
std::pair<double, double> interval_for_verdict(double ratio, double low, double high, bool validated);

/// Indices of legal candidates by their predicted time, the fastest first.
std::vector<size_t> order_by_prediction(const std::vector<Candidate>& candidates, const Case& c,
                                        const Setting& setting = {});
/// Sorts legal candidates by their predicted time, the fastest first, and keeps the first `best`; 0 keeps
/// all.
void sort_by_prediction(std::vector<Candidate>& candidates, const Case& c, size_t best = 0,
                        const Setting& setting = {});

/// {"predicted_us": .., "low_us", "high_us", "machine", "sm_mhz", "validated", "validation", "bound",
/// "terms"}.
nlohmann::json record_of(const Prediction& prediction);
nlohmann::json record_of(const PredictedRatio& ratio);

}  // namespace fp4lab
