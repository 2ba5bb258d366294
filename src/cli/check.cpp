// fp4lab check: a small PTX program with its launch in comments, and its broken twins, under the checkers.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "fp4lab/check_program.h"
#include "fp4lab/error.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::string file, twin;
  uint64_t seeds = 20;
};

// Twins are chosen by name, by line, or all of them.
bool chosen(const CheckTwin& t, const std::string& which) {
  return which == "all" || (!t.name.empty() && t.name == which) || std::to_string(t.line) == which;
}

int run(const Options& o) {
  const CheckProgram p = read_check_program(o.file);
  const Device device = Device::open("emulator", p.arch);
  bool all_silent = true;
  const auto try_seeds = [&](const std::string& ptx) {
    for (uint64_t seed = 0; seed < o.seeds; ++seed) {
      const CheckOutcome outcome = run_check_program(device, p, ptx, seed);
      if (outcome.ok && outcome.notes.empty()) continue;
      all_silent = false;
      fmt::print("schedule {}:\n{}{}\n", seed, outcome.report, outcome.notes);
      return;
    }
    fmt::print("silent under {} schedules\n", o.seeds);
  };
  if (o.twin.empty()) {
    try_seeds(p.ptx);
    for (const CheckTwin& t : p.twins)
      fmt::print("  --twin {}: {} {}\n", t.name.empty() ? std::to_string(t.line) : "'" + t.name + "'",
                 t.now.empty() ? "without" : t.now + "  in place of", t.was);
    return all_silent ? 0 : 1;
  }
  bool any = false;
  for (const CheckTwin& t : p.twins) {
    if (!chosen(t, o.twin)) continue;
    any = true;
    fmt::print("{}:{}: {}{}\n", p.path.filename().string(), t.line,
               t.now.empty() ? "without " : t.now + "  in place of ", t.was);
    try_seeds(t.ptx);
  }
  if (!any) fail("{} has no twin '{}'; without --twin they are listed", o.file, o.twin);
  return all_silent ? 0 : 1;
}

const Command kCommand{
    "check", "run a small PTX program under the checkers, or a twin with one known bug", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("file", o->file, "a PTX file with launch directives in comments: tests/check/README.md")
          .required();
      app.add_option("--twin", o->twin, "run a twin instead: a name, a line, or 'all'");
      app.add_option("--schedules", o->seeds, "schedules of asynchronous operations to try")
          .whole_number_from(1)
          .capture_default_str();
      app.examples(
          {"fp4lab check tests/check/bulk_load.ptx", "fp4lab check tests/check/bulk_load.ptx --twin all"});
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
