#include "cli/select.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "fp4lab/error.h"
#include "fp4lab/suggest.h"

namespace fp4lab::cli {
namespace {

using nlohmann::json;

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

bool about_a_kernel(const json& record) { return record.contains("kernel"); }

// Knobs first: bench has a field `launch`, too.
std::optional<std::string> value_in(const json& record, const std::string& name) {
  const auto knobs = knobs_in(record);
  if (const auto knob = knobs.find(name); knob != knobs.end()) return knob->second;
  if (const auto field = record.find(name); field != record.end() && field->is_primitive())
    return text_of(*field);
  return {};
}

bool holds(const json& record, const std::string& name, const std::string& wanted) {
  const auto value = value_in(record, name);
  return value && (*value == wanted || (name == "kernel" && value->substr(0, value->find('_')) == wanted));
}

}  // namespace

std::map<std::string, std::string> knobs_in(const json& r) {
  std::map<std::string, std::string> own;
  if (r.value("peer", false)) return own;
  if (const auto knobs = r.find("knobs"); knobs != r.end() && knobs->is_object()) {
    for (const auto& [name, value] : knobs->items()) own[name] = text_of(value);
    return own;
  }
  const std::string line = r.value("plan", r.value("how", ""));
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string word = line.substr(at, end - at);
    const size_t equal = word.find('=');
    own[equal == word.npos ? "tile" : word.substr(0, equal)] =
        equal == word.npos ? word : word.substr(equal + 1);
    at = end + 1;
  }
  return own;
}

Records records_where(const Records& records, const std::vector<std::string>& conditions) {
  Records left = records;
  for (const std::string& condition : conditions) {
    const size_t equal = condition.find('=');
    if (equal == condition.npos || equal == 0)
      fail("--where {}: expected NAME=VALUE of a knob or field, e.g. stages=4 or kernel=v2", condition);
    const std::string name = condition.substr(0, equal), wanted = condition.substr(equal + 1);
    std::set<std::string> names, values;
    for (const json& r : left) {
      if (!about_a_kernel(r)) continue;
      for (const auto& [knob, value] : knobs_in(r)) names.insert(knob);
      for (const auto& [field, value] : r.items())
        if (value.is_primitive()) names.insert(field);
      if (const auto value = value_in(r, name)) values.insert(*value);
    }
    if (values.empty())
      fail("--where {}: no record has '{}'{}", condition, name,
           did_you_mean(name, std::vector<std::string>(names.begin(), names.end())));
    std::erase_if(left, [&](const json& r) { return about_a_kernel(r) && !holds(r, name, wanted); });
    if (std::ranges::none_of(left, about_a_kernel))
      fail("--where {}: no record matches; {} is {}", condition, name, fmt::join(values, ", "));
  }
  return left;
}

Records first_of_each_case(const Records& records, size_t count) {
  std::map<std::string, size_t> seen;
  Records some;
  for (const json& r : records)
    if (!count || seen[r.value("case", "")]++ < count) some.push_back(r);
  return some;
}

}  // namespace fp4lab::cli
