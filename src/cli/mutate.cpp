// fp4lab mutate: does the emulator notice? One synchronisation line of a kernel at a time is removed or
// altered: of a rung of this project, or of whatever kernels a program brings (fp4lab mutate -- ./program).
#include "fp4lab/mutate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/mutate_table.h"
#include "cli/mutation_subject.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/run_table.h"
#include "cli/workload.h"
#include "fp4lab/error.h"
#include "fp4lab/suggest.h"

namespace fp4lab::cli {
namespace {

struct Options {
  OneKernel kernel;
  std::string distribution = "moderate", rule;
  uint64_t seeds = 20, own_seeds = 5, every = 1, limit = 0;
  std::string sms;
  Output output;
  TableFormat format;
  bool verbose = false, markdown = false;
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

constexpr const char* kNaming[] = {"line", "near", "kind", "no"};  // by Naming

struct Item {
  const MutationSubject::Text* text;
  Mutant mutant;
};
struct Work {
  std::vector<Item> items;
  std::vector<std::string> points;
  size_t idle = 0;  // mutants of lines that this run does not execute
};

// A program is named with its folder; a shape has a '/', too.
bool is_program(const std::vector<std::string>& words) {
  return !words.empty() && words[0].find('/') != std::string::npos && words[0].find(':') == std::string::npos;
}

Work chosen_work(const Options& o, const MutationSubject& subject) {
  Work work;
  const Shard shard = o.output.shard();
  std::set<std::string> rules;
  size_t number = 0, taken = 0;
  for (const MutationSubject::Text& text : subject.texts()) {
    const std::string module =
        fmt::format("{} {:016x}", text.name, XXH3_64bits(text.ptx.data(), text.ptx.size()));
    for (Mutant& m : mutants(text.ptx)) {
      rules.insert(m.rule);
      if (!o.rule.empty() && m.rule.find(o.rule) == std::string::npos) continue;
      if (!text.executed.contains(m.line)) {
        ++work.idle;
        continue;
      }
      if (number++ % o.every || !shard.takes(taken++)) continue;
      work.points.push_back(point_of(
          "mutant", {subject.name(), module, fmt::format("line {} at {}", m.line, m.begin), m.rule, m.after,
                     fmt::format("{} seeds", o.seeds), o.distribution, o.sms.empty() ? "" : o.sms + " SMs"}));
      work.items.push_back({&text, std::move(m)});
    }
  }
  if (work.items.empty() && !o.rule.empty() && !work.idle)
    fail("--rule {}: no rule contains this{}\n  there are: {}", o.rule,
         did_you_mean(o.rule, {rules.begin(), rules.end()}), fmt::join(rules, "; "));
  if (work.items.empty())
    fail("{}: no synchronisation instruction to mutate{}", subject.name(),
         work.idle ? fmt::format("; {} such lines are not executed by this run", work.idle) : "");
  return work;
}

// What is said of the original, and which of its lines are executed: a mutant of another one shows nothing.
Sighting look_at_original(const Options& o, MutationSubject& subject) {
  Sighting own;
  for (uint64_t s = 0; s < o.own_seeds; ++s) {
    Sighting one = subject.run(nullptr, {}, s);
    if (!one.refused.empty() || !one.wrong.empty() || !one.errors.empty())
      fail("{} does not pass unchanged, with seed {}: {}", subject.name(), s,
           !one.refused.empty()  ? one.refused
           : !one.errors.empty() ? one.errors.begin()->second
                                 : one.wrong);
    own.notes.merge(one.notes);
  }
  return own;
}

nlohmann::json try_one(const Options& o, MutationSubject& subject, const Item& item, const Sighting& own) {
  const auto& [text, m] = item;
  const auto start = std::chrono::steady_clock::now();
  Verdict v = judge(subject, *text, m, o.seeds, own);
  v.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Naming named = v.outcome == "reported" ? naming(text->ptx, m, v.said) : Naming::none;
  nlohmann::json record{
      {"type", "mutant"},     {"subject", subject.name()}, {"module", text->name},       {"line", m.line},
      {"rule", m.rule},       {"before", m.before},        {"after", m.after},           {"seeds", o.seeds},
      {"outcome", v.outcome}, {"seconds", v.seconds},      {"device", "fp4lab emulator"}};
  if (v.outcome != "survived") record["seed"] = v.seed, record["said"] = v.said;
  if (v.outcome == "reported") record["named"] = kNaming[static_cast<size_t>(named)];
  if (o.verbose) {
    fmt::print("{:5}  {:37}  {:8}  {:>4}  {:5}  {:5.1f}  {}\n", m.line, m.rule, v.outcome,
               v.outcome == "survived" ? "-" : fmt::format("{}", v.seed), record.value("named", "-"),
               v.seconds, v.said.substr(0, std::min<size_t>(v.said.find('\n'), 140)));
    std::fflush(stdout);
  }
  return record;
}

int run(const Options& o) {
  const bool program = is_program(o.kernel.words);
  if (program && (!o.kernel.case_name.empty() || !o.kernel.kernel.empty() || !o.kernel.knobs.empty() ||
                  !o.kernel.ptx.empty() || o.kernel.file.given()))
    fail("{} has its own kernels: --case, --kernel, --kernel-file, --ptx and --set do not apply",
         o.kernel.words[0]);
  if (!o.sms.empty()) setenv("FP4LAB_SMS", o.sms.c_str(), 1);
  std::unique_ptr<MutationSubject> subject;
  if (program) {
    subject = program_subject(o.kernel.words);
  } else {
    const Case c = o.kernel.the_case();
    subject = kernel_subject(c, o.kernel.choose(c), find_distribution(o.distribution));
  }
  const Sighting own = look_at_original(o, *subject);
  const Work work = chosen_work(o, *subject);
  Store store =
      o.output.open(program ? std::vector<std::string>{o.kernel.words[0]} : std::vector<std::string>{});
  if (const size_t present = records_at(store.records(), work.points).size())
    fmt::print(stderr, "{} mutants already in {}\n", present, store.path());
  const auto tell = [&] {
    const Records records = records_at(store.records(), work.points);
    if (o.format.csv)
      fmt::print("{}", mutate_table(records).csv());
    else if (o.markdown)
      fmt::print("{}", mutate_markdown(records, subject->name()));
    else
      fmt::print("{}, {} seeds\n{}", subject->name(), o.seeds, o.format.text(mutate_table(records)));
    std::FILE* const out = o.format.csv ? stderr : stdout;
    fmt::print(out, "{}", mutate_remarks(records));
    if (work.idle)
      fmt::print(out, "{} mutants skipped: their lines are not executed by this run\n", work.idle);
    if (records.size() < work.items.size())
      fmt::print(out, "stopped: {} of {} mutants not tried{}\n", work.items.size() - records.size(),
                 work.items.size(), store.path().empty() ? "" : "; --resume continues");
    fmt::print(out, "{}", survivors(records));
  };
  if (o.verbose)
    fmt::print("{:>5}  {:37}  {:8}  {:>4}  {:5}  {:>5}  {}\n", "line", "rule", "outcome", "seed", "named",
               "s", "what was said");
  Progress progress("mutate", work.items.size());
  {
    const OnInterrupt interrupt(tell);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(o.limit);
    size_t done = 0;
    try {
      work_through(store, work.points, [&](size_t i) {
        if (o.limit && std::chrono::steady_clock::now() > end) return;  // given back
        progress.update(done++, work.items[i].mutant.rule);
        store.add(try_one(o, *subject, work.items[i], own), work.points[i]);
      });
    } catch (...) {
      tell();  // what was computed is not lost
      throw;
    }
  }
  tell();
  return 0;
}

const Command kCommand{
    "mutate", "mutation testing: remove or alter one synchronisation line at a time", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      o->kernel.declare(app,
                        "group, dual or gemm, with --case and --kernel; or, after --, a CUDA program (path) "
                        "and its arguments. The program must check its own results: a mutant is wrong if it "
                        "exits with another status than 0 or prints something else to stdout");
      o->kernel.declare_ptx(app);
      app.add_option("--seeds", o->seeds, "schedules per mutant; it survives if none reports it")
          .whole_number_from(1)
          .capture_default_str();
      app.add_option("--own-seeds", o->own_seeds,
                     "schedules of the unmodified kernel; its own notes are not counted for mutants")
          .whole_number_from(1)
          .capture_default_str();
      app.add_option("--dist", o->distribution, "input distribution").capture_default_str();
      app.add_option("--every", o->every, "try every N-th mutant only")
          .whole_number_from(1)
          .capture_default_str();
      app.add_option("--limit", o->limit, "seconds after which no new mutant is started; 0: no limit")
          .whole_number(0, 31'536'000)
          .capture_default_str();
      app.add_option("--sms", o->sms, "emulate only N SMs").whole_number_from(1);
      app.add_option("--rule", o->rule, "apply only rules whose name contains this");
      o->output.declare(app, true);
      o->format.declare(app);
      app.add_flag("-v,--verbose", o->verbose, "print every mutant with its report");
      app.add_flag("--markdown", o->markdown,
                   "print the total as a row of a Markdown table (notes/mutation.md)");
      app.examples(
          {"fp4lab mutate group --case group:100/128/4096 --kernel v2 --json m.json",
           "fp4lab mutate group --case group:100/128/4096 --kernel v2 --rule 'mbarrier wait removed' -v",
           "fp4lab mutate group --case group:100/128/4096 --kernel-file my.cu --like v2",
           "fp4lab mutate --seeds 5 --json m.json --resume -- ./program arguments"});
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
