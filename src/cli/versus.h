// Two kernels and one case: which is faster, measured in turn or by the model, and how their PTX differs.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/look.h"
#include "cli/workload.h"
#include "fp4lab/bench.h"
#include "fp4lab/model.h"
#include "lab/ptx_difference.h"

namespace fp4lab::cli {

// A ratio of times, A / B: how many times as fast B is, with its interval.
struct Ratio {
  double value = 1, low = 1, high = 1;
};
// "faster" and "slower" where the interval excludes 1, "same" where it lies within 2 % of it, else
// "undecided".
std::string verdict_of(const Ratio& ratio);

struct Versus {
  Case spec;
  std::optional<Look> a, b;
  std::optional<Ratio> ratio;
  std::optional<Prediction> predicted_a, predicted_b;
  std::optional<PtxDifference> ptx;  // where both compile
  std::string basis;                 // of the times: "measured" or "predicted"; empty: there are none
  std::string time_a, time_b;        // us with their interval; empty: none
  std::string verdict, why;          // of B: a word of verdict_of, "wrong" or "refused"
  nlohmann::json record = nlohmann::json::object();  // what else is to be kept

  bool bad() const { return verdict == "wrong" || verdict == "refused"; }
};

// Both in one run, in turn: what changes while they are measured (clocks, temperature) changes for both.
class InTurn {
 public:
  InTurn(const Numbers& numbers, std::string_view arch);
  const Device& device() const { return device_; }
  // The kernels of the two looks, on random inputs that are rotated; wrong output is not timed.
  void decide(Versus& v, bool same_code) const;

 private:
  Measurement measured(const InputSets& sets, const Candidate& candidate) const;
  Contender contender(const InputSets& sets, const Candidate& candidate, const Measurement& m) const;

  Numbers numbers_;
  Device device_;
  Timer timer_;
  Nvml nvml_;
};

// From the two looks the verdict with all that it stands on; by the model without `gpu`.
void decide(Versus& v, const InTurn* gpu);

// {"type": "comparison", "case", "a", "b", "basis", "time_a", "time_b", "ratio": {"value", "low", "high"},
// "verdict", "why", ...}; `a` and `b`: what the sides are called.
nlohmann::json record_of(const Versus& v, const std::string& a, const std::string& b);
// Of such records. `names`: with columns for what the sides are called.
Table comparison_table(const std::vector<nlohmann::json>& records, bool names);
// Those that are "measured", "predicted" and neither, so that no table mixes them; none is empty.
std::vector<std::vector<nlohmann::json>> by_basis(const std::vector<nlohmann::json>& records);

// "my.cu (like v2_warp_specialized)"; a rung's name.
std::string title(const Candidate& candidate);
// A screen's lines on what differs; `all`: all of it, however much.
std::string ptx_text(const PtxDifference& difference, bool all);
// Lines of at most a screen's 100 columns.
std::string screen(const std::string& lines);

}  // namespace fp4lab::cli
