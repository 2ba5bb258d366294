// The page of an experiment. Measured and predicted times never share a table.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fp4lab/experiment.h"
#include "lab/experiment/markdown.h"

namespace fp4lab {
namespace {

using nlohmann::json;

std::string basis(const ArmJudgement& a) {
  if (a.factors.empty() || a.factors.front().kind == Factor::Kind::kNone) return "";
  const Factor& f = a.factors.front();
  if (f.kind == Factor::Kind::kMeasured) return ", measured";
  return f.validation.starts_with("not validated") ? ", by prediction (not validated)" : ", by prediction";
}

bool by_times(Verdict v) {
  return v == Verdict::kAccepted || v == Verdict::kRejected || v == Verdict::kUndecided;
}

std::string factor_table(const Experiment& e, const ArmJudgement& a, Factor::Kind kind) {
  const bool predicted = kind == Factor::Kind::kPredicted;
  Markdown t({"case", predicted ? ">baseline, predicted us" : ">baseline, measured us",
              predicted ? ">variant, predicted us" : ">variant, measured us", ">times as fast",
              predicted ? ">80 %" : ">p10 to p90", ">written before"});
  std::string on, validation;
  for (const Factor& f : a.factors) {
    if (f.kind != kind) continue;
    const auto written = e.predicted.find(f.case_name);
    t.add({f.case_name, fmt::format("{:.2f}", f.baseline_us), fmt::format("{:.2f}", f.us),
           fmt::format("{:.3f}", f.value), fmt::format("{:.2f} to {:.2f}", f.low, f.high),
           a.arm == e.accept.variant && written != e.predicted.end() ? fmt::format("{:g}", written->second)
                                                                     : "-"});
    on = f.on, validation = f.validation;
  }
  if (t.empty()) return "";
  return fmt::format("**{}**, {} ({}{}):\n\n{}\n", a.arm, predicted ? "predicted" : "measured", on,
                     predicted ? "; " + validation : "", t.text());
}

const json* last(const std::vector<json>& records, const Experiment& e, const std::string& type,
                 const std::string& arm, const std::string& c) {
  const json* found = nullptr;
  for (const json& r : records)
    if (r.value("type", "") == type && r.value("hash", "") == e.hash && r.value("arm", "") == arm &&
        r.value("case", "") == c)
      found = &r;
  return found;
}

// Where a predicted time goes, a letter for each fortieth of the slowest arm's.
std::string figure(const Experiment& e, const std::vector<json>& records) {
  struct Bar {
    std::string arm;
    const json* prediction;
  };
  for (const std::string& c : e.accept.cases) {
    std::vector<Bar> bars;
    double most = 0;
    for (const Arm* arm : e.arms())
      if (const json* r = last(records, e, "prediction", arm->name, c); r && r->contains("prediction")) {
        bars.push_back({arm->name, &(*r)["prediction"]});
        most = std::max(most, bars.back().prediction->value("predicted_us", 0.0));
      }
    if (bars.size() < 2) continue;
    std::string text = fmt::format("Where the time of {} goes, predicted:\n\n```\n", c);
    size_t width = 0;
    for (const Bar& b : bars) width = std::max(width, b.arm.size());
    for (const Bar& b : bars) {
      std::string bar, legend;
      double end = 0;
      for (const json& term : b.prediction->value("terms", json::array())) {
        const std::string name = term["term"];
        const double us = term["predicted_us"];
        end += us;
        const char letter = name == "main loop"       ? '#'
                            : name == "DRAM"          ? 'D'
                            : name == "end"           ? 'e'
                            : name == "between tiles" ? 'b'
                            : name == "parts"         ? 'p'
                            : name == "launches"      ? 'L'
                                                      : '.';
        const auto upto = size_t(std::lround(end / most * 48));
        if (upto > bar.size()) bar.append(upto - bar.size(), letter);
        legend += fmt::format("{}{} {:.1f}", legend.empty() ? "" : ", ", name, us);
      }
      text += fmt::format("{:<{}}  {:<48}  {:.1f} us\n{:<{}}    {}\n", b.arm, width, bar,
                          b.prediction->value("predicted_us", 0.0), "", width, legend);
    }
    return text + "```\n\n";
  }
  return "";
}

std::string validity(const Experiment& e, const std::vector<json>& records) {
  std::string text;
  for (const Arm* arm : e.arms()) {
    size_t right = 0, known = 0;
    std::string trouble;
    for (const std::string& c : e.accept.cases)
      if (const json* r = last(records, e, "validity", arm->name, c)) {
        ++known, right += r->value("result", "") == "right";
        if (r->value("result", "") != "right" && trouble.empty()) trouble = r->value("result", "");
      }
    if (known)
      text += fmt::format("{}{} right in {} of {}{}", text.empty() ? "" : "; ", arm->name, right, known,
                          trouble.empty() ? "" : " (" + trouble + ")");
  }
  return text.empty() ? ""
                      : fmt::format("On the emulator, order of accesses checked{}: {}.\n\n",
                                    e.check_case.empty() ? "" : " in " + e.check_case, text);
}

// What was written beforehand against what came out.
std::string calibration(const Experiment& e, const ArmJudgement& a) {
  double sum = 0;
  int n = 0;
  bool measured = false;
  for (const Factor& f : a.factors) {
    const auto written = e.predicted.find(f.case_name);
    if (f.kind == Factor::Kind::kNone || written == e.predicted.end()) continue;
    sum += std::log(f.value / written->second), ++n, measured |= f.kind == Factor::Kind::kMeasured;
  }
  if (!n) return "";
  return fmt::format("{} over what was written before: {:.3f} (geometric mean of {} cases).\n\n",
                     measured ? "Measured" : "The model's prediction", std::exp(sum / n), n);
}

}  // namespace

std::string experiment_page(const Experiment& e, const Judgement& j, const std::vector<json>& records) {
  std::string page = fmt::format(
      "<!-- Generated by `fp4lab experiment show {} --write` from {}.toml and records/{}.jsonl. -->\n# {}: "
      "{}\n\n",
      e.id, e.name, e.name, e.id, e.question);
  std::string how;
  if (!e.variants.empty() && by_times(j.verdict) && e.accept.claims.empty() &&
      e.judged().expect == Arm::Expect::kRight)
    how = basis(j.judged(e));
  page += fmt::format(
      "**{}**{}: {}.{}\n\n", verdict_name(j.verdict), how, j.why,
      e.retrospective ? " *Retrospective: the outcome was known when the prediction was written.*" : "");
  if (!e.claim.empty())
    page += fmt::format("**Claim** ({}): {}{}\n\n", e.claim_source, e.claim,
                        e.claim_factor > 0 ? fmt::format(" [{:g} times]", e.claim_factor) : "");
  page += fmt::format("**Hypothesis.** {}\n\n```\n{}\n```\n\n", e.hypothesis, e.arithmetic);
  if (!j.claims.empty()) {
    Markdown t({"claimed", "of", "case", ">claimed value", ">computed value", ">within", "holds"});
    for (const ClaimJudgement& c : j.claims)
      t.add({c.claim.name, c.claim.arm, c.claim.case_name, fmt::format("{:g}", c.claim.claimed),
             c.value ? fmt::format("{:.4g}", *c.value) : "-", fmt::format("{:.0f} %", c.claim.within * 100),
             c.holds ? "yes" : "no"});
    page += t.text() + "\n";
  }
  for (const ArmJudgement& a : j.arms)
    for (const auto kind : {Factor::Kind::kMeasured, Factor::Kind::kPredicted})
      page += factor_table(e, a, kind);
  page += figure(e, records);
  if (j.arms.size() > 1) {
    page += "Each variant by the same rule:\n\n";
    for (const ArmJudgement& a : j.arms)
      page += fmt::format("* {}: {}: {}\n", a.arm, verdict_name(a.verdict), a.why);
    page += "\n";
  }
  page += validity(e, records);
  if (e.accept.claims.empty() && !e.variants.empty()) page += calibration(e, j.judged(e));
  if (!e.insight.empty()) page += fmt::format("**What was misunderstood.** {}\n\n", e.insight);
  if (!e.cannot_decide.empty())
    page += fmt::format("**What this run cannot decide.** {}\n\n", e.cannot_decide);
  if (!e.needs.empty()) page += fmt::format("**Needs** {}\n\n", e.needs);
  std::string first = "-", devices;
  for (const json& r : records)
    if (r.value("type", "") == "registration" && r.value("hash", "") == e.hash) {
      first = r.value("date", "-");
      break;
    }
  page += fmt::format("Ran first {}, file hash {}. Again: `make experiment E={}`.\n", first,
                      e.hash.substr(0, 16), e.id);
  return filled(page);
}

}  // namespace fp4lab
