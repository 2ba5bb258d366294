// Records as charts: bars as HTML, the others' data.
#include <cmath>

#include "cli/escape.h"
#include "cli/html/page.h"
#include "fp4lab/machine.h"
#include "fp4lab/problem.h"
#include "fp4lab/sm90.h"

namespace fp4lab::cli {
namespace {

using nlohmann::json;

double number(const json& r, const char* field) {
  const auto at = r.find(field);
  return at != r.end() && at->is_number() ? at->get<double>() : NAN;
}

// [value, low, high] in us, or null.
json measured_of(const json& r) {
  if (!has_time(r) || r.contains("error")) return nullptr;
  const json& us = r["us"];
  const double median = us["median"];
  return {median, us.value("p10", median), us.value("p90", median)};
}
json prediction_of(const json& p) {
  const double us = number(p, "predicted_us");
  if (!(us > 0)) return nullptr;
  return {us, number(p, "interval_low_us"), number(p, "interval_high_us")};
}
json predicted_of(const json& r) {
  return r.contains("predicted") && r["predicted"].is_object() ? prediction_of(r["predicted"]) : json();
}

std::string arch_of_record(const json& r) {
  if (r.contains("arch")) return r.value("arch", "");
  // Old records do not say it, and only the emulator was a B200.
  return r.value("device", "").find("B200") == std::string::npos ? std::string(sm90::kArch) : "sm_100a";
}

// A bar from 0 with its interval; widths are shares of the longest.
std::string bar(const std::string& kind, const std::string& name, const json& us, double longest) {
  const auto share = [&](double v) { return 100 * v / longest; };
  const double value = us[0], low = us[1], high = us[2];
  const bool predicted = kind == "predicted";
  return fmt::format(
      "<div class='bar {}' data-t='{}: {} {:.2f} us, {} {:.2f} to {:.2f}'><span>{}</span><div class=track>"
      "<i class=fill style='width:{:.2f}%'></i><i class=whisker style='left:{:.2f}%;width:{:.2f}%'></i></div>"
      "<b>{:.2f}<small> {:.2f}–{:.2f}</small></b></div>\n",
      kind, escaped(name), predicted ? "predicted" : "measured", value,
      predicted ? "80 % interval" : "p10 to p90", low, high,
      escaped(name) + (predicted ? " <em>predicted</em>" : ""), share(value), share(low), share(high - low),
      value, low, high);
}

}  // namespace

json sweep_data(const Records& sweeps) {
  json points = json::array();
  std::vector<std::string> knobs;
  for (size_t row = 0; row < sweeps.size(); ++row) {
    const json& r = sweeps[row];
    json measured = measured_of(r), predicted = predicted_of(r);
    if (!passed(r) || (measured.is_null() && predicted.is_null())) continue;
    json own = json::object();
    if (const auto all = r.find("knobs"); all != r.end() && all->is_object()) {
      for (const json& swept : r.value("swept", json::array()))
        if (const auto at = all->find(swept.get<std::string>()); at != all->end()) own[swept] = *at;
    } else {  // old records have the plan's line only: knob=value, apart from the tile
      std::string line = r.value("plan", "");
      for (size_t at = 0; at < line.size();) {
        const size_t end = std::min(line.find(' ', at), line.size()), equal = line.find('=', at);
        if (equal < end) own[line.substr(at, equal - at)] = line.substr(equal + 1, end - equal - 1);
        at = end + 1;
      }
    }
    for (const auto& [name, value] : own.items())
      if (std::ranges::find(knobs, name) == knobs.end()) knobs.push_back(name);
    points.push_back({{"row", row},
                      {"group", r.value("case", "?") + ", " + r.value("device", "?")},
                      {"series", r.value("kernel", "?")},
                      {"plan", r.value("plan", "")},
                      {"measured", std::move(measured)},
                      {"predicted", std::move(predicted)},
                      {"knobs", std::move(own)}});
  }
  return {{"knobs", knobs}, {"points", std::move(points)}};
}

json roofline_data(const Records& sweeps, const Records& times, const Records& predicted) {
  struct Best {
    json measured, predicted;
    bool peer = false;
  };
  std::map<std::string, std::map<std::pair<std::string, std::string>, Best>> by_arch;  // case, kernel
  const auto better = [](json& old, json now) {
    if (!now.is_null() && (old.is_null() || now[0] < old[0])) old = std::move(now);
  };
  for (const Records* some : {&sweeps, &times, &predicted})
    for (const json& r : *some) {
      json measured = measured_of(r), guess = some == &predicted ? prediction_of(r) : predicted_of(r);
      if ((measured.is_null() && guess.is_null()) || (some == &sweeps && !passed(r))) continue;
      Best& best = by_arch[arch_of_record(r)][{r.value("case", ""), r.value("kernel", "")}];
      better(best.measured, std::move(measured)), better(best.predicted, std::move(guess));
      best.peer = r.value("peer", false);
    }
  json charts = json::array();
  for (const auto& [arch, all] : by_arch) {
    json points = json::array();
    for (const auto& [who, best] : all) {
      Work work;
      try {
        work = work_of(find_case(who.first));
      } catch (const Error&) {  // another version's case
        continue;
      }
      points.push_back({{"case", who.first},
                        {"series", who.second},
                        {"peer", best.peer},
                        {"flops", work.flops},
                        {"bytes", work.bytes},
                        {"measured", best.measured},
                        {"predicted", best.predicted}});
    }
    if (points.empty()) continue;
    json roofs = json::array();
    try {
      const Machine& m = machine_for(arch);
      roofs.push_back({{"name", std::string(m.name) + ", data sheet"},
                       {"flops", m.flops_per_second},
                       {"bytes", m.bytes_per_second},
                       {"source", std::string(m.source)}});
    } catch (const Error&) {
    }
    double flops = 0, bytes = 0;
    for (const json& r : times)
      if (r.value("type", "") == "limit" && arch == arch_of_record(r))
        (r.value("limit", "") == "tensor" ? flops : bytes) = r.value("per_second", 0.0);
    if (flops > 0 && bytes > 0)
      roofs.push_back({{"name", "measured limits"},
                       {"flops", flops},
                       {"bytes", bytes},
                       {"source", "a large fp16 product of cuBLAS, a copy"}});
    charts.push_back({{"arch", arch}, {"points", std::move(points)}, {"roofs", std::move(roofs)}});
  }
  return charts;
}

std::string predicted_text(const json& prediction) {
  const json us = prediction_of(prediction);
  return us.is_null() ? ""
                      : fmt::format("{:.2f} us ({:.2f} to {:.2f})", us[0].get<double>(), us[1].get<double>(),
                                    us[2].get<double>());
}

std::string bars_html(const Records& times, const Records& predicted) {
  struct Bar {
    std::string name, kind;
    json us;
    std::string trouble;
  };
  std::vector<std::pair<std::string, std::vector<Bar>>> cases;
  const auto rows_of = [&](const std::string& name) -> std::vector<Bar>& {
    for (auto& [known, rows] : cases)
      if (known == name) return rows;
    return cases.emplace_back(name, std::vector<Bar>()).second;
  };
  for (const json& r : times) {
    if (r.value("type", "") != "time") continue;
    auto& rows = rows_of(r.value("case", "?"));
    const std::string kernel = r.value("kernel", "?");
    std::erase_if(rows, [&](const Bar& b) { return b.name == kernel; });  // the later one counts
    rows.push_back(
        {kernel, r.value("peer", false) ? "peer" : "ours", measured_of(r), r.value("error", "no time")});
  }
  for (const json& r : predicted)
    if (json us = prediction_of(r); !us.is_null())
      for (auto& [name, rows] : cases)
        if (name == r.value("case", ""))
          rows.push_back({r.value("kernel", "?"), "predicted", std::move(us), ""});
  std::string html;
  for (auto& [name, rows] : cases) {
    double longest = 0;
    for (const Bar& b : rows)
      if (!b.us.is_null()) longest = std::max(longest, b.us[2].get<double>());
    std::ranges::stable_sort(rows, {}, [](const Bar& b) { return b.us.is_null() ? 1e300 : double(b.us[0]); });
    html += fmt::format("<div class=card><h3>{}</h3>\n", escaped(name));
    for (const Bar& b : rows)
      html += b.us.is_null() ? fmt::format("<div class='bar bad'><span>{}</span><em>{}</em></div>\n",
                                           escaped(b.name), escaped(b.trouble))
                             : bar(b.kind, b.name, b.us, longest);
    html += "</div>\n";
  }
  return html;
}

}  // namespace fp4lab::cli
