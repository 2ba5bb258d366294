// fp4lab sweep: many plans of a case, or those that a search chooses, each compiled, run and verified.
#include "fp4lab/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/run_table.h"
#include "cli/timed.h"
#include "cli/workload.h"
#include "fp4lab/bench.h"
#include "fp4lab/error.h"
#include "fp4lab/model.h"
#include "fp4lab/record.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::string operation, kernels = "default", sort, search = "grid";
  std::vector<std::string> case_names;
  Target target;
  Numbers numbers;
  Conditions conditions;
  KernelFile file;
  Output output;
  TableFormat format;
  std::map<std::string, std::optional<std::string>> axes;  // by knob
  Timed timed{.timing = {.repeats = 15}};
  unsigned best = 0;  // points of a case that the model holds for the fastest; 0: all
  StopRules rules;    // points and patience of each case, seconds of all
  uint64_t search_seed = 1;

  bool grid() const { return search == "grid"; }
  TimingOptions quick() const {
    TimingOptions few = timed.options();
    few.repeats = std::min(few.repeats, std::max(3, few.repeats / 4));
    return few;
  }
};

// The legal points of a case, and in which order a search looks at those of this shard.
struct Space {
  Case spec;
  SweepPoints points;
  std::vector<size_t> order;
};
struct Work {
  std::vector<Space> spaces;
  std::vector<std::string> swept;  // knobs
  size_t items = 0;                // points of this shard
};

std::vector<size_t> first_order(const Options& o, const Device& device, const SweepPoints& points,
                                const Case& c) {
  // On the emulator the model is the objective: what begins with its best would have nothing left to find.
  if (o.search == "halving" || (o.search == "local" && !device.is_emulator()))
    return order_by_prediction(points.legal, c);
  if (!o.grid()) return shuffled(points.legal.size(), o.search_seed);
  std::vector<size_t> order(points.legal.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  return order;
}

// The legal points of this shard; says how many there are of each sort. Fails when none is.
Work points_to_run(const Options& o, const Device& device) {
  const std::string_view arch = arch_of(device);
  Work work;
  std::vector<Axis> axes;
  for (const auto& [knob, values] : o.axes)
    if (values) axes.push_back(parse_axis(knob, *values));
  for (const Axis& axis : axes)
    if (axis.values.size() > 1) work.swept.push_back(axis.knob);
  for (const std::string& knob : o.conditions.knobs) {
    const size_t equal = std::min(knob.find('='), knob.size());
    if (equal == knob.size()) fail("--set {}: expected knob=value", knob);
    axes.push_back({knob.substr(0, equal), {knob.substr(equal + 1)}});
  }
  const Shard shard = o.output.shard();
  size_t total = 0, legal = 0;
  std::map<std::string, std::pair<size_t, std::string>> dropped;
  for (const Case& c : chosen_cases(o.case_names, o.operation, "sweep")) {
    SweepPoints points = sweep_points(c, chosen_rungs(arch, op_of(c.operation), o.kernels, o.file), axes);
    total += points.total;
    for (const auto& [rule, count] : points.dropped) {
      auto& [sum, example] = dropped[rule];
      sum += count;
      if (example.empty()) example = points.example[rule];
    }
    if (o.best) {
      std::vector<size_t> order = order_by_prediction(points.legal, c);
      order.resize(std::min<size_t>(order.size(), o.best));
      points.keep(order);
    }
    for (Candidate& candidate : points.legal) o.file.put_into(candidate);
    std::vector<size_t> mine;
    for (const size_t point : first_order(o, device, points, c))
      if (shard.takes(legal++)) mine.push_back(point);
    work.items += mine.size();
    work.spaces.push_back({c, std::move(points), std::move(mine)});
  }
  std::FILE* const out = o.format.csv ? stderr : stdout;
  fmt::print(out, "{} points, {} legal{}\n", total, legal,
             shard.count > 1 ? fmt::format(", {} of them in shard {}", work.items, shard.text()) : "");
  for (const auto& [rule, what] : dropped)
    fmt::print(
        out, "{}",
        fitted(fmt::format("  {} dropped by rule '{}', for instance {}\n", what.first, rule, what.second)));
  if (!legal) {
    std::fflush(stdout);
    fail("no point of this sweep is legal: nothing to run");
  }
  return work;
}

// What a case needs on the device; on a GPU also what times it.
struct Bench {
  Trial trial;
  std::optional<InputSets> sets;

  Bench(const Options& o, const Device& device, const Case& c)
      : trial(device, c, o.numbers.of(c.operation), o.numbers.seed) {
    if (!device.is_emulator())
      sets.emplace(device, c, o.numbers.of(c.operation), o.numbers.seed, o.timed.sets);
  }
};

// Each point that the search asks for is compiled, verified, on a GPU timed, and recorded at once. What it
// came to is read from its record, whoever left it: a search that goes on with a file goes the way it went.
class Sweep {
 public:
  Sweep(const Options& o, const Device& device, const Work& work, Store& store)
      : o_(o), device_(device), work_(work), store_(store) {
    if (device.is_emulator()) return;
    careful_.emplace(device, o.timed.options()), nvml_.emplace(device);
    if (o.search == "halving") quick_.emplace(device, o.quick());
  }

  void run() {
    if (o_.grid() && !o_.rules.any()) return whole_grid();
    const Clock::time_point begin = Clock::now();
    for (size_t i = 0; i < work_.spaces.size(); ++i) {
      const Space& space = work_.spaces[i];
      StopRules rules = o_.rules;
      if (rules.seconds > 0) {  // what is left, in equal parts
        const double left = rules.seconds - std::chrono::duration<double>(Clock::now() - begin).count();
        rules.seconds = std::max(left / double(work_.spaces.size() - i), 1e-3);
        ends_at_ = Clock::now() +
                   std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(rules.seconds));
      }
      if (!rules.any()) rules.points = (space.order.size() + 2) / 3;
      const size_t all = o_.search == "local" ? space.points.legal.size() : space.order.size();
      Progress progress("sweep", rules.points ? std::min(rules.points, all) : all, rules.seconds);
      progress_ = &progress, done_ = 0, least_ = std::numeric_limits<double>::infinity();
      const auto strategy = o_.search == "local"
                                ? local_search(space.points.lattice, space.order, o_.search_seed)
                            : o_.search == "halving" ? halving_search(space.order)
                                                     : ordered_search(space.order);
      SearchEnd end = search(*strategy, space.points.legal.size(), rules,
                             [&](const std::vector<size_t>& points, bool careful, std::span<double> known) {
                               std::vector<Item> items;
                               for (const size_t p : points) items.push_back({&space, p});
                               const std::vector<double> us = evaluate(items, careful || !quick_);
                               for (size_t j = 0; j < points.size(); ++j)
                                 if (!std::isnan(us[j])) known[points[j]] = us[j];
                             });
      progress_ = nullptr;
      if (end.stopped.starts_with("--seconds"))  // as it was given, not this case's part
        end.stopped = fmt::format("--seconds {:g}", o_.rules.seconds);
      const std::lock_guard lock(mutex_);
      ends_ += told(space, end);
    }
  }

  // What there is now: from another thread, too.
  Records records() const {
    const std::lock_guard lock(mutex_);
    return records_at(store_.records(), tried_);
  }
  std::string ends() const {
    const std::lock_guard lock(mutex_);
    return ends_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Item {
    const Space* space;
    size_t point;
    const Candidate& candidate() const { return space->points.legal[point]; }
  };

  // All cases in one: processes that share the file never wait for each other before the end.
  void whole_grid() {
    std::vector<Item> items;
    for (const Space& space : work_.spaces)
      for (const size_t point : space.order) items.push_back({&space, point});
    Progress progress("sweep", items.size());
    progress_ = &progress;
    evaluate(items, true);
    progress_ = nullptr;
  }

  std::string id_of(const Item& item, bool careful) const {
    std::string how = o_.conditions.text();
    if (!careful) how += fmt::format("{}{} samples", how.empty() ? "" : ", ", o_.quick().repeats);
    const Case& c = item.space->spec;
    return point_of_run("sweep", device_, c, item.candidate(), o_.numbers.of(c.operation), o_.numbers.seed,
                        how);
  }

  // The time of each; NaN where there was no time for it.
  std::vector<double> evaluate(const std::vector<Item>& items, bool careful) {
    std::vector<std::string> ids;
    std::vector<jit::Job> jobs;
    for (const Item& item : items) {
      ids.push_back(id_of(item, careful));
      if (!store_.contains(ids.back())) jobs.push_back(job_of(item.candidate()));
    }
    {
      const std::lock_guard lock(mutex_);
      tried_.insert(tried_.end(), ids.begin(), ids.end());
    }
    compile(jobs);
    size_t here = 0;
    work_through(store_, ids, [&](size_t i) {
      const bool finalist = careful && quick_;  // those are few, and decide
      if (!finalist && o_.rules.seconds > 0 && Clock::now() >= ends_at_) return;
      progress_->update(done_ + here++, best_text() + text_of(items[i].candidate()));
      measure(items[i], careful, ids[i]);
    });
    done_ += items.size();
    std::map<std::string, nlohmann::json> found;
    for (const nlohmann::json& r : records_at(store_.records(), ids)) found.emplace(r.at("point"), r);
    std::vector<double> us;
    for (size_t i = 0; i < items.size(); ++i) {
      const auto record = found.find(ids[i]);
      us.push_back(record == found.end() ? std::nan("") : objective(record->second));
      if (us.back() < least_) least_ = us.back(), best_ = text_of(items[i].candidate());
    }
    return us;
  }

  // For the progress line; a whole grid has no best of all its cases.
  std::string best_text() const {
    return std::isfinite(least_) ? fmt::format("best {:.2f} us {}; now ", least_, best_) : "";
  }

  void compile(const std::vector<jit::Job>& jobs) {
    Progress progress("compile", jobs.size());
    jit::compile_all(jobs, 0, [&](size_t done, size_t, size_t, const jit::Outcome&) {
      progress.update(done, best_text());
    });
  }

  void measure(const Item& item, bool careful, const std::string& id) {
    const Candidate& candidate = item.candidate();
    if (bench_of_ != item.space) {
      bench_.reset();  // frees the last case's memory first
      bench_ = std::make_unique<Bench>(o_, device_, item.space->spec), bench_of_ = item.space;
    }
    nlohmann::json record = record_of(run_trial(device_, bench_->trial, candidate, o_.conditions.schedules));
    if (careful_ && record.value("passed", false))
      record.update(time_fields(measure_kernel(careful ? *careful_ : *quick_, *nvml_, *bench_->sets,
                                               candidate, LaunchChoice::kBest)));
    record["predicted"] = record_of(predict(candidate, item.space->spec));
    record["type"] = "sweep", record["swept"] = work_.swept;
    const bool good = passed(record);
    store_.add(std::move(record), id);
    // A kernel that faulted spoils a GPU's context: no later point could be told from it.
    if (careful_ && !good) device_.synchronize();
  }

  // Microseconds, measured or on the emulator predicted; a point that failed is none to be chosen.
  double objective(const nlohmann::json& r) const {
    const nlohmann::json us = device_.is_emulator()
                                  ? r.value("predicted", nlohmann::json()).value("us", nlohmann::json())
                              : has_time(r) ? r["us"]["median"]
                                            : nlohmann::json();
    return passed(r) && us.is_number() ? us.get<double>() : std::numeric_limits<double>::infinity();
  }

  // The rung and the knobs that are swept: the rest is the same for all.
  std::string text_of(const Candidate& candidate) const {
    std::string text(candidate.rung->name);
    for (const auto& [knob, value] : knob_values(candidate))
      if (std::ranges::find(work_.swept, knob) != work_.swept.end())
        text += fmt::format(" {}={}", knob, value);
    return text;
  }

  std::string told(const Space& space, const SearchEnd& end) const {
    const std::string where = fmt::format("{} of {} points tried, stopped by: {}\n", end.tried,
                                          space.points.legal.size(), end.stopped);
    if (!end.best)
      return fmt::format("{}: {}{}", space.spec.name, end.tried ? "no point passed; " : "", where);
    const Candidate& best = space.points.legal[*end.best];
    return fmt::format("{}: best {} {:.2f} us: {} {}; {}", space.spec.name,
                       device_.is_emulator() ? "predicted" : "measured", end.us, best.rung->name,
                       plan_line(best), where);
  }

  const Options& o_;
  const Device& device_;
  const Work& work_;
  Store& store_;
  std::optional<Timer> careful_, quick_;  // on a GPU
  std::optional<Nvml> nvml_;
  std::unique_ptr<Bench> bench_;
  const Space* bench_of_ = nullptr;
  Progress* progress_ = nullptr;
  size_t done_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
  std::string best_;
  Clock::time_point ends_at_;
  mutable std::mutex mutex_;
  std::vector<std::string> tried_;
  std::string ends_;
};

// For what machine and clock, and how sure: as the first record has it.
std::string predicted_for(const Records& records) {
  if (records.empty() || !records[0].contains("predicted")) return "";
  const nlohmann::json& p = records[0]["predicted"];
  return fmt::format("predicted us: for {} at {:.0f} MHz, the first one {:.2f} to {:.2f} (80 %), {}.",
                     p.value("machine", "?"), p.value("sm_mhz", 0.0), p.value("interval_low_us", 0.0),
                     p.value("interval_high_us", 0.0), p.value("validation", "?"));
}

int run(const Options& o) {
  const Device device = open_for_kernels(o.target.device, o.target.arch);
  Records none;
  sort_records(none, o.sort);  // refuses what is not known
  if (o.sort == "time" && device.is_emulator())
    fail("--sort time: only a GPU has times; the device is {}", device.name());
  o.conditions.prepare(device);
  if (o.rules.seconds < 0) fail("--seconds {:g}: must be above 0", o.rules.seconds);
  const Work work = points_to_run(o, device);
  Store store = o.output.open(device, {o.file.path});
  if (const size_t there = store.records().size())
    fmt::print(stderr, "{} points already in {}\n", there, store.path());
  std::FILE* const out = o.format.csv ? stderr : stdout;
  if (!o.grid())
    fmt::print(
        out, "{}",
        fitted(fmt::format("search {}{}: {}\n", o.search,
                           o.search == "halving" ? "" : fmt::format(", seed {}", o.search_seed),
                           device.is_emulator()
                               ? "for the smallest predicted time; each point that is tried is verified"
                               : "for the smallest measured time")));
  Sweep sweep(o, device, work, store);
  const auto print_rows = [&] {
    Records records = sweep.records();
    sort_records(records, o.sort);
    if (!records.empty()) {
      const SweepTable table = sweep_table(records, o.format.csv);
      fmt::print("{}{}{}", o.format.csv ? "" : "\n" + o.format.folded(table.common),
                 o.format.text(table.table), o.format.csv ? "" : "\n");
    }
    fmt::print(out, "{}", fitted(sweep.ends()));
    return records;
  };
  {
    const OnInterrupt interrupt([&] {
      const size_t done = print_rows().size();
      fmt::print("{} of {} points done{}\n", done, work.items,
                 store.path().empty() ? "" : fmt::format("; --resume continues {}", store.path()));
    });
    try {
      sweep.run();
    } catch (...) {
      print_rows();  // what was computed is not lost
      throw;
    }
  }
  const Records records = print_rows();
  fmt::print(out, "{}", run_remarks(records));
  if (device.is_emulator())
    fmt::print(out, "{}",
               fitted("Counts are the emulator's, summed over the launches of a point; they are not times. " +
                      predicted_for(records) + "\n"));
  else
    fmt::print(
        out,
        "us: median per call of {} samples, each over {} input sets after a flush of the L2; every point "
        "verified before and after.\n",
        o.timed.timing.repeats, o.timed.sets);
  return std::ranges::all_of(records, passed) ? 0 : 1;
}

const Command kCommand{
    "sweep", "verify, and on a GPU time, all legal combinations of rungs and knobs", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("operation", o->operation, "group, dual or gemm").required();
      add_list(app, "--case", o->case_names, "cases and shapes, repeated or separated by commas").required();
      const Argument kernel =
          app.add_option("--kernel", o->kernels, "rungs, separated by commas; 'all'; 'default': the top rung")
              .capture_default_str();
      o->file.declare(app, kernel);
      o->conditions.declare(app);
      o->target.declare(app);
      o->numbers.declare(app);
      o->output.declare(app, true);
      o->format.declare(app);
      app.add_option("--sort", o->sort,
                     "sort by time (default on a GPU), predicted (default otherwise), order (of the knobs), "
                     "instructions, bytes, waves or seconds");
      app.add_option("--best", o->best, "run only the N points of each case that are predicted fastest")
          .capture_default_str();
      app.add_option("--search", o->search,
                     "search strategy: grid (all points), random, local (hill climbing), or halving "
                     "(successive halving from the predicted best)")
          .one_of({"grid", "random", "local", "halving"})
          .capture_default_str();
      app.add_option("--search-seed", o->search_seed, "seed of random and local search")
          .whole_number_from(0)
          .capture_default_str();
      app.add_option("--points", o->rules.points,
                     "stop after N points of each case; default of a search: a third of them")
          .whole_number_from(1);
      app.add_option("--seconds", o->rules.seconds, "stop after this time, shared equally by the cases");
      app.add_option("--patience", o->rules.patience, "stop a case after N points without improvement")
          .whole_number_from(1);
      o->timed.declare(app, "on a GPU: ");
      std::map<std::string, std::string> help;  // a name may be a knob of several architectures
      for (const std::string_view arch : architectures())
        for (const KnobInfo& knob : knob_table(arch)) {
          std::string& text = help[std::string(knob.name)];
          if (!text.empty()) text += "; ";
          text += fmt::format("{}: {} ({})", arch, knob.meaning, knob.values);
        }
      for (const auto& [knob, text] : help) {
        std::string name = knob;
        std::replace(name.begin(), name.end(), '_', '-');
        app.add_option(name == knob ? "--" + name : "--" + name + ",--" + knob, o->axes[knob], text + "")
            .group("Knobs");
      }
      app.examples(
          {"fp4lab sweep group --case g2k1536 --kernel v2,v5 --stages 1..6 --json s.json",
           "fp4lab sweep group --case g2k1536,g2k4096 --kernel v2 --set block_k=512 --stages 2,3",
           "fp4lab sweep group --case g2k1536 --kernel all --json s.json --shard 1/4",
           "fp4lab sweep group --case g2k1536 --kernel v2,v5 --stages 1..6 --json s.json --resume",
           "fp4lab sweep group --case g2k1536 --kernel all --stages 2..8 --mma-n 64,128,192 --search local "
           "--points 60",
           "fp4lab sweep group --case all --warpgroups 2..4 --split 0..2 --search halving --seconds 120",
           "CUDA_VISIBLE_DEVICES=1 fp4lab sweep group --case g2k1536 --json s.json --shard 2/4"});
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
