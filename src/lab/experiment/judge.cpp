// The verdict: a pure function of the experiment's file, its records and the rule set.
//
// In this order, and the first that holds is it:
//   not run       a point has no record, or hardware that it needs was not there
//   invalid       the baseline or the judged arm gave a wrong result, failed, or no such plan can be
//   rejected      the rule set forbids a knob of the judged arm; or only_if does not hold of the baseline
//   accepted, rejected, undecided   by the factors: the geometric mean against accept.geomean, each against
//                 accept.worst_case. Where an interval holds the threshold, its error decides nothing:
//                 undecided
//   validity only right in every case, and neither a GPU nor the model says how fast in every one. A model
//                 that gives both arms the same figures throughout does not know what differs
// An arm that is expected to be wrong or illegal is accepted when it is found so in every case. Where there
// are claims they decide, by their values.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "fp4lab/error.h"
#include "fp4lab/experiment.h"
#include "fp4lab/model.h"
#include "fp4lab/store.h"

namespace fp4lab {
namespace {

using nlohmann::json;

// The records by what they are of; of several the last counts.
class Found {
 public:
  Found(const Experiment& e, const std::vector<json>& records) {
    for (const json& r : records) {
      if (r.value("hash", "") != e.hash) {
        other_hash = true;
        continue;
      }
      const std::string type = r.value("type", "");
      registered |= type == "registration";
      by_[{type, r.value("arm", ""), r.value("case", "")}] = &r;
    }
  }
  const json* get(const char* type, const std::string& arm, const std::string& c) const {
    const auto at = by_.find({type, arm, c});
    return at == by_.end() ? nullptr : at->second;
  }
  bool registered = false, other_hash = false;

 private:
  std::map<std::tuple<std::string, std::string, std::string>, const json*> by_;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

struct State {
  enum { kRight, kWrong, kIllegal, kMissing } what = kMissing;
  std::string why;
};

// What is known of an arm's output in a case.
State state_of(const Found& found, const Arm& arm, const std::string& c) {
  const json* validity = found.get("validity", arm.name, c);
  const json* time = found.get("time", arm.name, c);
  if (time && time->contains("error"))
    return {State::kWrong, fmt::format("'{}' in {}: {}", arm.name, c, first_line((*time)["error"]))};
  if (validity) {
    const std::string result = validity->value("result", "");
    if (result == "right") return {State::kRight, ""};
    const std::string error = validity->value("error", "");
    if (result == "illegal")
      return {State::kIllegal, fmt::format("'{}' in {}: no such plan can be: {}: {}", arm.name, c,
                                           validity->value("rule", ""), first_line(error))};
    const double outside = validity->value("outside_tolerance", 0.0);
    return {State::kWrong,
            fmt::format("'{}' in {}: {}", arm.name, c,
                        !error.empty() ? first_line(error)
                        : outside > 0  ? fmt::format("{:.0f} elements are outside the tolerance", outside)
                                       : "the order of its accesses is luck")};
  }
  if (time) return {State::kRight, ""};
  if (const json* absent = found.get("absent", arm.name, c))
    return {State::kMissing,
            fmt::format("'{}' in {}: {}", arm.name, c, first_line(absent->value("reason", "")))};
  return {State::kMissing, fmt::format("'{}' in {} has no record", arm.name, c)};
}

Factor measured(const json& base, const json& variant) {
  Factor f;
  f.kind = Factor::Kind::kMeasured;
  const json &b = base["us"], &v = variant["us"];
  f.baseline_us = b["median"], f.us = v["median"];
  f.value = f.baseline_us / f.us;
  f.low = b["p10"].get<double>() / v["p90"].get<double>(),
  f.high = b["p90"].get<double>() / v["p10"].get<double>();
  f.on = variant.value("device", "");
  return f;
}

Factor predicted(const json& ratio, const json* base, const json* variant) {
  Factor f;
  f.kind = Factor::Kind::kPredicted;
  f.value = ratio["predicted_ratio"];
  std::tie(f.low, f.high) = interval_for_verdict(f.value, ratio["interval_low"], ratio["interval_high"],
                                                 ratio.value("validated", false));
  if (base) f.baseline_us = (*base)["prediction"].value("predicted_us", 0.0);
  if (variant) f.us = (*variant)["prediction"].value("predicted_us", 0.0);
  f.on = fmt::format("{} at {:.0f} MHz", ratio.value("machine", ""), ratio.value("sm_mhz", 0.0));
  f.validation = ratio.value("validation", "");
  return f;
}

Factor factor_of(const Found& found, const Arm& base, const Arm& arm, const std::string& c) {
  const json *b = found.get("time", base.name, c), *v = found.get("time", arm.name, c);
  Factor f;
  if (b && v && b->contains("us") && v->contains("us") && b->value("device", "") == v->value("device", "?"))
    f = measured(*b, *v);
  else if (const json* p = found.get("prediction", arm.name, c); p && p->contains("ratio")) {
    const json* bp = found.get("prediction", base.name, c);
    f = predicted((*p)["ratio"], bp && bp->contains("prediction") ? bp : nullptr, p);
  }
  f.case_name = c;
  return f;
}

// What differs between the two plans is nothing to the model: their predictions are one in every figure of
// every case. A factor of 1 is then no prediction.
bool blind(const Found& found, const Experiment& e, const Arm& arm) {
  const auto figures = [](const json& prediction) {
    json f = prediction;
    for (const char* field : {"validated", "validation", "interval_low_us", "interval_high_us"})
      f.erase(field);
    return f;
  };
  for (const std::string& c : e.accept.cases) {
    if (factor_of(found, e.baseline, arm, c).kind != Factor::Kind::kPredicted) return false;
    const json *b = found.get("prediction", e.baseline.name, c), *v = found.get("prediction", arm.name, c);
    if (!b || !v || !b->contains("prediction") || figures((*b)["prediction"]) != figures((*v)["prediction"]))
      return false;
  }
  return true;
}

std::string by(const ArmJudgement& a) {
  if (a.factors.front().kind == Factor::Kind::kMeasured)
    return fmt::format("measured on {}", a.factors.front().on);
  const std::string& v = a.factors.front().validation;
  return fmt::format("predicted for {}{}", a.factors.front().on,
                     v.starts_with("not validated") ? ", not validated" : "");
}

void decide(const AcceptRule& rule, ArmJudgement& a) {
  double sum = 0, low = 0, high = 0;
  const Factor* worst = &a.factors.front();
  bool surely_worse = false, surely_fine = true;
  for (const Factor& f : a.factors) {
    sum += std::log(f.value), low += std::log(f.low), high += std::log(f.high);
    if (f.value < worst->value) worst = &f;
    surely_worse |= f.high < rule.worst, surely_fine &= f.low >= rule.worst;
  }
  const double n = double(a.factors.size());
  // The model's errors in the cases go together: the ends of the intervals are not averaged down.
  a.geomean = std::exp(sum / n), a.low = std::exp(low / n), a.high = std::exp(high / n);
  const std::string numbers = fmt::format(
      "{:.3g} times as fast in geometric mean ({:.3g} to {:.3g}), {:.3g} in the worst case ({}), {}; "
      "the rule asks for {:g} and {:g}",
      a.geomean, a.low, a.high, worst->value, worst->case_name, by(a), rule.geomean, rule.worst);
  if (a.high < rule.geomean || surely_worse)
    a.verdict = Verdict::kRejected, a.why = numbers;
  else if (a.low >= rule.geomean && surely_fine)
    a.verdict = Verdict::kAccepted, a.why = numbers;
  else
    a.verdict = Verdict::kUndecided, a.why = numbers + ": a threshold lies inside the error";
}

std::optional<std::string> forbidden(const Arm& arm, const RuleSet& rules) {
  for (const std::string& setting : arm.set) {
    const size_t equal = setting.find('=');
    const auto at = rules.forbidden.find(setting.substr(0, equal));
    if (at != rules.forbidden.end() &&
        std::ranges::find(at->second, setting.substr(equal + 1)) != at->second.end())
      return fmt::format("the rule set '{}' forbids {}", rules.name, setting);
  }
  return {};
}

double quantity(const Found& found, const QuantityClaim& q, const std::string& arm, const std::string& c) {
  const json* p = found.get("prediction", arm, c);
  return p && p->contains("quantities") ? (*p)["quantities"].value(q.name, std::nan("")) : std::nan("");
}

ArmJudgement judge_arm(const Experiment& e, const Found& found, const RuleSet& rules, const Arm& arm) {
  ArmJudgement a;
  a.arm = arm.name;
  const auto so = [&](Verdict verdict, std::string why) {
    a.verdict = verdict, a.why = std::move(why);
    return a;
  };
  std::vector<State> base, own;
  for (const std::string& c : e.accept.cases) {
    base.push_back(state_of(found, e.baseline, c)), own.push_back(state_of(found, arm, c));
    if (arm.expect == Arm::Expect::kRight) a.factors.push_back(factor_of(found, e.baseline, arm, c));
  }
  for (const State& s : base)
    if (s.what == State::kMissing) return so(Verdict::kNotRun, s.why);
  for (const State& s : own)
    if (s.what == State::kMissing) return so(Verdict::kNotRun, s.why);
  for (const State& s : base)
    if (s.what != State::kRight) return so(Verdict::kInvalid, s.why);
  if (arm.expect != Arm::Expect::kRight) {
    const auto wanted = arm.expect == Arm::Expect::kWrong ? State::kWrong : State::kIllegal;
    for (size_t i = 0; i < own.size(); ++i)
      if (own[i].what != wanted)
        return so(Verdict::kRejected,
                  fmt::format("'{}' in {} was not found to be {}", arm.name, e.accept.cases[i],
                              wanted == State::kWrong ? "wrong" : "illegal"));
    return so(Verdict::kAccepted, fmt::format("found in every case: {}", own.front().why));
  }
  for (const State& s : own)
    if (s.what != State::kRight) return so(Verdict::kInvalid, s.why);
  if (const auto why = forbidden(arm, rules)) return so(Verdict::kRejected, *why);
  if (const auto& q = e.accept.only_if) {
    for (const std::string& c : e.accept.cases) {
      const double value = quantity(found, *q, e.baseline.name, c);
      if (std::isnan(value))
        return so(Verdict::kValidityOnly, fmt::format("nothing says {} in {}", q->name, c));
      if (value < q->claimed)
        return so(Verdict::kRejected, fmt::format("only if {} is at least {:g}: in {} it is {:.3g}", q->name,
                                                  q->claimed, c, value));
    }
  }
  if (blind(found, e, arm)) {
    for (Factor& f : a.factors) f.kind = Factor::Kind::kNone;
    return so(
        Verdict::kValidityOnly,
        "the output is right in every case, and the model does not know the difference: it gives both the "
        "same time in every term; it takes a GPU to tell");
  }
  if (std::ranges::any_of(a.factors, [](const Factor& f) { return f.kind == Factor::Kind::kNone; }))
    return so(Verdict::kValidityOnly,
              "the output is right in every case; how fast it is can neither be measured nor predicted here");
  decide(e.accept, a);
  return a;
}

}  // namespace

std::string_view verdict_name(Verdict v) {
  switch (v) {
    case Verdict::kAccepted:
      return "ACCEPTED";
    case Verdict::kRejected:
      return "REJECTED";
    case Verdict::kUndecided:
      return "UNDECIDED";
    case Verdict::kInvalid:
      return "INVALID";
    case Verdict::kValidityOnly:
      return "VALIDITY ONLY";
    case Verdict::kNotRun:
      return "NOT RUN";
  }
  return "?";
}

const ArmJudgement& Judgement::judged(const Experiment& e) const {
  const auto at = std::ranges::find(arms, e.accept.variant, &ArmJudgement::arm);
  if (at == arms.end()) fail("{}: '{}' was not judged", e.path, e.accept.variant);
  return *at;
}

Judgement judge(const Experiment& e, const std::vector<json>& records, const RuleSet& rules) {
  const Found found(e, records);
  Judgement j;
  for (const Arm& arm : e.variants) j.arms.push_back(judge_arm(e, found, rules, arm));
  for (const QuantityClaim& q : e.accept.claims) {
    ClaimJudgement c{q, {}, false};
    if (const double value = quantity(found, q, q.arm, q.case_name); !std::isnan(value)) {
      c.value = value;
      c.holds = std::abs(value - q.claimed) <= q.within * std::abs(q.claimed);
    }
    j.claims.push_back(c);
  }
  if (!found.registered) {
    j.why = found.other_hash ? "the file is not what it was when it ran: run it again" : "it has no record";
  } else if (j.claims.empty()) {
    const ArmJudgement& a = j.judged(e);
    j.verdict = a.verdict, j.why = a.why;
  } else {
    const auto false_ones = std::ranges::count_if(j.claims, [](const auto& c) { return !c.holds; });
    const auto missing = std::ranges::find_if(j.claims, [](const auto& c) { return !c.value; });
    if (missing != j.claims.end())
      j.why = fmt::format("{} of '{}' in {} has no record", missing->claim.name, missing->claim.arm,
                          missing->claim.case_name);
    else
      j.verdict = false_ones ? Verdict::kRejected : Verdict::kAccepted,
      j.why = fmt::format("{} of {} claims hold", j.claims.size() - false_ones, j.claims.size());
  }
  return j;
}

Judgement judge(const Experiment& e) {
  std::vector<json> records;
  if (std::filesystem::exists(e.records_path())) records = read_records(e.records_path());
  return judge(e, records, e.accept.rules.empty() ? RuleSet{} : find_rules(e.accept.rules));
}

}  // namespace fp4lab
