// fp4lab mutate: does the emulator notice? One synchronisation line of a kernel at a time is removed or
// altered: of a rung of this project, or of whatever kernels a program brings (fp4lab mutate -- ./program).
#include "fp4lab/mutate.h"

#include <algorithm>
#include <map>

#include "cli/command.h"
#include "cli/mutation_subject.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "fp4lab/rung.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::string arch = std::string(architectures()[0]), distribution = "moderate", rule;
  std::vector<std::string> knobs, command;
  uint64_t seeds = 20, own_seeds = 5;
  bool verbose = false, markdown = false;
};

struct Count {
  size_t reported = 0, wrong = 0, noted = 0, survived = 0;
  size_t all() const { return reported + wrong + noted + survived; }
  void add(const Count& o) {
    reported += o.reported, wrong += o.wrong, noted += o.noted, survived += o.survived;
  }
  std::vector<std::string> cells(const std::string& name) const {
    return {name,
            fmt::format("{}", all()),
            fmt::format("{}", reported),
            fmt::format("{}", wrong),
            fmt::format("{}", noted),
            fmt::format("{}", survived)};
  }
};

struct Verdict {
  std::string outcome = "survived", said;
  uint64_t seed = 0;
};

Verdict judge(MutationSubject& subject, const MutationSubject::Text& text, const Mutant& m, uint64_t seeds,
              const Sighting& own) {
  Verdict v;
  const std::string changed = m.applied(text.ptx);
  for (; v.seed < seeds; ++v.seed) {
    const Sighting s = subject.run(&text, changed, v.seed);
    if (!s.refused.empty()) return {"refused", s.refused, v.seed};
    const auto fresh = [&](const std::map<std::string, std::string>& seen,
                           const std::map<std::string, std::string>& known) {
      for (const auto& [key, what] : seen)
        if (!known.contains(key)) {
          v.said = what;
          return true;
        }
      return false;
    };
    if (fresh(s.errors, own.errors)) return v.outcome = "reported", v;
    if (!s.wrong.empty()) return v.outcome = "wrong", v.said = s.wrong, v;
    if (fresh(s.notes, own.notes)) return v.outcome = "noted", v;
  }
  return v;
}

int run(const Options& o) {
  const bool program = o.command[0].find('/') != o.command[0].npos;
  if (!program && o.command.size() != 2)
    fail(
        "fp4lab mutate KERNEL CASE, or fp4lab mutate -- ./program arguments (a program is named with its "
        "folder)");
  const auto subject = program
                           ? program_subject(o.command)
                           : kernel_subject({o.arch, o.command[0], o.command[1], o.distribution, o.knobs});
  // What is said of the original, and which of its lines are executed: a mutant of another one shows nothing.
  Sighting own;
  for (uint64_t s = 0; s < std::max<uint64_t>(o.own_seeds, 1); ++s) {
    Sighting one = subject->run(nullptr, {}, s);
    if (!one.refused.empty() || !one.wrong.empty() || !one.errors.empty())
      fail("{} does not pass unchanged, with seed {}: {}", subject->name(), s,
           !one.refused.empty()  ? one.refused
           : !one.errors.empty() ? one.errors.begin()->second
                                 : one.wrong);
    own.notes.merge(one.notes);
  }
  std::map<std::string, Count> counts;
  std::vector<std::string> survivors;
  Table details({">line", "rule", "outcome", ">seed", "what was said"});
  size_t idle = 0, refused = 0, done = 0, named = 0;
  std::vector<std::pair<const MutationSubject::Text*, Mutant>> all;
  for (const MutationSubject::Text& text : subject->texts())
    for (Mutant& m : mutants(text.ptx)) {
      if (!o.rule.empty() && m.rule.find(o.rule) == std::string::npos) continue;
      if (text.executed.contains(m.line))
        all.emplace_back(&text, std::move(m));
      else
        ++idle;
    }
  Progress progress("mutate", all.size());
  for (const auto& [text, m] : all) {
    progress.update(done++, m.rule);
    const Verdict v = judge(*subject, *text, m, o.seeds, own);
    if (v.outcome == "refused") {  // the text is no PTX any more
      ++refused;
    } else {
      Count& count = counts[m.rule];
      ++(v.outcome == "reported" ? count.reported
         : v.outcome == "wrong"  ? count.wrong
         : v.outcome == "noted"  ? count.noted
                                 : count.survived);
    }
    if (v.outcome == "reported") named += names_line(v.said, m.line);
    if (v.outcome == "survived") survivors.push_back(fmt::format("{:5}  {}: {}", m.line, m.rule, m.before));
    details.add({fmt::format("{}", m.line), m.rule, v.outcome,
                 v.outcome == "survived" ? "-" : fmt::format("{}", v.seed),
                 v.said.substr(0, std::min<size_t>(v.said.find('\n'), 140))});
  }
  if (o.verbose) fmt::print("{}\n", details.text());
  Count sum;
  Table table({"rule", ">mutants", ">reported", ">wrong result", ">noted", ">survived"});
  for (const auto& [rule, n] : counts) {
    table.add(n.cells(rule));
    sum.add(n);
  }
  table.add(sum.cells("all"));
  if (o.markdown)
    fmt::print("| {} |\n", fmt::join(sum.cells(subject->name()), " | "));
  else
    fmt::print("{}, {} seeds\n{}", subject->name(), o.seeds, table.text());
  if (sum.reported) fmt::print("{} of {} reports name the altered line\n", named, sum.reported);
  if (idle) fmt::print("{} mutants of lines that this run does not execute are left out\n", idle);
  if (refused) fmt::print("{} mutants are no PTX that can be loaded, and are left out\n", refused);
  if (!survivors.empty()) fmt::print("\nsurvivors (equivalent to the original, or missed):\n");
  for (const std::string& s : survivors) fmt::print("{}\n", s);
  return 0;
}

const Command kCommand{
    "mutate",
    "remove or alter one synchronisation line at a time and see whether the emulator notices: fp4lab mutate "
    "KERNEL CASE, or fp4lab mutate -- ./program arguments",
    [](CLI::App& app) {
      auto o = std::make_shared<Options>();
      app.add_option(
             "command", o->command,
             "a rung and a small case or shape; or, behind --, a CUDA program with its arguments that "
             "checks its own results: wrong is when its exit status is not 0, or it writes something "
             "else to stdout")
          ->required();
      app.add_option("--seeds", o->seeds, "schedules to try before a mutant counts as a survivor")
          ->capture_default_str();
      app.add_option("--own-seeds", o->own_seeds,
                     "schedules of the original: what the checkers note in them is its own, not a mutant's")
          ->capture_default_str();
      app.add_option("--dist", o->distribution, "of the numbers")->capture_default_str();
      app.add_option("--rule", o->rule, "only rules whose name contains this");
      app.add_option("--arch", o->arch, "sm_100a or sm_90a, of a rung")->capture_default_str();
      app.add_option("--set", o->knobs, "a knob of the plan, as stages=4; may be repeated");
      app.add_flag("-v,--verbose", o->verbose, "every mutant, and what was said of it");
      app.add_flag("--markdown", o->markdown, "the sum as a row of a table, as notes/mutation.md has them");
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
