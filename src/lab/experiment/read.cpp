// The experiment's file: TOML in, Experiment out. A key that is misspelt is an error with its line.
#include <toml++/toml.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "fp4lab/error.h"
#include "fp4lab/experiment.h"
#include "fp4lab/jit.h"

namespace fp4lab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAfter = "[after]";

// A table whose keys are all to be asked for.
class Reader {
 public:
  Reader(const toml::table& table, std::string file, std::string where)
      : table_(table), file_(std::move(file)), where_(std::move(where)) {}

  template <class T>
  std::optional<T> get(std::string_view key, const char* what) {
    const toml::node* node = find(key);
    if (!node) return {};
    if (const auto value = node->value<T>()) return *value;
    wrong(*node, key, what);
  }
  std::string text(std::string_view key) {
    std::string s = get<std::string>(key, "text").value_or("");
    while (!s.empty() && (s.back() == '\n' || s.back() == ' ')) s.pop_back();
    return s;
  }
  std::string needed(std::string_view key) {
    std::string s = text(key);
    if (s.empty()) fail("{}:{}: {} is missing", file_, table_.source().begin.line, name(key));
    return s;
  }
  double number(std::string_view key, double otherwise) {
    return get<double>(key, "a number").value_or(otherwise);
  }
  std::optional<Reader> table(std::string_view key) {
    const toml::node* node = find(key);
    if (!node) return {};
    if (!node->is_table()) wrong(*node, key, "a table");
    return Reader(*node->as_table(), file_, name(key));
  }
  std::vector<Reader> tables(std::string_view key) {
    std::vector<Reader> all;
    const toml::node* node = find(key);
    if (!node) return all;
    const toml::array* list = node->as_array();
    if (!list) wrong(*node, key, "a list of tables");
    for (const toml::node& entry : *list) {
      if (!entry.is_table()) wrong(entry, key, "a table");
      all.emplace_back(*entry.as_table(), file_, name(key));
    }
    return all;
  }
  std::vector<std::string> texts(std::string_view key) {
    std::vector<std::string> all;
    const toml::node* node = find(key);
    if (!node) return all;
    const toml::array* list = node->as_array();
    if (!list) wrong(*node, key, "a list of texts");
    for (const toml::node& entry : *list) {
      const auto value = entry.value<std::string>();
      if (!value) wrong(entry, key, "a text");
      all.push_back(*value);
    }
    return all;
  }
  // Every key with its value: as text where a knob may be a number or a word.
  template <class F>
  void each(F f) {
    for (const auto& [key, node] : table_) {
      seen_.insert(std::string(key.str()));
      f(std::string(key.str()), node);
    }
  }
  void done() const {
    for (const auto& [key, node] : table_)
      if (!seen_.contains(std::string(key.str())))
        fail("{}:{}: there is no key {}\n  there are: {}", file_, key.source().begin.line, name(key.str()),
             fmt::join(seen_, " "));
  }
  [[noreturn]] void wrong(const toml::node& node, std::string_view key, const char* what) const {
    fail("{}:{}: {} must be {}", file_, node.source().begin.line, name(key), what);
  }
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> text, Args&&... args) const {
    fail("{}:{}: {}", file_, table_.source().begin.line, fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  const toml::node* find(std::string_view key) {
    seen_.insert(std::string(key));
    return table_.get(key);
  }
  std::string name(std::string_view key) const {
    return where_.empty() ? std::string(key) : where_ + "." + std::string(key);
  }
  const toml::table& table_;
  std::string file_, where_;
  std::set<std::string> seen_;
};

Arm read_arm(Reader r, const std::string& arch, std::string name) {
  Arm arm;
  arm.name = r.text("name");
  if (arm.name.empty()) arm.name = std::move(name);
  arm.kernel = r.text("kernel"), arm.file = r.text("file"), arm.ptx = r.text("ptx"),
  arm.peer = r.text("peer");
  arm.arch = r.text("arch");
  if (arm.arch.empty()) arm.arch = arch;
  if (auto set = r.table("set"))
    set->each([&](const std::string& knob, const toml::node& value) {
      if (const auto text = value.value<std::string>())
        arm.set.push_back(knob + "=" + *text);
      else if (const auto number = value.value_exact<int64_t>())
        arm.set.push_back(fmt::format("{}={}", knob, *number));
      else
        set->wrong(value, knob, "a whole number or a word");
    });
  if (const std::string expect = r.text("expect"); expect == "wrong")
    arm.expect = Arm::Expect::kWrong;
  else if (expect == "illegal")
    arm.expect = Arm::Expect::kIllegal;
  else if (!expect.empty() && expect != "right")
    r.bad("expect = \"{}\": right, wrong or illegal", expect);
  if (arm.kernel.empty() == arm.peer.empty())
    r.bad("{}: either kernel, a rung, or peer, a contender of `fp4lab bench`", arm.name);
  if (!arm.file.empty() && !arm.ptx.empty()) r.bad("{}: file or ptx, not both", arm.name);
  r.done();
  return arm;
}

QuantityClaim read_claim(Reader r, const char* number) {
  QuantityClaim q;
  q.name = r.needed("quantity");
  const auto names = quantity_names();
  if (std::ranges::find(names, q.name) == names.end())
    r.bad("no quantity '{}'\n  there are: {}", q.name, fmt::join(names, " "));
  q.arm = r.text("of");
  if (q.arm.empty()) q.arm = "baseline";
  q.case_name = r.text("case");
  const auto value = r.get<double>(number, "a number");
  if (!value) r.bad("{} is missing", number);
  q.claimed = *value, q.within = r.number("within", 0.1);
  r.done();
  return q;
}

std::string hash_of(const std::string& text) {
  const XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

std::string before(const std::string& text) {
  if (text.starts_with(kAfter)) return "";
  const size_t at = text.find("\n" + std::string(kAfter));
  return text.substr(0, at == text.npos ? text.size() : at + 1);
}

std::string project_path(const std::string& path) { return (jit::project_root() / path).string(); }

void check(const Experiment& e) {
  std::set<std::string> names;
  for (const Arm* arm : e.arms())
    if (!names.insert(arm->name).second) fail("{}: two arms are called '{}'", e.path, arm->name);
  e.arm(e.accept.variant);
  for (const std::string& name : e.accept.cases) find_case(name);
  for (const auto& [name, factor] : e.predicted) {
    if (std::ranges::find(e.accept.cases, name) == e.accept.cases.end())
      fail("{}: hypothesis.predicted: {} is none of accept.cases: {}", e.path, name,
           fmt::join(e.accept.cases, " "));
    if (!(factor > 0)) fail("{}: hypothesis.predicted.{} = {}: a factor is above 0", e.path, name, factor);
  }
  for (const QuantityClaim& q : e.accept.claims) e.arm(q.arm), find_case(q.case_name);
  if (!e.accept.rules.empty()) find_rules(e.accept.rules);
  if (!e.distribution.empty()) find_distribution(e.distribution);
  if (!e.check_case.empty()) find_case(e.check_case);
}

}  // namespace

Experiment parse_experiment(const std::string& text, const std::string& path) {
  toml::table root;
  try {
    root = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    fail("{}:{}: {}", path, error.source().begin.line, error.description());
  }
  Experiment e;
  e.path = path, e.name = fs::path(path).stem().string(), e.id = e.name.substr(0, e.name.find('-'));
  e.text = before(text), e.hash = hash_of(e.text);
  Reader r(root, path, "");
  e.question = r.needed("question");
  if (const std::string outcome = r.text("outcome"); outcome == "known")
    e.retrospective = true;
  else if (!outcome.empty() && outcome != "open")
    r.bad("outcome = \"{}\": known or open, when the prediction was written", outcome);
  const std::string arch = r.text("arch").empty() ? "sm_100a" : r.text("arch");
  e.distribution = r.text("distribution"), e.check_case = r.text("check_case");
  e.measured_in = r.text("measured_in"), e.needs = r.text("needs");
  e.seconds = int(r.number("seconds", 600));
  if (auto claim = r.table("claim")) {
    e.claim = claim->needed("text"), e.claim_source = claim->needed("source");
    e.claim_factor = claim->number("factor", 0);
    claim->done();
  }
  auto hypothesis = r.table("hypothesis");
  if (!hypothesis) r.bad("[hypothesis] is missing: text, arithmetic, predicted");
  e.hypothesis = hypothesis->needed("text"), e.arithmetic = hypothesis->needed("arithmetic");
  e.evidence = hypothesis->text("evidence"), e.risk = hypothesis->text("risk");
  if (auto predicted = hypothesis->table("predicted"))
    predicted->each([&](const std::string& name, const toml::node& value) {
      const auto factor = value.value<double>();
      if (!factor) predicted->wrong(value, name, "a number");
      e.predicted[name] = *factor;
    });
  hypothesis->done();
  auto baseline = r.table("baseline");
  if (!baseline) r.bad("[baseline] is missing: kernel, set");
  e.baseline = read_arm(*baseline, arch, "baseline");
  int number = 0;
  for (Reader& v : r.tables("variant"))
    e.variants.push_back(read_arm(v, arch, fmt::format("variant {}", ++number)));
  auto accept = r.table("accept");
  if (!accept) r.bad("[accept] is missing: cases, and geomean and worst_case where they are not 1.5 and 0.9");
  AcceptRule& rule = e.accept;
  rule.geomean = accept->number("geomean", rule.geomean),
  rule.worst = accept->number("worst_case", rule.worst);
  rule.cases = accept->texts("cases"), rule.rules = accept->text("rules"),
  rule.variant = accept->text("variant");
  for (Reader& q : accept->tables("claim")) rule.claims.push_back(read_claim(q, "claimed"));
  if (auto only = accept->table("only_if")) rule.only_if = read_claim(*only, "at_least");
  accept->done();
  if (rule.cases.empty()) r.bad("accept.cases is missing");
  if (e.variants.empty() && rule.claims.empty()) r.bad("no [[variant]], and no accept.claim to judge");
  if (rule.variant.empty()) rule.variant = e.variants.empty() ? e.baseline.name : e.variants.front().name;
  for (QuantityClaim& q : rule.claims) {
    if (q.case_name.empty()) q.case_name = rule.cases.front();
    if (q.arm == "baseline") q.arm = e.baseline.name;
  }
  if (auto contest = r.table("contest")) {
    ContestRound c;
    c.round = int(contest->number("round", 0)), c.winner = contest->text("winner");
    c.expected = contest->text("expected"), c.actual = contest->text("actual");
    c.status = contest->text("status");
    for (Reader& s : contest->tables("score")) {
      PanelScore p;
      p.judge = s.needed("judge"), p.pitch = s.needed("pitch");
      p.speedup = s.number("speedup", 0), p.evidence = s.number("evidence", 0);
      p.feasibility = s.number("feasibility", 0), p.risk = s.number("risk", 0), p.said = s.number("said", 0);
      s.done();
      e.scores.push_back(p);
    }
    contest->done();
    if (c.round) e.contest = c;
  }
  if (auto after = r.table("after")) {
    e.insight = after->text("insight"), e.cannot_decide = after->text("cannot_decide");
    after->done();
  }
  r.done();
  check(e);
  return e;
}

Experiment read_experiment(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("{}: cannot be read", path);
  return parse_experiment({std::istreambuf_iterator<char>(in), {}}, path);
}

std::string Experiment::records_path() const {
  return (fs::path(path).parent_path() / "records" / (name + ".jsonl")).string();
}
std::string Experiment::page_path() const { return fs::path(path).replace_extension(".md").string(); }
std::vector<const Arm*> Experiment::arms() const {
  std::vector<const Arm*> all{&baseline};
  for (const Arm& v : variants) all.push_back(&v);
  return all;
}
const Arm& Experiment::arm(std::string_view wanted) const {
  std::string names;
  for (const Arm* a : arms()) {
    if (a->name == wanted) return *a;
    names += " '" + a->name + "'";
  }
  fail("{}: no arm '{}'; there are{}", path, wanted, names);
}
const Arm& Experiment::judged() const { return arm(accept.variant); }
Distribution Experiment::distribution_of(Operation op) const {
  return distribution.empty() ? task_distribution(op) : find_distribution(distribution);
}

std::vector<std::string> experiment_paths() {
  std::vector<std::string> all;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(project_path("notes/experiments"), none))
    if (entry.path().extension() == ".toml" && std::isdigit(entry.path().filename().string()[0]))
      all.push_back(entry.path().string());
  std::ranges::sort(all);
  return all;
}

Experiment find_experiment(const std::string& which) {
  if (which.ends_with(".toml")) return read_experiment(which);
  std::vector<std::string> names;
  const bool number =
      !which.empty() && std::ranges::all_of(which, [](unsigned char c) { return std::isdigit(c); });
  for (const std::string& path : experiment_paths()) {
    const std::string name = fs::path(path).stem().string();
    if (name == which || (number && std::atoi(name.c_str()) == std::atoi(which.c_str())))
      return read_experiment(path);
    names.push_back(name);
  }
  fail("no experiment '{}'\n  there are: {}", which, fmt::join(names, " "));
}

std::string new_experiment(const std::string& name) {
  if (name.empty() || name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != name.npos)
    fail("'{}': a name has small letters, digits and '-'", name);
  int last = 0;
  for (const std::string& path : experiment_paths())
    last = std::max(last, std::atoi(fs::path(path).filename().c_str()));
  const std::string path = project_path(fmt::format("notes/experiments/{:03}-{}.toml", last + 1, name));
  std::ifstream shape(project_path("notes/experiments/template.txt"));
  if (!shape) fail("notes/experiments/template.txt: cannot be read");
  std::ofstream out(path);
  out << shape.rdbuf();
  if (!out.flush()) fail("{}: cannot be written", path);
  return path;
}

RuleSet find_rules(const std::string& name) {
  const std::string path = project_path("notes/experiments/rules.toml");
  toml::table root;
  try {
    root = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    fail("{}:{}: {}", path, error.source().begin.line, error.description());
  }
  Reader r(root, path, "");
  auto table = r.table(name);
  if (!table) {
    std::vector<std::string> names;
    for (const auto& [key, node] : root) names.emplace_back(key.str());
    fail("no rule set '{}' in {}\n  there are: {}", name, path, fmt::join(names, " "));
  }
  RuleSet rules{name, table->text("source"), table->text("text"), {}};
  if (auto forbid = table->table("forbid"))
    forbid->each(
        [&](const std::string& knob, const toml::node&) { rules.forbidden[knob] = forbid->texts(knob); });
  table->done();
  return rules;
}

}  // namespace fp4lab
