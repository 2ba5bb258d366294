// fp4lab mutate: does the emulator notice? One synchronisation line of a kernel at a time is removed or
// altered: of a rung of this project, or of whatever kernels a program brings (fp4lab mutate -- ./program).
#include "fp4lab/mutate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>

#include "cli/command.h"
#include "cli/mutation_subject.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "fp4lab/error.h"
#include "fp4lab/rung.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::string arch = std::string(architectures()[0]), distribution = "moderate", rule;
  std::vector<std::string> knobs, command;
  uint64_t seeds = 20, own_seeds = 5, every = 1, limit = 0;
  std::string sms;
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

constexpr size_t kTold = 4;  // findings of a run that count as what is said: the emulator prints no fewer

struct Verdict {
  std::string outcome = "survived", said;
  uint64_t seed = 0;
  double seconds = 0;
};

Verdict judge(MutationSubject& subject, const MutationSubject::Text& text, const Mutant& m, uint64_t seeds,
              const Sighting& own) {
  // What is said that was not said of the original.
  const auto fresh = [](const std::map<std::string, std::string>& seen,
                        const std::map<std::string, std::string>& known) {
    size_t told = 0;
    std::string said;
    for (const auto& [key, what] : seen)
      if (!known.contains(key) && told++ < kTold) said += (said.empty() ? "" : "\n") + what;
    return said;
  };
  const std::string changed = m.applied(text.ptx);
  Verdict noted;  // a note does not end it: another schedule may show an error
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const Sighting s = subject.run(&text, changed, seed);
    if (!s.refused.empty()) return {"refused", s.refused, seed};
    if (const std::string said = fresh(s.errors, own.errors); !said.empty()) return {"reported", said, seed};
    if (!s.wrong.empty()) return {"wrong", s.wrong, seed};
    if (const std::string said = fresh(s.notes, own.notes); !said.empty() && noted.said.empty())
      noted = {"noted", said, seed};
  }
  return noted;
}

// What has become of the mutants.
class Tally {
 public:
  void add(std::string_view ptx, const Mutant& m, const Verdict& v, bool verbose) {
    const Naming named = v.outcome == "reported" ? naming(ptx, m, v.said) : Naming::none;
    if (verbose) {
      fmt::print("{:5}  {:37}  {:8}  {:>4}  {:5}  {:5.1f}  {}\n", m.line, m.rule, v.outcome,
                 v.outcome == "survived" ? "-" : fmt::format("{}", v.seed),
                 v.outcome == "reported" ? kNaming[static_cast<size_t>(named)] : "-", v.seconds,
                 v.said.substr(0, std::min<size_t>(v.said.find('\n'), 140)));
      std::fflush(stdout);
    }
    if (v.outcome == "refused") {  // the text is no PTX any more
      ++refused_;
      return;
    }
    Count& count = counts_[m.rule];
    ++(v.outcome == "reported" ? count.reported
       : v.outcome == "wrong"  ? count.wrong
       : v.outcome == "noted"  ? count.noted
                               : count.survived);
    if (v.outcome == "reported") ++named_[static_cast<size_t>(named)];
    if (v.outcome == "survived") survivors_.push_back(fmt::format("{:5}  {}: {}", m.line, m.rule, m.before));
  }

  void print(const Options& o, const std::string& name) const {
    Count sum;
    Table table({"rule", ">mutants", ">reported", ">wrong result", ">noted", ">survived"});
    for (const auto& [rule, n] : counts_) {
      table.add(n.cells(rule));
      sum.add(n);
    }
    table.add(sum.cells("all"));
    if (o.markdown)
      fmt::print("| {} |\n", fmt::join(sum.cells(name), " | "));
    else
      fmt::print("{}, {} seeds\n{}", name, o.seeds, table.text());
    if (sum.reported)
      fmt::print(
          "of {} reports {} name the altered line, {} an instruction next to it, {} the kind of what is "
          "missing and the lines around it; {} do none of these\n",
          sum.reported, named_[0], named_[1], named_[2], named_[3]);
    if (refused_) fmt::print("{} mutants are no PTX that can be loaded, and are left out\n", refused_);
  }

  void print_survivors() const {
    if (!survivors_.empty()) fmt::print("\nsurvivors (equivalent to the original, or missed):\n");
    for (const std::string& s : survivors_) fmt::print("{}\n", s);
  }

 private:
  static constexpr const char* kNaming[] = {"line", "near", "kind", "no"};  // by Naming
  std::map<std::string, Count> counts_;
  std::vector<std::string> survivors_;
  std::array<size_t, 4> named_{};
  size_t refused_ = 0;
};

int run(const Options& o) {
  const bool program = o.command[0].find('/') != o.command[0].npos;
  if (!program && o.command.size() != 2)
    fail(
        "fp4lab mutate KERNEL CASE, or fp4lab mutate -- ./program arguments (a program is named with its "
        "folder)");
  if (!o.sms.empty()) setenv("FP4LAB_SMS", o.sms.c_str(), 1);
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
  size_t idle = 0, done = 0;
  std::vector<std::pair<const MutationSubject::Text*, Mutant>> all;
  for (const MutationSubject::Text& text : subject->texts())
    for (Mutant& m : mutants(text.ptx)) {
      if (!o.rule.empty() && m.rule.find(o.rule) == std::string::npos) continue;
      if (text.executed.contains(m.line))
        all.emplace_back(&text, std::move(m));
      else
        ++idle;
    }
  Tally tally;
  if (o.verbose)
    fmt::print("{:>5}  {:37}  {:8}  {:>4}  {:5}  {:>5}  {}\n", "line", "rule", "outcome", "seed", "named",
               "s", "what was said");
  Progress progress("mutate", all.size());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(o.limit);
  for (size_t k = 0; k < all.size(); k += o.every) {
    if (o.limit && std::chrono::steady_clock::now() > end) {
      fmt::print("the last {} of {} mutants are left out: no time\n", (all.size() - k) / o.every,
                 all.size() / o.every);
      break;
    }
    const auto& [text, m] = all[k];
    progress.update(done += o.every, m.rule);
    const auto start = std::chrono::steady_clock::now();
    Verdict v = judge(*subject, *text, m, o.seeds, own);
    v.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    tally.add(text->ptx, m, v, o.verbose);
  }
  tally.print(o, subject->name());
  if (idle) fmt::print("{} mutants of lines that this run does not execute are left out\n", idle);
  tally.print_survivors();
  return 0;
}

const Command kCommand{
    "mutate",
    "remove or alter one synchronisation line at a time and see whether the emulator notices: fp4lab mutate "
    "KERNEL CASE, or fp4lab mutate -- ./program arguments",
    [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option(
             "command", o->command,
             "a rung and a small case or shape; or, behind --, a CUDA program with its arguments that "
             "checks its own results: wrong is when its exit status is not 0, or it writes something "
             "else to stdout")
          .required();
      app.add_option("--seeds", o->seeds, "schedules to try before a mutant counts as a survivor")
          .whole_number_from(1)
          .capture_default_str();
      app.add_option("--own-seeds", o->own_seeds,
                     "schedules of the original: what the checkers note in them is its own, not a mutant's")
          .whole_number_from(1)
          .capture_default_str();
      app.add_option("--dist", o->distribution, "of the numbers").capture_default_str();
      app.add_option("--every", o->every, "only every so many-th mutant: a sample")
          .whole_number_from(1)
          .capture_default_str();
      app.add_option("--limit", o->limit, "seconds after which no further mutant is begun; 0: none")
          .capture_default_str();
      app.add_option("--sms", o->sms, "only so many SMs, see fp4lab emulate").whole_number_from(1);
      app.add_option("--rule", o->rule, "only rules whose name contains this");
      app.add_option("--arch", o->arch, "sm_100a or sm_90a, of a rung").capture_default_str();
      app.add_option("--set", o->knobs, "a knob of the plan, as stages=4; may be repeated");
      app.add_flag("-v,--verbose", o->verbose, "every mutant, and what was said of it");
      app.add_flag("--markdown", o->markdown, "the sum as a row of a table, as notes/mutation.md has them");
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
