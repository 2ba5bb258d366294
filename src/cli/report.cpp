// fp4lab report: tables of records, whatever command left them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "cli/bench_table.h"
#include "cli/command.h"
#include "cli/html/page.h"
#include "cli/mutate_table.h"
#include "cli/record_files.h"
#include "cli/run_table.h"
#include "cli/select.h"
#include "cli/versus.h"
#include "cli/workload.h"
#include "fp4lab/error.h"
#include "fp4lab/store.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::vector<std::string> files, where;
  std::string sort, html;
  unsigned top = 0;
  bool timeline = false;
  BenchView bench;
  TableFormat format;
};

Records of_type(const Records& all, std::initializer_list<const char*> types) {
  Records some;
  for (const auto& r : all)
    if (std::ranges::find(types, type_of(r)) != types.end()) some.push_back(r);
  return some;
}

// The commit by its first 12 digits, and what is said behind them.
std::string abbreviated(const std::string& commit) {
  const size_t digits = std::min(commit.find_first_not_of("0123456789abcdef"), commit.size());
  return commit.substr(0, std::min<size_t>(digits, 12)) + commit.substr(digits);
}

// When and with what, in the order of time.
std::string provenance(Records records, const TableFormat& format) {
  const auto text = [](const nlohmann::json& r, const char* field) {
    return r.value(field, std::string("?"));
  };
  std::ranges::stable_sort(records, {}, [&](const auto& r) { return text(r, "date"); });
  const auto &first = records.front(), &last = records.back();
  if (!first.contains("date")) return "";
  std::string line = text(first, "date");
  if (text(last, "date") != text(first, "date")) line += " to " + text(last, "date");
  std::vector<std::string> commits;
  for (const auto& r : records)
    if (const std::string commit = abbreviated(text(r, "commit"));
        std::ranges::find(commits, commit) == commits.end())
      commits.push_back(commit);
  return format.folded(fmt::format("{}, commit {}\n", line, fmt::join(commits, " and ")));
}

// The first of each case, sorted where that was asked for.
Records chosen(Records records, const Options& o, bool sorted) {
  if (sorted) sort_records(records, o.sort);
  return first_of_each_case(records, o.top);
}

int run(const Options& o) {
  Records all;
  for (const std::string& path : o.files)
    for (auto& r : read_record_file(path)) all.push_back(std::move(r));
  Records none;
  sort_records(none, o.sort);  // refuses what is not known
  all = records_where(all, o.where);
  if (o.timeline && o.html.empty()) fail("--timeline needs --html PAGE");
  if (!o.html.empty() && (o.top || o.format.csv))
    fail("--html {}: a page shows all records that --where leaves, without --top and --csv", o.html);
  if (!o.html.empty()) return write_html(all, {o.html, o.sort, o.bench.against, o.files, o.timeline});
  bool told = false;
  const auto tell = [&](const std::string& text) {
    fmt::print("{}{}", told && !o.format.csv ? "\n" : "", text);
    told = true;
  };
  if (const Records runs = chosen(of_type(all, {"run"}), o, !o.sort.empty()); !runs.empty())
    tell((o.format.csv ? "" : provenance(runs, o.format)) + o.format.text(run_table(runs)) +
         (o.format.csv ? "" : run_remarks(runs)));
  if (const Records sweeps = chosen(of_type(all, {"sweep"}), o, true); !sweeps.empty()) {
    const SweepTable sweep = sweep_table(sweeps, o.format.csv);
    tell(o.format.csv ? sweep.table.csv()
                      : provenance(sweeps, o.format) + o.format.folded(sweep.common) +
                            o.format.text(sweep.table) + run_remarks(sweeps));
  }
  if (const Records mutants = chosen(of_type(all, {"mutant"}), o, false); !mutants.empty())
    tell((o.format.csv ? "" : provenance(mutants, o.format)) + o.format.text(mutate_table(mutants)) +
         (o.format.csv ? "" : mutate_remarks(mutants) + survivors(mutants)));
  for (const Records& some : by_basis(chosen(of_type(all, {"comparison"}), o, false)))
    tell((o.format.csv ? "" : provenance(some, o.format)) + o.format.text(comparison_table(some, true)));
  if (const Records times = of_type(all, {"session", "limit", "time", "absent"});
      std::ranges::any_of(times, [](const auto& r) { return type_of(r) != "session"; })) {
    if (!told && !o.sort.empty() && o.sort != "time" && o.sort != "order")
      fail("--sort {}: records of bench are sorted by time or order", o.sort);
    tell(bench_report(times, {o.bench.against, o.sort, o.top}, o.format));
  }
  if (!told) fail("{}: none of {} records can be shown in a table", fmt::join(o.files, ", "), all.size());
  return 0;
}

const Command kCommand{
    "report", "print tables (or an HTML page) of the records that --json wrote", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("file", o->files, "files of records").required();
      app.add_option("--sort", o->sort,
                     "sort: for sweeps and runs see fp4lab sweep; for bench: order or time");
      add_list(app, "--where", o->where,
               "only records with this knob or field, e.g. stages=4, kernel=v2 or case=g2k1536; repeatable");
      app.add_option("--top", o->top, "only the first N rows of each case").whole_number_from(1);
      app.add_option("--against", o->bench.against, "for bench: the peer that the ratio column divides by")
          .capture_default_str();
      app.add_option("--html", o->html,
                     "write a self-contained HTML page instead: charts, sortable tables, failures, "
                     "provenance of each figure");
      app.add_flag("--timeline", o->timeline,
                   "with --html: run the best plan on the emulator and show a timeline of its warps");
      o->format.declare(app);
      app.examples({"fp4lab report s.json", "fp4lab report s.json r.json --csv",
                    "fp4lab report s.json --where kernel=v2 --where stages=4 --sort time --top 5",
                    "fp4lab report s.json --html s.html --timeline",
                    "fp4lab report notes/experiments/records/*.jsonl --html experiments.html"});
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
