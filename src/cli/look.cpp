#include "cli/look.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <regex>

#include "fp4lab/error.h"
#include "fp4lab/json_text.h"
#include "fp4lab/record.h"

namespace fp4lab::cli {
namespace {

using nlohmann::json;

void stop_observing(const Device& device) {
  if (const auto observe = reinterpret_cast<decltype(&fp4lab_emulator_observe)>(
          device.driver().symbol("fp4lab_emulator_observe")))
    observe(nullptr);
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == text.npos ? "" : text.substr(begin);
}

std::string source_line(const std::string& file, int number) {
  std::ifstream in(file);
  std::string line;
  for (int i = 0; i < number; ++i)
    if (!std::getline(in, line)) return {};
  return trimmed(line);
}

// The frame of a wait that says most: where an mbarrier is named, else the first that is no wrapper of one
// instruction.
Wait named(const json& wait) {
  Wait w{wait.value("share", 0.0), trimmed(wait.value("text", "")),
         fmt::format("PTX line {}", wait.value("line", 0))};
  w.what = w.what.substr(0, w.what.find_first_of(" ;"));
  static const std::regex barrier(R"((\w+_barrier)\()"), call(R"((\w+)\()");
  bool found = false;
  for (const json& frame : wait.value("frames", json::array())) {
    const std::string file = frame.value("file", "");
    if (file.find("/isa/") != file.npos) continue;
    const int number = frame.value("line", 0);
    const std::string text = source_line(file, number);
    std::smatch m;
    const bool names = std::regex_search(text, m, barrier);
    if (!names && (found || !std::regex_search(text, m, call))) continue;
    w.what = m[1];
    w.where = fmt::format("{}:{}", std::filesystem::path(file).filename().string(), number);
    found = true;
    if (names) break;
  }
  return w;
}

std::string count(double value) {
  return value >= 10'000'000 ? fmt::format("{:.1f} M", value / 1e6) : fmt::format("{:.0f}", value);
}

}  // namespace

std::string Look::trouble() const {
  return run.passed() ? "" : run.error.empty() ? run.exact.describe() : run.error;
}

Look look_at(const Device& emulator, Trial& trial, const Candidate& candidate, bool profile) {
  Look look{candidate, nullptr, {}, nullptr};
  if (profile) observe(emulator, "profile=json");
  look.run = run_trial(emulator, trial, candidate);
  if (profile) {
    if (look.run.passed()) look.profile = parse_json(observed(emulator));
    stop_observing(emulator);
  }
  try {
    look.artifact = artifact_of(candidate);
  } catch (const Error&) {  // the run says why
  }
  return look;
}

std::vector<Wait> waits_of(const json& role) {
  std::vector<Wait> all;
  for (const json& each : role.value("waits", json::array())) {
    Wait w = named(each);
    const auto same =
        std::ranges::find_if(all, [&](const Wait& o) { return o.what == w.what && o.where == w.where; });
    if (same == all.end())
      all.push_back(std::move(w));
    else
      same->share += w.share;
  }
  std::ranges::stable_sort(all, std::greater(), &Wait::share);
  return all;
}

namespace {

// A row of counts_table; none: unknown.
struct Quantity {
  std::string name;
  std::optional<double> (*of)(const Look&);
  std::string (*text)(double) = count;
};

std::optional<double> known(int value) { return value < 0 ? std::nullopt : std::optional<double>(value); }

const jit::KernelReport* report_of(const Look& look) {
  if (!look.artifact) return nullptr;
  const jit::KernelReport* largest = nullptr;
  for (const jit::KernelReport& k : look.artifact->kernels)
    if (k.name == look.candidate.rung->entry())
      return &k;
    else if (!largest || k.registers > largest->registers)
      largest = &k;
  return largest;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string bytes(double value) {
  return value >= 1e6 ? fmt::format("{:.2f} MB", value / 1e6) : fmt::format("{:.0f} B", value);
}

using Value = std::optional<double>;
const Quantity kQuantities[] = {
    {"warp instructions",
     [](const Look& l) { return l.run.emulated ? Value(l.run.emulated->warp_instructions) : Value(); }},
    {"MMAs", [](const Look& l) { return l.run.emulated ? Value(l.run.emulated->mma_count) : Value(); }},
    {"TMA bytes", [](const Look& l) { return l.run.emulated ? Value(l.run.emulated->tma_bytes) : Value(); },
     bytes},
    {"CTAs", [](const Look& l) { return Value(l.run.grid); }},
    {"stages", [](const Look& l) { return Value(l.run.work.stages); }},
    {"shared memory per CTA", [](const Look& l) { return Value(l.run.work.shared_bytes); }, bytes},
    {"TMEM columns",
     [](const Look& l) {
       const Plan* plan = std::get_if<Plan>(&l.candidate.plan);
       return plan ? Value(plan->tmem_columns()) : Value();
     }},
    {"registers per thread",
     [](const Look& l) { return report_of(l) ? known(report_of(l)->registers) : Value(); }},
    {"spilled bytes per thread",
     [](const Look& l) { return report_of(l) ? known(report_of(l)->spill_stores) : Value(); }},
    {"steps of a CTA, warps together",
     [](const Look& l) { return l.profile.is_null() ? Value() : Value(l.profile.at("steps")); }},
    {"  before its first product",
     [](const Look& l) { return l.profile.is_null() ? Value() : Value(l.profile.at("first_product")); }},
    {"  with work for the tensor core",
     [](const Look& l) { return l.profile.is_null() ? Value() : Value(l.profile.at("busy")); }, percent},
};

}  // namespace

Table counts_table(const std::vector<const Look*>& looks, const std::vector<std::string>& names) {
  std::vector<std::string> headings{""};
  for (const std::string& name : names) headings.push_back(">" + name);
  if (looks.size() == 2) headings.push_back(fmt::format(">{} / {}", names[1], names[0]));
  Table table(headings);
  for (const Quantity& q : kQuantities) {
    std::vector<std::string> row{q.name};
    std::vector<Value> values;
    for (const Look* look : looks) {
      values.push_back(q.of(*look));
      row.push_back(values.back() ? q.text(*values.back()) : "-");
    }
    if (std::ranges::none_of(values, [](const Value& v) { return v.has_value(); })) continue;
    if (looks.size() == 2)
      row.push_back(values[0] && values[1] && *values[0] > 0 ? fmt::format("{:.2f}", *values[1] / *values[0])
                                                             : "");
    table.add(std::move(row));
  }
  return table;
}

std::vector<std::string> changed_counts(const Look& before, const Look& after) {
  std::vector<std::string> all;
  for (const Quantity& q : kQuantities) {
    const Value a = q.of(before), b = q.of(after);
    if (!a || !b || *a == *b) continue;
    const std::string by =
        *a > 0 && q.text != percent ? fmt::format(" ({:+.1f} %)", 100 * (*b / *a - 1)) : "";
    all.push_back(fmt::format("{} {} -> {}{}", trimmed(q.name), q.text(*a), q.text(*b), by));
  }
  return all;
}

json record_of(const Look& look) {
  json j = fp4lab::record_of(look.run);
  for (const Quantity& q : kQuantities) {
    std::string name = trimmed(q.name);
    std::ranges::replace(name, ' ', '_');
    if (const Value v = q.of(look)) j["counts"][name] = *v;
  }
  if (!look.profile.is_null()) j["profile"] = look.profile;
  return j;
}

}  // namespace fp4lab::cli
