// fp4lab experiment, fp4lab scorecard.
#include "fp4lab/experiment.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/table.h"
#include "fp4lab/error.h"
#include "fp4lab/store.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::string verb, device = "auto", records;
  std::vector<std::string> which;
  bool again = false, write = false;
};

std::vector<Experiment> chosen(const Options& o) {
  std::vector<Experiment> all;
  if (o.which.empty() || o.which == std::vector<std::string>{"all"})
    for (const std::string& path : experiment_paths()) all.push_back(read_experiment(path));
  else
    for (const std::string& name : o.which) all.push_back(find_experiment(name));
  return all;
}

// The experiment's own, or those in another folder.
std::string records_path(const Experiment& e, const Options& o) {
  return o.records.empty() ? e.records_path()
                           : (std::filesystem::path(o.records) / (e.name + ".jsonl")).string();
}
std::vector<nlohmann::json> records_of(const Experiment& e, const Options& o) {
  const std::string path = records_path(e, o);
  return std::filesystem::exists(path) ? read_records(path) : std::vector<nlohmann::json>();
}
Judgement judged(const Experiment& e, const Options& o) {
  return judge(e, records_of(e, o), e.accept.rules.empty() ? RuleSet{} : find_rules(e.accept.rules));
}

// Only where the text differs: a file's time says when it changed.
void write(const std::string& path, const std::string& text) {
  std::ifstream in(path, std::ios::binary);
  if (in && std::string(std::istreambuf_iterator<char>(in), {}) == text) return;
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) fail("{}: cannot be written", path);
}

std::string page_of(const Experiment& e, const Options& o) {
  return experiment_page(e, judged(e, o), records_of(e, o));
}

int list(const Options& o) {
  Table table({"experiment", "verdict", "written", "question"});
  for (const Experiment& e : chosen(o))
    table.add({e.name, std::string(verdict_name(judged(e, o).verdict)),
               e.retrospective ? "outcome known" : "before", e.question});
  fmt::print("{}", TableFormat().text(table));
  return 0;
}

int run(const Options& o) {
  int status = 0;
  std::set<std::string> missing;
  for (const Experiment& e : chosen(o)) {
    try {
      RunOptions how{.device = o.device, .again = o.again, .records = records_path(e, o)};
      how.progress = [](const std::string& what) { fmt::print(stderr, "{}\n", what); };
      for (const std::string& what : run_experiment(e, how)) missing.insert(what);
      const Judgement j = judged(e, o);
      fmt::print("{}  {}: {}\n", e.name, verdict_name(j.verdict), j.why);
      if (!e.needs.empty() && j.verdict == Verdict::kNotRun) fmt::print("  needs {}\n", e.needs);
      if (o.write && o.records.empty()) write(e.page_path(), page_of(e, o));
    } catch (const Error& error) {
      fmt::print(stderr, "{}: {}\n", e.name, error.what());
      status = 1;
    }
    std::fflush(stdout);
  }
  std::set<std::string> architectures;
  for (const std::string& what : missing) architectures.insert(what.substr(0, what.find(", to time")));
  for (const std::string& what : architectures)
    fmt::print("Not measured: it needs {}. Where a plan's time is needed it is predicted.\n", what);
  return status;
}

int show(const Options& o) {
  for (const Experiment& e : chosen(o)) {
    const std::string page = page_of(e, o);
    if (o.write && o.records.empty())
      write(e.page_path(), page);
    else
      fmt::print("{}\n", page);
  }
  return 0;
}

int verify(const Options& o) {
  bool good = true;
  for (const Experiment& e : chosen(o)) {
    const Registration r = fp4lab::verify(e, records_of(e, o));
    const bool fine = r.good();
    good &= fine;
    fmt::print("{}  {}{}: {}\n", fine ? "ok     " : "NOT OK ", e.name,
               e.retrospective ? " (retrospective: the outcome was known)" : "", r.text);
    for (const std::string& line : r.changed) fmt::print("    {}\n", line);
  }
  return good ? 0 : 1;
}

int start(const Options& o) {
  if (o.which.size() != 1) fail("fp4lab experiment new NAME: one name, such as more-stages");
  const std::string path = new_experiment(o.which[0]);
  fmt::print("{}\nFill it in, commit it, then: make experiment E={}\n", path,
             std::filesystem::path(path).filename().string().substr(0, 3));
  return 0;
}

const Command kExperiment{
    "experiment", "pre-registered experiments: prediction and rule first, then the verdict",
    [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("verb", o->verb, "new NAME, list, run, show or verify")
          .required()
          .one_of({"new", "list", "run", "show", "verify"});
      app.add_option("which", o->which, "experiments: numbers (001), names or files; default: all");
      app.add_option("--device", o->device, "for run: auto, emulator or cuda").capture_default_str();
      app.add_option("--records", o->records, "folder of records; default: notes/experiments/records");
      app.add_flag("--again", o->again,
                   "for run: discard earlier results and start again (the date of the first run is kept)");
      app.add_flag("--write", o->write, "for run and show: write the pages notes/experiments/NNN-name.md");
      app.examples({"fp4lab experiment new more-stages", "fp4lab experiment run 001",
                    "fp4lab experiment show 001", "fp4lab experiment verify",
                    "fp4lab experiment run all --device cuda --records h200"});
      return [o] {
        if (o->verb == "new") return start(*o);
        if (o->verb == "list") return list(*o);
        if (o->verb == "run") return run(*o);
        if (o->verb == "show") return show(*o);
        return verify(*o);
      };
    }};

const Command kScorecard{
    "scorecard", "summarise all experiments: verdicts, and predictions against outcomes", [](Arguments& app) {
      auto write_it = std::make_shared<bool>(false);
      app.add_flag("--write", *write_it, "write notes/experiments/README.md");
      app.examples({"fp4lab scorecard"});
      return [write_it] {
        std::vector<Experiment> all = chosen({});
        std::vector<Judgement> judgements;
        for (const Experiment& e : all) judgements.push_back(judged(e, {}));
        const std::string text = scorecard(all, judgements);
        if (*write_it && !all.empty())
          write((std::filesystem::path(all.front().path).parent_path() / "README.md").string(), text);
        else
          fmt::print("{}", text);
        return 0;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
