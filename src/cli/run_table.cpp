#include "cli/run_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cli/select.h"
#include "fp4lab/error.h"
#include "fp4lab/plan_text.h"
#include "fp4lab/problem.h"
#include "fp4lab/sm100.h"

namespace fp4lab::cli {
namespace {

using nlohmann::json;

std::string text_at(const json& r, const char* field) { return r.value(field, ""); }

double number_at(const json& r, const char* field, double otherwise = 0) {
  const auto at = r.find(field);
  return at != r.end() && at->is_number() ? at->get<double>() : otherwise;
}

const json& part_of(const json& r, const char* field) {
  static const json nothing = json::object();
  const auto at = r.find(field);
  return at != r.end() && at->is_object() ? *at : nothing;
}

// 100 % means all of them.
std::string percent(double share) {
  return share == 1 ? "100 %" : fmt::format("{:.2f} %", std::min(99.99, 100 * share));
}

std::string percent_at(const json& r, const char* field) {
  return r.contains(field) ? percent(number_at(r, field)) : "-";
}

std::string millions(const json& emulated) {
  return emulated.empty() ? "-" : fmt::format("{:.2f} M", number_at(emulated, "warp_instructions") / 1e6);
}

// The task's own, of a B200; with a star what the roofline gives.
std::string speed_of_light(const json& r) {
  try {
    const Case c = find_case(text_at(r, "case"));
    if (c.speed_of_light_us && text_at(r, "arch") == sm100::kArch)
      return fmt::format("{:.3f}", *c.speed_of_light_us);
  } catch (const Error&) {  // another version's case
  }
  return fmt::format("{:.3f}*", number_at(r, "roofline_us_computed"));
}

}  // namespace

Records records_at(const Records& all, const std::vector<std::string>& points) {
  std::map<std::string, const json*> by_point;
  for (const json& r : all) by_point[text_at(r, "point")] = &r;
  Records some;
  for (const std::string& point : points)
    if (const auto at = by_point.find(point); at != by_point.end()) some.push_back(*at->second);
  return some;
}

bool passed(const json& record) { return record.value("passed", false) && !record.contains("error"); }

bool has_time(const json& record) {
  const json& us = part_of(record, "us");
  return us.contains("median") && us["median"].is_number();
}

Table run_table(const Records& records) {
  Table table({"case", "kernel", "?>grid", "?>JIT ms", "?>instructions", "?>seconds", "?>max abs",
               "?>max rel", ">bit-equal", ">tensor-core bits", "result", ">speed of light us"});
  for (const json& r : records) {
    const auto error = [&](const char* field) {
      return r.contains(field) ? fmt::format("{:.2g}", number_at(r, field)) : "-";
    };
    const auto grid = static_cast<unsigned>(number_at(r, "grid"));
    table.add({text_at(r, "case"), text_at(r, "kernel"), grid ? fmt::format("{}", grid) : "-",
               r.value("jit_cached", false) ? "cached" : fmt::format("{:.0f}", number_at(r, "jit_ms")),
               millions(part_of(r, "emulated")), fmt::format("{:.2f}", number_at(r, "seconds")),
               error("max_abs_error"), error("max_rel_error"), percent_at(r, "bit_equal_share"),
               percent_at(r, "bit_equal_share_tensor_core"), passed(r) ? "PASS" : "FAIL", speed_of_light(r)});
  }
  return table;
}

std::string run_remarks(const Records& records) {
  std::string notes, troubles;
  std::set<std::string> said;
  for (const json& r : records) {
    const std::string who = text_at(r, "case") + " " + text_at(r, "kernel");
    if (const double slack = number_at(r, "within_fp32_accumulation_bound"); slack > 0 && passed(r))
      notes += fmt::format(
          "{}: {} of {} elements lie beyond the tolerance of the exact sums, but within what fp32 "
          "accumulation may "
          "lose{}\n",
          who, slack, number_at(r, "elements"),
          r.contains("bit_equal_share_tensor_core")
              ? fmt::format("; {} agree bit by bit with the tensor core's rounding",
                            percent_at(r, "bit_equal_share_tensor_core"))
              : "");
    if (r.contains("like") && !said.contains(text_at(r, "kernel")))
      notes += fmt::format(
          "{} runs like {}: with its plan, limits and launch{}\n", text_at(r, "kernel"), text_at(r, "like"),
          r.contains("predicted") ? "; predicted times are the plans', whatever the file changes" : ""),
          said.insert(text_at(r, "kernel"));
    if (r.contains("notes")) notes += fmt::format("note, {}: {}\n", who, text_at(r, "notes"));
    if (!passed(r)) {
      const std::string plan = text_at(r, "plan");
      troubles += fmt::format("FAIL {} {}: {}\n\n", who, plan, text_at(r, "error"));
    }
  }
  return notes + troubles;
}

namespace {

// A column of a sweep, or a line above it.
struct Column {
  std::string name;
  std::vector<std::string> cells;
  bool same() const {
    return std::ranges::all_of(cells, [&](const std::string& c) { return c == cells[0]; });
  }
};

Column column(const Records& records, std::string name, const auto& cell) {
  Column c{std::move(name), {}};
  for (const json& r : records) c.cells.push_back(cell(r));
  return c;
}

// Knobs in the order in which they first come.
std::vector<Column> knobs_of(const Records& records) {
  std::vector<std::string> names;
  std::vector<std::map<std::string, std::string>> values;
  for (const json& r : records) {
    std::map<std::string, std::string> own = knobs_in(r);
    for (const auto& [name, value] : own)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    values.push_back(std::move(own));
  }
  std::vector<Column> columns;
  for (const std::string& name : names) {
    columns.push_back({name, {}});
    for (const auto& own : values) columns.back().cells.push_back(own.contains(name) ? own.at(name) : "-");
  }
  return columns;
}

// Old records do not say what was swept: then it is all that differs.
bool is_swept(const Records& records, const std::string& knob) {
  return std::ranges::any_of(records, [&](const json& r) {
    const auto swept = r.find("swept");
    return swept == r.end() || std::ranges::find(*swept, json(knob)) != swept->end();
  });
}

// As every plan has it that says nothing else.
bool is_usual(const Column& knob) {
  if (knob.name == "mma_m" || knob.name == "mma_n" || knob.name == "block_k") return false;
  if (knob.name == "op" || knob.name == "group_capacity") return true;  // the case's
  for (const KnobInfo& known : knob_table())
    if (known.name == knob.name) return knob_value(Plan{}, knob.name) == knob.cells[0];
  return false;
}

// Rows that agree in all of `others` agree in `c`: it says nothing of its own.
bool follows(const Column& c, const std::vector<Column>& others) {
  std::map<std::string, std::string> seen;
  for (size_t r = 0; r < c.cells.size(); ++r) {
    std::string key;
    for (const Column& o : others) key += o.cells[r] + "|";
    if (seen.emplace(key, c.cells[r]).first->second != c.cells[r]) return false;
  }
  return true;
}

std::vector<Column> numbers_of(const Records& records, bool timed) {
  std::vector<Column> columns;
  const auto add = [&](const char* name, const auto& cell) {
    columns.push_back(column(records, name, cell));
  };
  const auto placed = [&](const char* name, const char* field, const char* format, double factor) {
    if (std::ranges::any_of(records, [](const json& r) { return r.contains("placement"); }))
      add(name, [=](const json& r) {
        return r.contains("placement")
                   ? fmt::format(fmt::runtime(format), factor * number_at(part_of(r, "placement"), field))
                   : "-";
      });
  };
  add("?>grid", [](const json& r) { return fmt::format("{}", number_at(r, "grid")); });
  placed("?>waves", "waves", "{:.2f}", 1);
  placed("?>SMs busy", "busy", "{:.0f} %", 100);
  placed("?>useful rows", "rows_used", "{:.0f} %", 100);
  if (std::ranges::any_of(records, [](const json& r) { return r.contains("predicted"); }))
    add(">predicted us", [](const json& r) {
      return r.contains("predicted") ? fmt::format("{:.2f}", number_at(part_of(r, "predicted"), "us")) : "-";
    });
  if (std::ranges::any_of(records, [](const json& r) { return r.contains("predicted"); }))
    add("?>predicted 80 %", [](const json& r) {
      const json& p = part_of(r, "predicted");
      return p.contains("interval_low_us") ? fmt::format("{:.2f}-{:.2f}", number_at(p, "interval_low_us"),
                                                         number_at(p, "interval_high_us"))
                                           : "-";
    });
  if (timed) {
    const auto us = [](const json& r, const char* field) { return number_at(part_of(r, "us"), field); };
    add(">us", [=](const json& r) { return has_time(r) ? fmt::format("{:.2f}", us(r, "median")) : "-"; });
    add("?>p10-p90", [=](const json& r) {
      return has_time(r) ? fmt::format("{:.2f}-{:.2f}", us(r, "p10"), us(r, "p90")) : "-";
    });
    const auto count = [](const json& r) {
      return has_time(r) ? fmt::format("{}", number_at(part_of(r, "us"), "count")) : "-";
    };
    if (!column(records, "", count).same()) add("?>samples", count);  // a search measured some quickly
    add("?>TFLOP/s", [=](const json& r) {
      double flops = 0;
      try {
        flops = find_case(text_at(r, "case")).flops();
      } catch (const Error&) {
      }
      return has_time(r) && flops > 0 ? fmt::format("{:.0f}", flops / us(r, "median") / 1e6) : "-";
    });
    add("?launch", [](const json& r) { return r.value("launch", "-"); });
    add("?SM MHz", [](const json& r) {
      const json& gpu = part_of(r, "gpu");
      return gpu.empty()
                 ? "-"
                 : fmt::format("{}-{}", number_at(gpu, "sm_mhz_min", -1), number_at(gpu, "sm_mhz_max", -1));
    });
  } else {
    const auto counted = [&](const char* name, const char* field, const char* format, double factor) {
      add(name, [=](const json& r) {
        const json& emulated = part_of(r, "emulated");
        return emulated.empty() ? "-"
                                : fmt::format(fmt::runtime(format), factor * number_at(emulated, field));
      });
    };
    counted(">M instructions", "warp_instructions", "{:.2f}", 1e-6);
    counted(">TMA MB", "tma_bytes", "{:.1f}", 1e-6);
    counted(">MMAs", "mma", "{}", 1);
    add("?>emulator s", [](const json& r) { return fmt::format("{:.2f}", number_at(r, "seconds")); });
  }
  return columns;
}

}  // namespace

SweepTable sweep_table(const Records& records, bool everything) {
  if (records.empty()) return {"", Table({"case", "result"})};
  const bool timed = std::ranges::any_of(records, has_time);
  std::vector<Column> shown;
  std::string common, knobs;
  for (const char* field : {"device", "distribution", "seed", "case", "arch", "kernel"}) {
    Column c = column(records, field, [&](const json& r) {
      const auto at = r.find(field);
      return at == r.end() ? "-" : at->is_string() ? at->get<std::string>() : at->dump();
    });
    if (everything || !c.same())
      shown.push_back(std::move(c));
    else
      common +=
          fmt::format("{}{}{}", common.empty() ? "" : ", ", c.name == "seed" ? "seed " : "", c.cells[0]);
  }
  const size_t given = shown.size();
  std::vector<Column> follow;  // not swept, but not the same everywhere
  for (Column& c : knobs_of(records))
    if (everything || (!c.same() && is_swept(records, c.name)))
      shown.push_back(std::move(c));
    else if (!c.same())
      follow.push_back(std::move(c));
    else if (!is_usual(c))
      knobs += fmt::format(" {}={}", c.name, c.cells[0]);
  for (Column& c : follow)
    if (!follows(c, shown)) shown.push_back(std::move(c));
  const bool no_knobs = shown.size() == given;
  for (Column& c : numbers_of(records, timed)) shown.push_back(std::move(c));
  std::vector<std::string> headings;
  for (const Column& c : shown) headings.push_back(c.name);
  headings.push_back("result");
  Table table(headings);
  for (size_t r = 0; r < records.size(); ++r) {
    std::vector<std::string> cells;
    for (const Column& c : shown) cells.push_back(c.cells[r]);
    cells.push_back(passed(records[r]) ? "PASS" : "FAIL");
    table.add(std::move(cells));
  }
  if (!knobs.empty()) common += fmt::format("\n{}{}", no_knobs ? "with" : "all with", knobs);
  return {common + "\n", std::move(table)};
}

void sort_records(Records& records, const std::string& by) {
  using Key = double (*)(const json&);
  static const std::map<std::string, Key> keys{
      {"order", [](const json&) { return 0.0; }},
      {"predicted", [](const json& r) { return number_at(part_of(r, "predicted"), "us", 1e300); }},
      {"time", [](const json& r) { return has_time(r) ? number_at(part_of(r, "us"), "median") : 1e300; }},
      {"instructions",
       [](const json& r) { return number_at(part_of(r, "emulated"), "warp_instructions", 1e300); }},
      {"bytes", [](const json& r) { return number_at(part_of(r, "emulated"), "tma_bytes", 1e300); }},
      {"waves", [](const json& r) { return number_at(part_of(r, "placement"), "waves", 1e300); }},
      {"seconds", [](const json& r) { return number_at(r, "seconds", 1e300); }}};
  std::string key = by;
  if (key.empty())
    key = std::ranges::any_of(records, has_time) ? "time"
          : !records.empty() &&
                  std::ranges::all_of(records, [](const json& r) { return r.contains("predicted"); })
              ? "predicted"
              : "order";
  if (!keys.contains(key))
    fail("--sort {}: order, predicted, time, instructions, bytes, waves or seconds", key);
  const Key of = keys.at(key);
  std::ranges::stable_sort(records, [&](const json& a, const json& b) {
    if (passed(a) != passed(b)) return passed(a);
    return of(a) < of(b);
  });
}

}  // namespace fp4lab::cli
