#include "cli/html/page.h"

#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include "cli/bench_table.h"
#include "cli/escape.h"
#include "cli/html/assets.h"
#include "cli/mutate_table.h"
#include "cli/output.h"
#include "cli/record_files.h"
#include "fp4lab/error.h"
#include "fp4lab/json_text.h"
#include "fp4lab/store.h"

namespace fp4lab::cli {
namespace {

using nlohmann::json;

constexpr std::string_view kMark = "<!doctype html><!-- fp4lab report -->";
constexpr size_t kMostRows = 4000;         // of a table
constexpr size_t kMostBytes = 6'000'000;   // of a page
constexpr size_t kMostOfAnError = 20'000;  // characters of a failure's text

// What belongs to an experiment is shown with it only.
std::string section_of(const json& r) { return r.contains("experiment") ? "experiment" : type_of(r); }

Records of(const Records& all, std::initializer_list<const char*> types) {
  Records some;
  for (const json& r : all)
    if (std::ranges::find(types, section_of(r)) != types.end()) some.push_back(r);
  return some;
}

std::string paragraph(const std::string& text, const char* kind = "note") {
  return text.empty() ? "" : fmt::format("<p class='text {}'>{}</p>\n", kind, escaped(text));
}

// A row for all records of one device, command and commit.
Table provenance(const Records& records) {
  struct Origin {
    std::string device, commit, command, first, last, driver;
    std::set<int> mhz;
    size_t count = 0;
  };
  std::vector<Origin> origins;
  for (const json& r : records) {
    const std::string device = r.value("device", "-"), commit = r.value("commit", "-"),
                      command = r.value("command", "-"), date = r.value("date", "");
    auto at = std::ranges::find_if(origins, [&](const Origin& o) {
      return o.device == device && o.commit == commit && o.command == command;
    });
    if (at == origins.end()) at = origins.insert(at, {device, commit, command, date, date, "", {}, 0});
    ++at->count;
    if (!date.empty()) at->first = std::min(at->first, date), at->last = std::max(at->last, date);
    if (r.contains("driver")) at->driver = r.value("driver", "");
    if (const auto gpu = r.find("gpu"); gpu != r.end() && gpu->is_object())
      for (const char* field : {"sm_mhz_min", "sm_mhz_max"})
        if (gpu->contains(field)) at->mhz.insert(gpu->value(field, 0));
  }
  Table table({">records", "device", ">SM MHz", "date", "commit", "command"});
  for (const Origin& o : origins)
    table.add({fmt::format("{}", o.count), o.device + (o.driver.empty() ? "" : ", driver " + o.driver),
               o.mhz.empty()                       ? "-"
               : *o.mhz.begin() == *o.mhz.rbegin() ? fmt::format("{}", *o.mhz.begin())
                                                   : fmt::format("{}-{}", *o.mhz.begin(), *o.mhz.rbegin()),
               o.first.empty() ? "-" : o.first + (o.last == o.first ? "" : " to " + o.last),
               o.commit.substr(0, 12) + (o.commit.ends_with(", modified") ? ", modified" : ""), o.command});
  return table;
}

struct Failures {
  size_t count = 0;
  std::string html;
};

Failures failures(const Records& records) {
  Failures f;
  for (const json& r : records) {
    const std::string type = section_of(r);
    const bool wrong = (type == "run" || type == "sweep") && !passed(r),
               untimed = type == "time" && r.contains("error"),
               ended = type == "step" && r.value("ended", "done") != "done";
    if (!wrong && !untimed && !ended) continue;
    ++f.count;
    const std::string who =
        ended ? r.value("step", "")
              : fmt::format("{} {} {}", r.value("case", ""), r.value("kernel", ""), r.value("plan", ""));
    std::string why = ended ? r.value("ended", "") : r.value("error", "the output is outside the tolerance");
    if (why.size() > kMostOfAnError) why = why.substr(0, kMostOfAnError) + " ...";
    if (f.count <= kMostRows / 10)
      f.html +=
          fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n", escaped(who), escaped(why));
  }
  if (f.count > kMostRows / 10) f.html += "<p>The first of them; the tables have all.</p>\n";
  return f;
}

std::string tile(const std::string& label, const std::string& value, const std::string& below) {
  return fmt::format("<div class=tile><span>{}</span><b>{}</b><small>{}</small></div>\n", escaped(label),
                     escaped(value), escaped(below));
}

// The fastest of each case, measured and predicted apart.
std::string tiles(const Records& sweeps) {
  std::map<std::string, std::pair<const json*, const json*>> best;  // by case: measured, predicted
  const auto us = [](const json* r) { return (*r)["us"]["median"].get<double>(); };
  const auto guess = [](const json* r) { return (*r)["predicted"].value("predicted_us", 1e300); };
  for (const json& r : sweeps) {
    if (!passed(r)) continue;
    auto& [measured, predicted] = best[r.value("case", "?")];
    if (has_time(r) && (!measured || us(&r) < us(measured))) measured = &r;
    if (r.contains("predicted") && (!predicted || guess(&r) < guess(predicted))) predicted = &r;
  }
  std::string html;
  for (const auto& [name, both] : best) {
    if (const json* r = both.first)
      html += tile(name + ", fastest measured",
                   fmt::format("{:.2f} us ({:.2f} to {:.2f})", us(r), (*r)["us"].value("p10", us(r)),
                               (*r)["us"].value("p90", us(r))),
                   r->value("kernel", "") + " " + r->value("plan", ""));
    if (const json* r = both.second)
      html += tile(name + ", fastest predicted", predicted_text((*r)["predicted"]),
                   r->value("kernel", "") + " " + r->value("plan", ""));
  }
  return html.empty() ? "" : "<div class=tiles>" + html + "</div>\n";
}

// Sections, and the links to them.
struct Body {
  std::string sections, links;

  void add(const char* id, const std::string& title, const std::string& html) {
    if (html.empty()) return;
    sections += fmt::format("<section id={}><h2>{}</h2>\n{}</section>\n", id, title, html);
    links += fmt::format("<a href='#{}'>{}</a>\n", id, title);
  }
};

std::string sweep_html(const Records& sweeps) {
  const SweepTable all = sweep_table(sweeps);
  std::string notes = run_remarks([&] {
    Records good;
    for (const json& r : sweeps)
      if (passed(r)) good.push_back(r);
    return good;
  }());
  std::string html = tiles(sweeps) + paragraph(all.common) + "<div class='charts' data-chart=sweep></div>\n" +
                     "<div class=filtered data-sweep>" + all.table.html() + "</div>\n" + paragraph(notes);
  for (const json& r : sweeps)
    if (r.contains("predicted")) {
      const json& p = r["predicted"];
      html += paragraph(fmt::format(
          "Predicted times are the model's, for {} at {:.0f} MHz, with the interval that "
          "80 % of measurements are expected in; {}.",
          p.value("machine", "?"), p.value("sm_mhz", 0.0), p.value("validation", "not validated")));
      break;
    }
  return html;
}

// What fits a page: the first rows, and how many there are.
std::string cut(Records& records) {
  if (records.size() <= kMostRows) return "";
  const std::string said =
      fmt::format("The first {} of {} are shown; fp4lab report --csv has all.", kMostRows, records.size());
  records.resize(kMostRows);
  return paragraph(said, "bad");
}

void write_page(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  std::ofstream out(part, std::ios::binary);
  out << text;
  out.close();
  if (!out || std::rename(part.c_str(), path.c_str())) {
    const int error = errno;
    std::remove(part.c_str());
    fail("{}: cannot be written: {}", path, std::strerror(error));
  }
}

void refuse_foreign(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string start(kMark.size(), ' ');
  if (in && in.peek() != EOF && (!in.read(start.data(), std::streamsize(start.size())) || start != kMark))
    fail("--html {}: the file holds something else than a page of this command; not overwritten", path);
}

}  // namespace

int write_html(const Records& all, const HtmlOptions& o) {
  refuse_overwriting(o.path, "--html", o.files);
  refuse_foreign(o.path);
  Records sweeps = of(all, {"sweep"}), runs = of(all, {"run"}), mutants = of(all, {"mutant"});
  const Records times = of(all, {"session", "limit", "time", "absent"}), predicted = of(all, {"predicted"});
  const bool timed = std::ranges::any_of(times, [](const json& r) { return section_of(r) != "session"; });
  sort_records(sweeps, o.sort);
  const Failures failed = failures(all);
  Body body;
  body.add("failures", fmt::format("{} failed", failed.count), failed.html);
  if (!sweeps.empty()) {
    const std::string said = cut(sweeps);
    body.add("sweep", "Sweep", said + sweep_html(sweeps));
  }
  if (timed) {
    body.add(
        "peers", "Beside peers",
        "<div class=grid>" + bars_html(times, predicted) +
            "</div>\n<p class=legend><i class='swatch ours'></i>ours, measured <i class='swatch peer'></i>a "
            "peer, measured <i class='swatch predicted'></i>predicted. Median us per call; the line is "
            "10 to 90 % of the samples, of a prediction its 80 % interval.</p>\n" +
            bench_summary(times).html() +
            "<p class=note>Peers: us, and in parentheses the speedup of the kernel over them.</p>\n");
    body.add("times", "All times",
             "<div class=filtered>" + bench_times(times, o.against).html() + "</div>\n" +
                 paragraph(bench_limits(times)) + paragraph(bench_remarks(times)));
  }
  const json roofs = roofline_data(sweeps, times, predicted);
  if (!roofs.empty())
    body.add(
        "roofline", "Roofline",
        "<div class=charts data-chart=roofline></div>\n<p class=note>Work over the bytes that the case "
        "moves at least (every input and output once), against the rate reached: of each case and kernel "
        "the fastest.</p>\n" +
            (std::ranges::any_of(roofs, [](const json& r) { return r["arch"] == "sm_90a"; })
                 ? paragraph("sm_90a has no FP4: its roof is fp16's; what computes in fp8 may lie above it.")
                 : ""));
  if (!runs.empty()) {
    const std::string said = cut(runs);
    Records good;
    std::ranges::copy_if(runs, std::back_inserter(good), passed);
    body.add(
        "runs", "Runs",
        said + "<div class=filtered>" + run_table(runs).html() + "</div>\n" + paragraph(run_remarks(good)));
  }
  if (!mutants.empty())
    body.add("mutants", "Mutants",
             mutate_table(mutants).html() +
                 paragraph(mutate_remarks(mutants) + survivors(mutants).substr(0, 1'000'000)));
  body.add("experiments", "Experiments", experiments_html(all));
  if (body.sections.empty())
    fail("{}: none of {} records is one that a page shows", fmt::join(o.files, ", "), all.size());
  if (o.timeline) {
    Records best = sweeps.empty() ? runs : sweeps;
    std::erase_if(best, [](const json& r) { return !passed(r); });
    if (best.empty()) fail("--timeline: no record of a sweep or a run has a plan that passed");
    body.add("timeline", "Timeline of the warps", timeline_html(best[0]));
  }

  std::string data = json_text({{"sweep", sweep_data(sweeps)}, {"roofline", roofs}});
  for (size_t at = 0; (at = data.find('<', at)) != data.npos; at += 6) data.replace(at, 1, "\\u003c");
  const std::string names = fmt::format("{}", fmt::join(o.files, ", "));
  const std::string page = fmt::format(
      "{}\n<html lang=en><head><meta charset=utf-8><title>fp4lab: {}</title>\n"
      "<meta name=viewport content='width=device-width,initial-scale=1'>\n"
      "<meta name=color-scheme content='light dark'>\n"
      // A request is not possible, whatever the page holds.
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n<link rel=icon "
      "href='data:,'>\n<style>\n{}</style></head>\n"
      "<body><header><h1>fp4lab report</h1><p>{}</p><p class=note>{} records; page made {} by {}</p>\n<nav>{}"
      "</nav></header>\n<main><section id=provenance><h2>Provenance</h2>\n{}</section>\n{}</main>\n"
      "<noscript><p>Charts, sorting and filters need JavaScript; all tables are here without "
      "it.</p></noscript>\n"
      "<script type=application/json id=data>{}</script>\n<script>\n{}</script></body></html>\n",
      kMark, escaped(names), page_style(), escaped(names), all.size(), utc_now(), escaped(command_line()),
      body.links, provenance(all).html(), body.sections, data, page_script());
  if (page.size() > kMostBytes)
    fail("the page would have {:.1f} MB, more than {} MB: give fewer files, or use --csv",
         double(page.size()) / 1e6, kMostBytes / 1'000'000);
  write_page(o.path, page);
  fmt::print("{}: {} records, {} failed, {:.0f} kB\n", o.path, all.size(), failed.count,
             double(page.size()) / 1e3);
  return 0;
}

}  // namespace fp4lab::cli
