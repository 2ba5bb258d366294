#include "cli/bench_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "cli/table.h"
#include "fp4lab/error.h"
#include "fp4lab/problem.h"
#include "fp4lab/timing.h"

namespace fp4lab::cli {
namespace {

using nlohmann::json;

struct Row {
  const json* record;
  std::string kernel;
  std::optional<double> us;  // median
};

// What the records say, in the order in which cases and kernels first came.
struct Records {
  std::vector<const json*> sessions, limits;
  std::vector<std::pair<std::string, std::vector<Row>>> cases;
  std::vector<const json*> absent;
};

Records sorted(const std::vector<json>& records) {
  Records out;
  for (const json& r : records) {
    const std::string type = r.value("type", "");
    if (type == "session") out.sessions.push_back(&r);
    if (type == "limit") out.limits.push_back(&r);
    if (type == "absent") out.absent.push_back(&r);
    if (type != "time") continue;
    const std::string name = r.at("case");
    auto at =
        std::find_if(out.cases.begin(), out.cases.end(), [&](const auto& c) { return c.first == name; });
    if (at == out.cases.end()) at = out.cases.insert(at, {name, {}});
    Row row{&r, r.at("kernel"), {}};
    if (r.contains("us") && !r.contains("error") && r["us"]["median"].is_number())
      row.us = r["us"]["median"].get<double>();
    std::erase_if(at->second, [&](const Row& old) { return old.kernel == row.kernel; });
    at->second.push_back(std::move(row));
  }
  return out;
}

std::string share(double part, std::optional<double> whole) {
  return whole && *whole > 0 ? fmt::format("{:.0f} %", 100 * part / *whole) : "-";
}

json part_of(const json& record, const char* field) {
  return record.contains(field) && record[field].is_object() ? record[field] : json::object();
}

std::string output_of(const json& r) {
  if (r.contains("error")) return "ERROR";
  const json check = part_of(r, "check_after");
  if (check.value("bit_equal_share", 0.0) == 1.0) return "bit-equal";
  if (r.value("passed", false)) return "PASS";
  return fmt::format("rms error {:.2g} %, {:.1f} % beyond", 100 * check.value("relative_rms_error", 0.0),
                     100 * check.value("outside_tolerance_share", 0.0));
}

std::optional<double> time_of(const std::vector<Row>& rows, const std::string& kernel) {
  for (const Row& row : rows)
    if (row.kernel == kernel) return row.us;
  return {};
}

std::string ratio(std::optional<double> of, std::optional<double> us) {
  return of && us ? fmt::format("{:.2f}x", *of / *us) : "-";
}

std::string clocks(const json& gpu) {
  if (!gpu.contains("sm_mhz_min")) return "-";
  const int low = gpu.value("sm_mhz_min", -1), high = gpu.value("sm_mhz_max", -1);
  return low == high ? fmt::format("{}", low) : fmt::format("{}-{}", low, high);
}

std::string operation_of(const std::string& case_name) {
  try {
    return std::string(operation_name(find_case(case_name).operation));
  } catch (const Error&) {
    return "other";
  }
}

std::optional<double> limit_of(const Records& records, const std::string& name) {
  std::optional<double> rate;
  for (const json* l : records.limits)
    if (l->at("limit") == name) rate = l->at("per_second").get<double>();
  return rate;
}

// How many times as fast as each peer, case by case.
struct Ratios {
  size_t cases = 0;
  std::map<std::string, std::vector<double>> by_peer;

  // "1.40x"; "1.40x of 3" where the peer has not all cases.
  std::string mean(const std::string& peer) const {
    const auto all = by_peer.find(peer);
    if (all == by_peer.end()) return "-";
    const size_t count = all->second.size();
    return fmt::format("{:.2f}x{}", geometric_mean(all->second),
                       count == cases ? "" : fmt::format(" of {}", count));
  }
};

std::vector<std::string> peers_with_times(const Records& records) {
  std::vector<std::string> peers;
  for (const auto& [name, rows] : records.cases)
    for (const Row& row : rows)
      if (row.record->value("peer", false) && row.us &&
          std::find(peers.begin(), peers.end(), row.kernel) == peers.end())
        peers.push_back(row.kernel);
  return peers;
}

const Row* fastest_of_ours(const std::vector<Row>& rows) {
  const Row* best = nullptr;
  for (const Row& row : rows)
    if (!row.record->value("peer", false) && row.us && (!best || *row.us < *best->us)) best = &row;
  return best;
}

// Our fastest right kernel of each case against every peer. No rows where there is none.
Table summary(const Records& records) {
  const std::vector<std::string> peers = peers_with_times(records);
  std::vector<std::string> headings{"case", "fastest kernel here", ">us", ">of tensor limit"};
  for (const std::string& peer : peers) headings.push_back(">" + peer);
  const std::optional<double> tensor = limit_of(records, "tensor");
  Table table(headings);
  std::map<std::string, Ratios> ratios;  // by operation: group, dual and plain GEMMs have no common mean
  for (const auto& [name, rows] : records.cases) {
    const Row* best = fastest_of_ours(rows);
    if (!best) continue;
    std::vector<std::string> cells{name, best->kernel, fmt::format("{:.2f}", *best->us),
                                   share(best->record->value("flops", 0.0) / *best->us * 1e6, tensor)};
    Ratios& of = ratios[operation_of(name)];
    ++of.cases;
    for (const std::string& peer : peers) {
      const auto theirs = time_of(rows, peer);
      if (theirs) of.by_peer[peer].push_back(*theirs / *best->us);
      cells.push_back(theirs ? fmt::format("{:.2f} ({})", *theirs, ratio(theirs, best->us)) : "-");
    }
    table.add(std::move(cells));
  }
  for (const auto& [operation, of] : ratios) {
    std::vector<std::string> cells{ratios.size() == 1 ? "geomean" : "geomean " + operation, "", "", ""};
    for (const std::string& peer : peers) cells.push_back(of.mean(peer));
    table.add(std::move(cells));
  }
  return table;
}

// -- the parts of the report

std::string session_text(const json& s) {
  std::string text = fmt::format("{}, {}, commit {}\n  {}\n", s.value("date", "?"), s.value("device", "?"),
                                 s.value("commit", "?"), s.value("command", "?"));
  if (s.contains("driver"))
    text += fmt::format("  driver {}, CUDA {}, power limit {:.0f} W, at most {} MHz\n",
                        s.value("driver", "?"), s.value("cuda_driver_api", "?"),
                        s.value("power_limit_watts", -1.0), s.value("max_sm_mhz", -1));
  if (s.contains("nvml")) text += fmt::format("  {}\n", s.value("nvml", ""));
  return text;
}

std::string limit_text(const json& limit) {
  const bool tensor = limit.at("limit") == "tensor";
  const json gpu = part_of(limit, "gpu");
  return fmt::format("  {} limit {:.{}f} {}: {}; {} MHz, {:.0f} W, slowdown {}\n",
                     limit.at("limit").get<std::string>(), limit.at("per_second").get<double>() / 1e12,
                     tensor ? 0 : 2, tensor ? "TFLOP/s" : "TB/s", limit.value("how", ""), clocks(gpu),
                     gpu.value("watts_max", -1.0), gpu.value("slowdown", "unknown"));
}

// The fastest first, those without a time last.
std::vector<Row> shown(std::vector<Row> rows, const BenchView& view) {
  if (view.sort == "time")
    std::ranges::stable_sort(rows, {}, [](const Row& row) { return row.us.value_or(HUGE_VAL); });
  if (view.top && rows.size() > view.top) rows.erase(rows.begin() + ptrdiff_t(view.top), rows.end());
  return rows;
}

Table times(const Records& records, const BenchView& view) {
  const std::optional<double> tensor = limit_of(records, "tensor"), bytes = limit_of(records, "bytes");
  Table table({"case", "kernel", ">us", "?>p10-p90", "?>TFLOP/s", "?>of tensor limit", "?>of byte limit",
               ">vs " + view.against, "output", "?SM MHz", "?>W", "?slowdown", "?how"});
  for (const auto& [name, rows] : records.cases)
    for (const Row& row : shown(rows, view)) {
      const json& r = *row.record;
      const std::string launch = r.value("launch", "");
      const std::string how = launch + (launch.empty() ? "" : ": ") + r.value("how", "");
      if (!row.us) {
        table.add({name, row.kernel, "-", "-", "-", "-", "-", "-", output_of(r), "-", "-", "-", how});
        continue;
      }
      const double flops = r.value("flops", 0.0), moved = r.value("bytes", 0.0), us = *row.us;
      const json gpu = part_of(r, "gpu");
      table.add({name, row.kernel, fmt::format("{:.2f}", us),
                 fmt::format("{:.2f}-{:.2f}", r["us"].value("p10", us), r["us"].value("p90", us)),
                 fmt::format("{:.0f}", flops / us / 1e6), share(flops / us * 1e6, tensor),
                 share(moved / us * 1e6, bytes), ratio(time_of(rows, view.against), us), output_of(r),
                 clocks(gpu), gpu.empty() ? "-" : fmt::format("{:.0f}", gpu.value("watts_max", -1.0)),
                 gpu.value("slowdown", "-"), how});
    }
  return table;
}

// Steps on the weights that are in no time.
std::string weights_text(const Records& records) {
  std::string text;
  for (const auto& [name, rows] : records.cases)
    for (const Row& row : rows)
      if (row.record->contains("weights")) {
        const json& w = (*row.record)["weights"];
        text += fmt::format("{} {}: {} once beforehand, {:.1f} us, {:.1f} MB\n", name, row.kernel,
                            w.value("step", ""), w.value("us", 0.0), double(w.value("bytes", 0)) / 1e6);
      }
  return text;
}

// What is absent, the cases of one reason in one line.
std::string absent_text(const Records& records) {
  std::vector<std::pair<std::string, std::vector<std::string>>> missing;  // kernel and reason -> cases
  for (const json* a : records.absent) {
    const std::string what = fmt::format("{}: {}", a->value("kernel", "?"), a->value("reason", "?"));
    auto at = std::find_if(missing.begin(), missing.end(), [&](const auto& m) { return m.first == what; });
    if (at == missing.end()) at = missing.insert(at, {what, {}});
    if (a->contains("case")) at->second.push_back(a->value("case", ""));
  }
  std::string text;
  for (const auto& [what, names] : missing)
    text += names.empty() ? fmt::format("not measured: {}\n", what)
                          : fmt::format("not measured ({}): {}\n", fmt::join(names, ", "), what);
  return text;
}

// What a kernel's times are to be read with, and what has no time.
std::string remarks_text(const Records& records) {
  std::map<std::string, std::string> remarks;
  std::string troubles;
  for (const auto& [name, rows] : records.cases)
    for (const Row& row : rows) {
      if (row.record->contains("remark")) remarks[row.kernel] = (*row.record)["remark"];
      if (!row.us)
        troubles += fmt::format("ERROR {} {}: {}\n", name, row.kernel, row.record->value("error", "no time"));
    }
  std::string text;
  for (const auto& [kernel, remark] : remarks) text += fmt::format("{}: {}\n", kernel, remark);
  return text + troubles;
}

}  // namespace

std::string bench_report(const std::vector<json>& all, const BenchView& view, const TableFormat& format) {
  const Records records = sorted(all);
  if (format.csv) return times(records, view).csv();
  std::string text;
  for (const json* s : records.sessions) text += session_text(*s);
  for (const json* l : records.limits) text += limit_text(*l);
  if (!text.empty()) text += "\n";
  if (const Table table = times(records, view); !table.empty()) text += format.text(table) + "\n";
  if (const Table best = summary(records); !best.empty())
    text += format.text(best) + "Peers: us, and in parentheses the speedup of the kernel over them.\n\n";
  return text + bench_remarks(all);
}

Table bench_times(const std::vector<json>& all, const std::string& against) {
  BenchView view;
  view.against = against;
  return times(sorted(all), view);
}

Table bench_summary(const std::vector<json>& all) { return summary(sorted(all)); }

std::string bench_limits(const std::vector<json>& all) {
  std::string text;
  for (const json* l : sorted(all).limits) text += limit_text(*l);
  return text;
}

std::string bench_remarks(const std::vector<json>& all) {
  const Records records = sorted(all);
  std::string text = weights_text(records) + absent_text(records) + remarks_text(records);
  if (!records.cases.empty())
    text +=
        "Times are medians per call; FLOP are 2 M N K a product; the byte limit counts the NVFP4 operands "
        "and the output once, also for peers that read more.\n";
  return text;
}

std::string bench_markdown(const std::vector<json>& all) {
  const Records records = sorted(all);
  std::string text;
  for (const json* s : records.sessions)
    text += fmt::format("`{}`, {}, {}, driver {}, commit {}.\n\n", s->value("command", "?"),
                        s->value("date", "?"), s->value("device", "?"), s->value("driver", "?"),
                        s->value("commit", "?").substr(0, 7) +
                            (s->value("commit", "").ends_with("modified") ? ", modified" : ""));
  return text + summary(records).markdown();
}

}  // namespace fp4lab::cli
