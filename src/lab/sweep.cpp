#include "fp4lab/sweep.h"

#include <charconv>
#include <map>

namespace fp4lab {
namespace {

bool number(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

Axis parse_axis(const std::string& knob, const std::string& values) {
  Axis axis{knob, {}};
  for (size_t at = 0; at <= values.size();) {
    const size_t comma = std::min(values.find(',', at), values.size());
    const std::string item = values.substr(at, comma - at);
    if (const size_t dots = item.find(".."); dots != std::string::npos) {
      int first = 0, last = 0;
      if (!number(std::string_view(item).substr(0, dots), first) ||
          !number(std::string_view(item).substr(dots + 2), last) || first > last)
        fail("{}={}: '{}' is not a range such as 1..6", knob, values, item);
      for (int v = first; v <= last; ++v) axis.values.push_back(fmt::format("{}", v));
    } else {
      if (item.empty()) fail("{}={}: an empty value", knob, values);
      axis.values.push_back(item);
    }
    at = comma + 1;
  }
  return axis;
}

SweepPoints sweep_points(const Case& c, const std::vector<const Rung*>& rungs,
                         const std::vector<Axis>& axes) {
  SweepPoints points;
  std::map<std::string, size_t> seen;
  points.lattice.extent.push_back(rungs.size());
  for (const Axis& axis : axes) points.lattice.extent.push_back(axis.values.size());
  for (const Rung* rung : rungs) {
    std::vector<size_t> index(axes.size());
    for (bool more = true; more;) {
      std::vector<std::string> knobs;
      for (size_t a = 0; a < axes.size(); ++a) knobs.push_back(axes[a].knob + "=" + axes[a].values[index[a]]);
      Candidate candidate = candidate_for(*rung, c, knobs);
      const size_t place = points.total++;
      const auto forbidden = reasons(candidate, c);
      if (!forbidden.empty()) {
        ++points.dropped[forbidden.front().rule];
        points.example.emplace(
            forbidden.front().rule,
            fmt::format("{} {}: {}", rung->name, plan_line(candidate), forbidden.front().text));
      } else {
        const auto [at, is_new] =
            seen.emplace(fmt::format("{} {}", rung->name, plan_line(candidate)), points.legal.size());
        points.lattice.points.emplace_back(place, at->second);
        if (is_new) points.legal.push_back(std::move(candidate));
      }
      more = false;
      for (size_t a = axes.size(); a-- > 0;) {  // the last axis runs fastest
        if (++index[a] < axes[a].values.size()) {
          more = true;
          break;
        }
        index[a] = 0;
      }
    }
  }
  return points;
}

void SweepPoints::keep(const std::vector<size_t>& chosen) {
  std::vector<Candidate> some;
  std::map<size_t, size_t> now;  // by what they were
  for (const size_t i : chosen) {
    now.emplace(i, some.size());
    some.push_back(std::move(legal[i]));
  }
  legal = std::move(some);
  std::erase_if(lattice.points, [&](const auto& point) { return !now.contains(point.second); });
  for (auto& [place, point] : lattice.points) point = now.at(point);
}

}  // namespace fp4lab
