#include <fmt/ranges.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "fp4lab/error.h"
#include "model/registry.h"

namespace fp4lab::model {
namespace {

std::vector<Chip>& registry() {
  static std::vector<Chip> all{kB200, kH200, kH100};
  return all;
}

}  // namespace

std::span<const Chip> chips() { return registry(); }

const Chip& find_chip(std::string_view name, std::string_view arch) {
  std::vector<std::string_view> names;
  for (const Chip& chip : registry()) {
    if (name.empty() ? chip.arch == arch : chip.name == name) return chip;
    names.push_back(chip.name);
  }
  if (name.empty()) fail("no machine is modelled for {}; there are {}", arch, fmt::join(names, ", "));
  fail("no machine is called '{}'; there are {}", name, fmt::join(names, ", "));
}

void set_constant(std::string_view assignment) {
  const size_t dot = assignment.find('.'), equal = assignment.find('=');
  if (dot == assignment.npos || equal == assignment.npos || dot > equal)
    fail("'{}' is not MACHINE.CONSTANT=NUMBER", assignment);
  const std::string_view name = assignment.substr(dot + 1, equal - dot - 1);
  const std::string text(assignment.substr(equal + 1));
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end) fail("{}: '{}' is not a number", assignment, text);
  bool set = false;
  const auto take = [&](std::string_view constant, Constant& c) {
    if (constant == name) c.value = value, c.source = "--set", set = true;
  };
  const std::string_view machine = assignment.substr(0, dot);
  if (machine == "sm90")
    visit_sm90_costs(take);
  else
    Chip::visit(registry()[size_t(&find_chip(machine, "") - registry().data())], take);
  if (!set)
    fail("{}: {} has no constant '{}'; `fp4lab predict --constants` lists them", assignment, machine, name);
}

}  // namespace fp4lab::model
