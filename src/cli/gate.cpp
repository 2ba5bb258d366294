#include "cli/gate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/escape.h"
#include "fp4lab/error.h"
#include "fp4lab/json_text.h"

namespace fp4lab::cli {

namespace {

using nlohmann::json;

// "a.cuh:21, called at b.cu:50" -> b.cu, 50; "file.ptx:12" the same.
void split_place(GateFinding::Place& p) {
  std::string at = p.cuda.empty() ? p.ptx : p.cuda;
  if (const size_t last = at.rfind(", called at "); last != at.npos) at.erase(0, last + 12);
  at = at.substr(0, at.find(','));
  const size_t colon = at.rfind(':');
  p.file = at.substr(0, colon);
  if (colon != at.npos) p.line = std::atoi(at.c_str() + colon + 1);
}

GateFinding finding_of(const json& f) {
  GateFinding g;
  g.error = f.at("severity") == "error";
  g.kind = f.at("kind"), g.kernel = f.at("kernel"), g.what = f.at("what"), g.text = f.at("text");
  for (const char* party : {"first", "then"}) {
    if (f.at(party).is_null()) continue;
    GateFinding::Place p;
    p.cuda = f.at(party).at("cuda"), p.ptx = f.at(party).at("ptx");
    split_place(p);
    g.places.push_back(std::move(p));
  }
  return g;
}

std::string key_of(const GateFinding& g) {
  std::string key = fmt::format("{} {} {}", g.error, g.kind, g.kernel);
  for (const GateFinding::Place& p : g.places) key += "\n" + (p.cuda.empty() ? p.ptx : p.cuda);
  return key;
}

}  // namespace

std::vector<std::string> finding_classes() {
  std::vector<std::string> all;
  const auto add = [&](const char* name) {
    if (std::ranges::find(all, name) == all.end()) all.emplace_back(name);
  };
#define FAULT(kind, name, result, what) add(name);
#include "emulator/core/faults.def"
#undef FAULT
#define ORDER_CLASS(id, name, severity, what) add(name);
#include "emulator/watch/order_classes.def"
#undef ORDER_CLASS
  return all;
}

Gate::Gate(const std::string& fail_on) {
  const std::vector<std::string> known = finding_classes();
  for (size_t begin = 0; begin < fail_on.size();) {
    const size_t end = std::min(fail_on.find(',', begin), fail_on.size());
    const std::string item = fail_on.substr(begin, end - begin);
    begin = end + 1;
    if (item == "error") {
      errors_ = true;
    } else if (item == "note") {
      errors_ = notes_ = true;
    } else if (std::ranges::find(known, item) != known.end()) {
      classes_.insert(item);
    } else {
      fail("--fail-on {}: error, note or a class of findings: {}", item, fmt::join(known, ", "));
    }
  }
}

std::vector<const GateFinding*> Gate::read(const std::filesystem::path& path, uint64_t seed) {
  std::vector<const GateFinding*> news;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const json launch = parse_json(line, false);
    if (launch.is_discarded() || !launch.contains("findings"))
      continue;  // a process that was killed as it wrote
    ++launches_;
    for (const json& f : launch.at("findings")) {
      GateFinding g = finding_of(f);
      const auto [it, fresh] = by_key_.try_emplace(key_of(g), std::move(g));
      it->second.count += f.at("count").get<uint64_t>();
      if (!fresh) continue;
      it->second.seed = seed;
      in_order_.push_back(&it->second);
      news.push_back(&it->second);
    }
  }
  return news;
}

std::vector<const GateFinding*> Gate::findings() const { return in_order_; }

bool Gate::fails(const GateFinding& g) const {
  return (g.error ? errors_ : notes_) || classes_.contains(g.kind);
}
bool Gate::fails() const {
  return std::ranges::any_of(in_order_, [&](const GateFinding* g) { return fails(*g); });
}

std::string Gate::summary() const {
  std::string text;
  for (const bool errors : {true, false}) {
    std::vector<std::string> kinds;
    size_t n = 0;
    for (const GateFinding* g : in_order_) {
      if (g->error != errors) continue;
      ++n;
      if (std::ranges::find(kinds, g->kind) == kinds.end()) kinds.push_back(g->kind);
    }
    if (n)
      text += fmt::format("{}{} {}{} ({})", text.empty() ? "" : " and ", n, errors ? "error" : "note",
                          n == 1 ? "" : "s", fmt::join(kinds, ", "));
  }
  return text.empty() ? text : fmt::format("{} in {} launch{}", text, launches_, launches_ == 1 ? "" : "es");
}

namespace {

std::string title_of(const GateFinding& g) {
  std::string title = g.kind;
  for (const GateFinding::Place& p : g.places)
    title += fmt::format("{}{}:{}", &p == &g.places.front() ? " at " : " and ", p.file, p.line);
  return title;
}

}  // namespace

std::string junit_of(const Gate& gate, const std::string& program) {
  std::string cases;
  size_t failures = 0;
  for (const GateFinding* g : gate.findings()) {
    const std::string body = g->error ? fmt::format("<failure type=\"{}\" message=\"{}\">{}</failure>",
                                                    escaped(g->kind), escaped(g->what), escaped(g->text))
                                      : fmt::format("<system-out>note: {}</system-out>", escaped(g->text));
    cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\">{}</testcase>\n", escaped(g->kernel),
                         escaped(title_of(*g)), body);
    failures += g->error;
  }
  size_t tests = gate.findings().size();
  if (!failures) {
    ++tests;
    cases += fmt::format("    <testcase classname=\"{}\" name=\"{} launches\"/>\n", escaped(program),
                         gate.launches());
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"fp4lab emulate {}\" "
      "tests=\"{}\" "
      "failures=\"{}\">\n{}  </testsuite>\n</testsuites>\n",
      escaped(program), tests, failures, cases);
}

std::string sarif_of(const Gate& gate) {
  json rules = json::array(), results = json::array();
  std::set<std::string> kinds;
  for (const GateFinding* g : gate.findings()) {
    if (kinds.insert(g->kind).second) rules.push_back({{"id", g->kind}});
    const auto location = [](const GateFinding::Place& p) {
      return json{
          {"physicalLocation",
           {{"artifactLocation", {{"uri", p.file}}}, {"region", {{"startLine", std::max(1, p.line)}}}}}};
    };
    json result{{"ruleId", g->kind},
                {"level", g->error ? "error" : "note"},
                {"message", {{"text", g->text}}},
                {"properties", {{"kernel", g->kernel}, {"count", g->count}, {"seed", g->seed}}}};
    result["locations"] = json::array();
    // The second access is where it shows; the first one is beside it.
    if (!g->places.empty()) result["locations"].push_back(location(g->places.back()));
    if (g->places.size() > 1) {
      json first = location(g->places.front());
      first["id"] = 0;
      first["message"] = {{"text", "the other access"}};
      result["relatedLocations"] = json::array({first});
    }
    results.push_back(std::move(result));
  }
  return json_text(json{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                        {"version", "2.1.0"},
                        {"runs",
                         json::array({{{"tool", {{"driver", {{"name", "fp4lab emulate"}, {"rules", rules}}}}},
                                       {"results", results}}})}},
                   1) +
         "\n";
}

}  // namespace fp4lab::cli
