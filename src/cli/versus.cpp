#include "cli/versus.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/table.h"
#include "fp4lab/error.h"
#include "fp4lab/record.h"

namespace fp4lab::cli {
namespace {

constexpr size_t kWidth = 100;

// That the two sides are one kernel, or that the model cannot tell them apart.
struct Identity {
  bool same_plan = false, same_code = false;
};

Identity identity_of(const Versus& v) {
  const bool same_plan = plan_line(v.a->candidate) == plan_line(v.b->candidate);
  return {same_plan, same_plan && v.ptx && v.ptx->same};
}

bool edited(const Candidate& c) { return !c.ptx.empty() || !c.source.empty(); }

std::string predicted_text(const Prediction& p) {
  return fmt::format("{:.2f} ({:.1f}-{:.1f})", p.us, p.low, p.high);
}

void decide_by_model(Versus& v, const Identity& same) {
  const Candidate &a = v.a->candidate, &b = v.b->candidate;
  const Prediction pa = predict(a, v.spec), pb = predict(b, v.spec);
  const PredictedRatio r = predict_ratio(b, a, v.spec);
  v.predicted_a = pa, v.predicted_b = pb;
  v.time_a = predicted_text(pa), v.time_b = predicted_text(pb);
  v.record["predicted_a"] = record_of(pa), v.record["predicted_b"] = record_of(pb);
  v.record["predicted_ratio"] = record_of(r);
  v.basis = "predicted";
  const auto [low, high] = interval_for_verdict(r.ratio, r.low, r.high, r.validation.holds);
  v.ratio = {r.ratio, low, high};
  if (same.same_code) {
    v.verdict = "same", v.why = "equal plan and PTX";
    v.ratio = Ratio{};
  } else if (pa.us == pb.us) {
    v.verdict = "undecided";
    v.why = same.same_plan
                ? "equal plans, different PTX: the model sees plans only and cannot tell the two apart"
                : "the model sees no difference between the plans, and cannot tell the two apart";
  } else {
    v.verdict = verdict_of(*v.ratio);
    if (edited(a) || edited(b)) v.why = "by the plans alone: the model does not see what a file changes";
  }
}

std::string hunk_text(const PtxDifference::Hunk& h) {
  std::string text;
  for (const std::string& line : h.a) text += fmt::format("  A {:>5}  - {}\n", h.line_a, line);
  for (const std::string& line : h.b) text += fmt::format("  B {:>5}  + {}\n", h.line_b, line);
  return text;
}

}  // namespace

std::string verdict_of(const Ratio& r) {
  if (r.low > 1) return "faster";
  if (r.high < 1) return "slower";
  return r.low >= 0.98 && r.high <= 1.02 ? "same" : "undecided";
}

InTurn::InTurn(const Numbers& numbers, std::string_view arch)
    : numbers_(numbers),
      device_(Device::open("cuda", arch)),
      timer_(device_, {.repeats = 10}),
      nvml_(device_) {}

void InTurn::decide(Versus& v, bool same_code) const {
  const Distribution distribution = numbers_.of(v.spec.operation);
  const InputSets sets(device_, v.spec, distribution, numbers_.seed, 4);
  std::vector<double> ratios;
  const Measurement a = measured(sets, v.a->candidate), b = measured(sets, v.b->candidate);
  v.record["measured_a"] = record_of(a), v.record["measured_b"] = record_of(b);
  for (const auto& [m, side] : {std::pair(&a, "A"), {&b, "B"}})
    if (!m->error.empty() || !m->passed) {
      v.verdict = "wrong", v.why = fmt::format("{} on {}: {}", side, device_.name(), m->error);
      return;
    }
  const Contender x = contender(sets, v.a->candidate, a), y = contender(sets, v.b->candidate, b);
  // Of 11 values the second smallest and the second largest enclose the median with 98.8 % (binomial).
  for (int round = 0; round < 11; ++round) {
    const auto time = [&](const Contender& c) {
      return timer_.time(sets.size(), c.enqueue, {.repeats = 10, .warmups = 1}).us.median;
    };
    const bool first = round % 2 == 0;
    const double one = time(first ? x : y), other = time(first ? y : x);
    ratios.push_back(first ? one / other : other / one);
  }
  std::ranges::sort(ratios);
  v.ratio = {ratios[5], ratios[1], ratios[9]};
  v.record["rounds"] = ratios.size();
  v.basis = "measured";
  const auto text = [](const Measurement& m) {
    return fmt::format("{:.2f} ({:.2f}-{:.2f})", m.timing.us.median, m.timing.us.p10, m.timing.us.p90);
  };
  v.time_a = text(a), v.time_b = text(b);
  v.verdict = same_code ? "same" : verdict_of(*v.ratio);
  if (same_code) v.why = "equal plan and PTX";
}

Measurement InTurn::measured(const InputSets& sets, const Candidate& candidate) const {
  return measure_kernel(timer_, nvml_, sets, candidate, LaunchChoice::kBest);
}

// Launched as was faster for it: a graph of one kernel hides what a launch costs and what PDL wins.
Contender InTurn::contender(const InputSets& sets, const Candidate& candidate, const Measurement& m) const {
  Contender made = kernel_contender(timer_, sets, candidate);
  return m.launch == made.launch ? made : as_graph(timer_, sets.size(), made);
}

void decide(Versus& v, const InTurn* gpu) {
  if (v.a->artifact && v.b->artifact) v.ptx = ptx_difference(v.a->artifact->ptx, v.b->artifact->ptx);
  v.record["run_a"] = record_of(*v.a), v.record["run_b"] = record_of(*v.b);
  for (const auto& [look, side] : {std::pair(&*v.a, "A"), {&*v.b, "B"}})
    if (const std::string trouble = look->trouble(); !trouble.empty() && v.verdict.empty())
      v.verdict = "wrong", v.why = fmt::format("{}: {}", side, trouble);
  if (v.verdict.empty()) {
    const Identity same = identity_of(v);
    v.record["same_plan"] = same.same_plan, v.record["same_ptx"] = v.ptx && v.ptx->same;
    if (gpu)
      gpu->decide(v, same.same_code);
    else
      decide_by_model(v, same);
  }
}

nlohmann::json record_of(const Versus& v, const std::string& a, const std::string& b) {
  nlohmann::json r = v.record;
  r["type"] = "comparison", r["case"] = v.spec.name, r["a"] = a, r["b"] = b, r["verdict"] = v.verdict;
  for (const auto& [field, text] :
       {std::pair("basis", &v.basis), {"time_a", &v.time_a}, {"time_b", &v.time_b}, {"why", &v.why}})
    if (!text->empty()) r[field] = *text;
  if (v.ratio) r["ratio"] = {{"value", v.ratio->value}, {"low", v.ratio->low}, {"high", v.ratio->high}};
  return r;
}

Table comparison_table(const std::vector<nlohmann::json>& records, bool names) {
  std::string basis;
  for (const nlohmann::json& r : records)
    if (basis.empty()) basis = r.value("basis", "");
  const auto time = [&](const char* side) { return fmt::format(">{}: {} us", side, basis); };
  std::vector<std::string> headings{"case"};
  if (names) headings.insert(headings.end(), {"A", "B"});
  if (!basis.empty()) headings.insert(headings.end(), {time("A"), time("B"), ">speedup of B"});
  headings.push_back("B is");
  Table table(headings);
  for (const nlohmann::json& r : records) {
    std::vector<std::string> row{r.value("case", "")};
    if (names) row.insert(row.end(), {r.value("a", ""), r.value("b", "")});
    if (!basis.empty()) {
      row.insert(row.end(), {r.value("time_a", "-"), r.value("time_b", "-"), "-"});
      if (const auto at = r.find("ratio"); at != r.end())
        row.back() = fmt::format("{:.3f} ({:.2f}-{:.2f})", at->value("value", 0.0), at->value("low", 0.0),
                                 at->value("high", 0.0));
    }
    row.push_back(r.value("verdict", ""));
    table.add(row);
  }
  return table;
}

std::vector<std::vector<nlohmann::json>> by_basis(const std::vector<nlohmann::json>& records) {
  std::vector<std::vector<nlohmann::json>> all;
  for (const char* basis : {"measured", "predicted", ""}) {
    std::vector<nlohmann::json> some;
    std::ranges::copy_if(records, std::back_inserter(some),
                         [&](const nlohmann::json& r) { return r.value("basis", "") == basis; });
    if (!some.empty()) all.push_back(std::move(some));
  }
  return all;
}

std::string title(const Candidate& c) {
  return kernel_name(c) + (edited(c) ? fmt::format(" (like {})", c.rung->name) : "");
}

std::string screen(const std::string& lines) { return fitted(lines, kWidth); }

std::string ptx_text(const PtxDifference& d, bool all) {
  if (d.same) return "PTX: equal, except for names of registers, labels and files.\n";
  std::string text = fmt::format("PTX: {} instructions in A only, {} in B only", d.only_a, d.only_b);
  if (d.renamed) text += fmt::format(", {} with other registers", d.renamed);
  constexpr size_t kOpcodes = 4, kLines = 8;
  if (!d.opcodes.empty()) text += "; counts A:B";
  for (size_t i = 0; i < d.opcodes.size() && i < kOpcodes; ++i)
    text += fmt::format("{} {} {}:{}", i ? "," : "", d.opcodes[i].name, d.opcodes[i].a, d.opcodes[i].b);
  if (d.opcodes.size() > kOpcodes) text += fmt::format(", {} more", d.opcodes.size() - kOpcodes);
  text = fitted(text + ".\n", kWidth);
  size_t lines = 0, shown = 0;
  // Where much differs, the first places say nothing.
  if (all || d.only_a + d.only_b <= 5 * kLines)
    for (const PtxDifference::Hunk& h : d.hunks) {
      lines += h.a.size() + h.b.size();
      if (!all && lines > kLines) break;
      text += hunk_text(h), ++shown;
    }
  if (!shown)
    text += fmt::format("  {} differences; --ptx-diff shows them\n", d.hunks.size());
  else if (shown < d.hunks.size())
    text += fmt::format("  {} of {} differences shown; --ptx-diff shows all\n", shown, d.hunks.size());
  return text;
}

}  // namespace fp4lab::cli
