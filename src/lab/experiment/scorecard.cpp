// All experiments at a glance: verdicts, the contest's rounds and votes beside what came out, and how good
// predictions were.
#include <algorithm>
#include <cmath>

#include "fp4lab/experiment.h"
#include "fp4lab/timing.h"
#include "lab/experiment/markdown.h"

namespace fp4lab {
namespace {

struct Both {
  const Experiment* e;
  const Judgement* j;
  const ArmJudgement* judged() const { return e->variants.empty() ? nullptr : &j->judged(*e); }
};

// Geometric mean of the judged arm's factors of a kind; 0: not all cases have one.
double outcome(const Both& b, Factor::Kind kind) {
  const ArmJudgement* a = b.judged();
  if (!a || a->factors.empty()) return 0;
  double sum = 0;
  for (const Factor& f : a->factors) {
    if (f.kind != kind) return 0;
    sum += std::log(f.value);
  }
  return std::exp(sum / double(a->factors.size()));
}
std::string factor(double value) { return value > 0 ? fmt::format("{:.2f}", value) : "-"; }

double written(const Experiment& e) {
  if (e.predicted.empty()) return 0;
  double sum = 0;
  for (const auto& [name, value] : e.predicted) sum += std::log(value);
  return std::exp(sum / double(e.predicted.size()));
}

std::string verdicts(const std::vector<Both>& all) {
  Markdown t({"experiment", ">claimed", ">written before", ">came out, measured", ">came out, predicted",
              "verdict", "written when"});
  for (const Both& b : all)
    t.add({fmt::format("[{}]({}.md)", b.e->name, b.e->name), factor(b.e->claim_factor), factor(written(*b.e)),
           factor(outcome(b, Factor::Kind::kMeasured)), factor(outcome(b, Factor::Kind::kPredicted)),
           std::string(verdict_name(b.j->verdict)), b.e->retrospective ? "outcome known" : "before"});
  return "## Verdicts\n\nFactors are times as fast as the experiment's baseline, geometric means over its "
         "cases.\n\n" +
         t.text() + "\n";
}

std::string rounds(std::vector<Both> all) {
  std::erase_if(all, [](const Both& b) { return !b.e->contest; });
  std::ranges::stable_sort(all, {}, [](const Both& b) { return b.e->contest->round; });
  Markdown t({">round", "idea", "expected by the panel", "actual, by the minutes", "status", "experiment",
              "verdict here"});
  for (const Both& b : all) {
    const ContestRound& c = *b.e->contest;
    t.add({fmt::format("{}", c.round), c.winner, c.expected, c.actual, c.status, b.e->id,
           std::string(verdict_name(b.j->verdict))});
  }
  return t.empty() ? "" : "## The contest's rounds\n\n" + t.text() + "\n";
}

std::string panel(const std::vector<Both>& all) {
  Markdown t({"judge", "pitch", ">speed-up 35 %", ">evidence 25 %", ">feasibility 20 %", ">risk 20 %",
              ">said", ">recomputed", "experiment", "verdict here"});
  int off = 0, counted = 0;
  for (const Both& b : all)
    for (const PanelScore& s : b.e->scores) {
      const bool parts = s.speedup > 0;
      const auto part = [&](double v) { return parts ? fmt::format("{:g}", v) : "-"; };
      if (parts) ++counted, off += std::abs(s.weighted() - s.said) >= 0.0999;
      t.add({s.judge, s.pitch, part(s.speedup), part(s.evidence), part(s.feasibility), part(s.risk),
             fmt::format("{:g}", s.said), parts ? fmt::format("{:.2f}", s.weighted()) : "-", b.e->id,
             std::string(verdict_name(b.j->verdict))});
    }
  if (t.empty()) return "";
  return fmt::format(
      "## The panel's scores\n\nOut of ten, weighted as the panel said it would. {} of {} sums that the "
      "minutes state are off by 0.1 or more.\n\n{}\n",
      off, counted, t.text());
}

std::string calibration(const std::vector<Both>& all) {
  struct Group {
    std::string what;
    Factor::Kind kind;
    bool retrospective, claims;
    std::vector<double> ratios{};
  };
  std::vector<Group> groups;
  for (const bool claims : {false, true})
    for (const auto kind : {Factor::Kind::kMeasured, Factor::Kind::kPredicted})
      for (const bool retrospective : {false, true})
        if (!claims || retrospective)
          groups.push_back({claims          ? "claims of the contest"
                            : retrospective ? "ours, outcome known"
                                            : "ours, written before",
                            kind, retrospective, claims});
  for (const Both& b : all) {
    const ArmJudgement* a = b.judged();
    if (!a) continue;
    for (const Factor& f : a->factors)
      for (Group& g : groups) {
        if (f.kind != g.kind) continue;
        const auto at = b.e->predicted.find(f.case_name);
        if (g.claims && b.e->claim_factor > 0)
          g.ratios.push_back(f.value / b.e->claim_factor);
        else if (!g.claims && g.retrospective == b.e->retrospective && at != b.e->predicted.end())
          g.ratios.push_back(f.value / at->second);
      }
  }
  std::string text = "## How good predictions were\n\nOutcome over prediction, case by case: 1 is a hit.\n\n";
  for (const auto kind : {Factor::Kind::kMeasured, Factor::Kind::kPredicted}) {
    Markdown t({"whose", ">cases", ">geometric mean", ">10 %", ">90 %", ">off by less than 10 %",
                ">by less than 25 %"});
    for (const Group& g : groups) {
      if (g.kind != kind || g.ratios.empty()) continue;
      const Spread s = spread_of(g.ratios);
      const auto within = [&](double share) {
        const auto n = std::ranges::count_if(
            g.ratios, [&](double r) { return std::abs(std::log(r)) < std::log(1 + share); });
        return fmt::format("{:.0f} %", 100.0 * double(n) / double(g.ratios.size()));
      };
      t.add({g.what, fmt::format("{}", g.ratios.size()), fmt::format("{:.3f}", geometric_mean(g.ratios)),
             fmt::format("{:.3f}", s.p10), fmt::format("{:.3f}", s.p90), within(0.10), within(0.25)});
    }
    text += kind == Factor::Kind::kMeasured
                ? "Against measurements:\n\n"
                : "Against the model, which is itself a prediction and no truth:\n\n";
    text += t.empty() ? "None.\n\n" : t.text() + "\n";
  }
  return text;
}

}  // namespace

std::string scorecard(const std::vector<Experiment>& experiments, const std::vector<Judgement>& judgements) {
  std::vector<Both> all;
  for (size_t i = 0; i < experiments.size(); ++i) all.push_back({&experiments[i], &judgements[i]});
  return "<!-- Generated by `make report`. -->\n# Scorecard\n\n" + verdicts(all) + rounds(all) + panel(all) +
         calibration(all);
}

}  // namespace fp4lab
