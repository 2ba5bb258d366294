#include "cli/mutate_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace fp4lab::cli {
namespace {

using nlohmann::json;

constexpr const char* kOutcomes[] = {"reported", "wrong", "noted", "survived"};

struct Count {
  std::map<std::string, size_t> by_outcome;

  void add(const json& r) { ++by_outcome[r.value("outcome", "")]; }
  std::vector<std::string> cells(const std::string& name) const {
    size_t all = 0;
    for (const char* outcome : kOutcomes) all += of(outcome);
    std::vector<std::string> cells{name, fmt::format("{}", all)};
    for (const char* outcome : kOutcomes) cells.push_back(fmt::format("{}", of(outcome)));
    return cells;
  }
  size_t of(const char* outcome) const {
    const auto at = by_outcome.find(outcome);
    return at == by_outcome.end() ? 0 : at->second;
  }
};

Count sum_of(const std::vector<json>& records) {
  Count sum;
  for (const json& r : records) sum.add(r);
  return sum;
}

bool refused(const json& r) { return r.value("outcome", "") == "refused"; }

}  // namespace

Table mutate_table(const std::vector<json>& records) {
  std::map<std::string, Count> rules;
  for (const json& r : records)
    if (!refused(r)) rules[r.value("rule", "")].add(r);
  Table table({"rule", ">mutants", ">reported", ">wrong result", ">noted", ">survived"});
  for (const auto& [rule, n] : rules) table.add(n.cells(rule));
  table.add(sum_of(records).cells("all"));
  return table;
}

std::string mutate_markdown(const std::vector<json>& records, const std::string& name) {
  return fmt::format("| {} |\n", fmt::join(sum_of(records).cells(name), " | "));
}

std::string mutate_remarks(const std::vector<json>& records) {
  std::map<std::string, size_t> named;
  size_t no_ptx = 0;
  for (const json& r : records) {
    no_ptx += refused(r);
    if (r.value("outcome", "") == "reported") ++named[r.value("named", "")];
  }
  std::string text;
  if (const size_t all = sum_of(records).of("reported"))
    text += fmt::format(
        "of {} reports, {} name the altered line, {} an adjacent instruction, {} the kind of instruction "
        "missing and the lines around it, {} none of these\n",
        all, named["line"], named["near"], named["kind"], named["no"]);
  if (no_ptx) text += fmt::format("{} mutants skipped: not loadable PTX\n", no_ptx);
  return text;
}

std::string survivors(const std::vector<json>& records) {
  std::string text;
  for (const json& r : records)
    if (r.value("outcome", "") == "survived")
      text += fmt::format("{:5}  {}: {}\n", r.value("line", 0), r.value("rule", ""), r.value("before", ""));
  return text.empty() ? text : "\nsurvivors (equivalent to the original, or missed):\n" + text;
}

}  // namespace fp4lab::cli
