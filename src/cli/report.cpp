// fp4lab report: tables of records, whatever command left them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "cli/bench_table.h"
#include "cli/command.h"
#include "cli/mutate_table.h"
#include "cli/run_table.h"
#include "fp4lab/error.h"
#include "fp4lab/store.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string sort, against = "cublas-fp16";
  TableFormat format;
};

// Old sweeps and runs have no type.
std::string type_of(const nlohmann::json& r) {
  return r.value("type", r.contains("us") ? "sweep" : r.contains("plan") ? "run" : "unknown");
}

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

// When and with what: of the first and the last record.
std::string provenance(const Records& records, const TableFormat& format) {
  const auto text = [](const nlohmann::json& r, const char* field) {
    return r.value(field, std::string("?"));
  };
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

int run(const Options& o) {
  Records all;
  for (const std::string& path : o.files)
    for (auto& r : read_records(path)) all.push_back(std::move(r));
  bool told = false;
  const auto tell = [&](const std::string& text) {
    fmt::print("{}{}", told && !o.format.csv ? "\n" : "", text);
    told = true;
  };
  if (const Records runs = of_type(all, {"run"}); !runs.empty())
    tell((o.format.csv ? "" : provenance(runs, o.format)) + o.format.text(run_table(runs)) +
         (o.format.csv ? "" : run_remarks(runs)));
  if (Records sweeps = of_type(all, {"sweep"}); !sweeps.empty()) {
    const std::string when = provenance(sweeps, o.format);
    sort_records(sweeps, o.sort);
    const SweepTable sweep = sweep_table(sweeps, o.format.csv);
    tell(o.format.csv
             ? sweep.table.csv()
             : when + o.format.folded(sweep.common) + o.format.text(sweep.table) + run_remarks(sweeps));
  }
  if (const Records mutants = of_type(all, {"mutant"}); !mutants.empty())
    tell((o.format.csv ? "" : provenance(mutants, o.format)) + o.format.text(mutate_table(mutants)) +
         (o.format.csv ? "" : mutate_remarks(mutants) + survivors(mutants)));
  if (const Records times = of_type(all, {"session", "limit", "time", "absent"});
      std::ranges::any_of(times, [](const auto& r) { return type_of(r) != "session"; }))
    tell(bench_report(times, o.against, o.format));
  if (!told)
    fail("{}: none of {} records is one that a table is made of", fmt::join(o.files, ", "), all.size());
  return 0;
}

const Command kCommand{
    "report", "tables of the records that run, sweep, bench and mutate left (--json)", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("file", o->files, "files of records").required();
      app.add_option("--sort", o->sort, "of sweeps, see fp4lab sweep");
      app.add_option("--against", o->against, "of bench: the peer of the ratio column").capture_default_str();
      o->format.declare(app);
      app.examples({"fp4lab report s.json", "fp4lab report s.json r.json --csv"});
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
