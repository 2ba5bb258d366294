// fp4lab bench: kernels of the lab and the libraries they are compared with, timed on a GPU in one run.
#include "fp4lab/bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cli/bench_table.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/timed.h"
#include "cli/workload.h"
#include "fp4lab/error.h"
#include "fp4lab/peers.h"
#include "fp4lab/record.h"
#include "fp4lab/store.h"

namespace fp4lab::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Options {
  std::string operation = "all", kernel = "default", device = "cuda", cublas, python = "python3", problems,
              launch = "best", peers = "cublas,python";
  std::vector<std::string> case_names, knobs, merge, report;
  BenchView view;
  Output output;
  TableFormat format;
  Numbers numbers;
  Timed timed;
  int peer_seconds = 300;
  bool limits = true, markdown = false;
};

std::vector<Case> cases_of(const Options& o) {
  return chosen_cases(o.case_names.empty() ? std::vector<std::string>{"all"} : o.case_names, o.operation,
                      "bench");
}

bool asked(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

Device open_gpu(const Options& o) {
  if (o.device != "cuda" && o.device != "auto" && o.device != "emulator")
    fail("--device {}: bench runs on cuda", o.device);
  std::string why = "the emulator was asked for";
  if (o.device == "emulator" || !gpu_available("", &why))
    fail(
        "bench needs a GPU; the emulator does not measure time: {}\n  to verify kernels without a GPU: "
        "fp4lab run {} --device emulator",
        why, o.operation == "all" ? "group" : o.operation);
  return Device::open("cuda");
}

// All that comes in, in the file at once and in memory for the tables.
class Log {
 public:
  Log(const Options& o, const Device& device) : store_(o.output.open(device)) {
    for (const json& r : store_.records()) before_ += r.value("type", "") == "time";
  }
  // Times and absences are points: what is there already is not measured again.
  void add(json record) {
    const std::string type = record.value("type", "");
    failed_ |= record.contains("error");
    const std::string point = type == "time" ? point_of_time(record)
                              : type == "absent"
                                  ? point_of(type, {record.value("case", ""), record.value("kernel", ""),
                                                    record.value("reason", "")})
                                  : "";
    store_.add(std::move(record), point);
  }
  bool has(json time) const { return store_.contains(point_of_time(time)); }
  void note(const json& record) { noted_.push_back(record); }  // for the tables only
  std::vector<json> records() const {
    std::vector<json> all = store_.records();
    all.insert(all.end(), noted_.begin(), noted_.end());
    return all;
  }
  bool failed() const { return failed_; }
  size_t before() const { return before_; }

 private:
  // Of a kernel its plan and how it is launched; a library chooses itself.
  std::string point_of_time(const json& r) const {
    const bool peer = r.value("peer", false);
    return point_of(
        "time", {r.value("case", ""), r.value("kernel", ""), peer ? "" : r.value("how", ""),
                 peer ? "" : r.value("asked_launch", ""), r.value("distribution", ""),
                 fmt::format("seed {}", r.value("seed", 0ull)), fmt::format("{} sets", r.value("sets", 0))});
  }

  Store store_;
  std::vector<json> noted_;
  size_t before_ = 0;
  bool failed_ = false;
};

json absent(const std::string& kernel, const std::string& reason) {
  return {{"type", "absent"}, {"kernel", kernel}, {"reason", reason}};
}

// The folder that was asked for, or one that goes away with this.
class Folder {
 public:
  explicit Folder(const std::string& asked)
      : path_(asked.empty() ? fs::temp_directory_path() / fmt::format("fp4lab-bench-{}", getpid())
                            : fs::path(asked)),
        own_(asked.empty()) {}
  ~Folder() {
    std::error_code ignored;
    if (own_) fs::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
  bool own_;
};

class Bench {
 public:
  Bench(const Options& o, Log& log, const Device& device)
      : o_(o), log_(log), device_(device), nvml_(device_), timer_(device_, o.timed.options()) {}

  void run(const std::vector<Case>& list) {
    log_.add(session_record(device_, nvml_, timer_.options(), command_line()));
    if (asked(o_.peers, "cublas")) {
      try {
        lt_ = CublasLt::open(o_.cublas);
      } catch (const Error& e) {
        log_.add(absent("cublas-fp16, cublas-fp8", e.what()));
      }
    }
    if (o_.limits) limits();
    bool scripts = asked(o_.peers, "python");
    if (scripts)
      if (const std::string trouble = peer_scripts_trouble(o_.python); !trouble.empty()) {
        log_.add(absent("the scripts of bench/peers", trouble));
        scripts = false;
      }
    const Folder folder(o_.problems);
    if (scripts) problems_ = folder.path();
    Progress progress("bench", list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      progress.update(i, list[i].name);
      measure_case(list[i]);
    }
    if (scripts) python_peers();
  }

 private:
  void limits() {
    if (lt_) {
      try {
        log_.add(record_of(tensor_limit(timer_, nvml_, lt_)));
      } catch (const Error& e) {
        log_.add(absent("tensor limit", e.what()));
      }
    } else {
      log_.add(absent("tensor limit", "needs cuBLASLt"));
    }
    log_.add(record_of(byte_limit(timer_, nvml_)));
  }

  void measure_case(const Case& c) {
    const InputSets sets(device_, c, o_.numbers.of(c.operation), o_.numbers.seed, o_.timed.sets);
    kernels(sets);
    if (!problems_.empty()) sets.write((fs::path(problems_) / c.name).string());
    if (lt_)
      for (const GemmType input : {GemmType::kF16, GemmType::kE4m3}) cublas(sets, input);
  }

  void kernels(const InputSets& sets) {
    if (o_.kernel == "none") return;
    const Case& c = sets.spec();
    std::string_view arch;
    try {
      arch = arch_of(device_);
    } catch (const Error& e) {
      return log_.add(absent("kernels of the lab", e.what()));
    }
    const LaunchChoice choice = o_.launch == "best"    ? LaunchChoice::kBest
                                : o_.launch == "graph" ? LaunchChoice::kGraph
                                                       : LaunchChoice::kStream;
    for (const Rung* rung : chosen_rungs(arch, op_of(c.operation), o_.kernel)) {
      const Candidate candidate = candidate_for(*rung, c, o_.knobs);
      if (const auto forbidden = reasons(candidate, c); !forbidden.empty()) {
        if (o_.kernel != "all") require_legal(candidate, c);
        json a = absent(std::string(rung->name), forbidden.front().text);
        a["case"] = c.name;
        log_.add(std::move(a));
        continue;
      }
      json point{{"case", c.name},
                 {"kernel", std::string(rung->name)},
                 {"how", plan_line(candidate)},
                 {"asked_launch", o_.launch},
                 {"distribution", std::string(distribution_name(sets.distribution()))},
                 {"seed", sets.seed()},
                 {"sets", sets.size()}};
      if (log_.has(point)) continue;
      const Measurement m = measure_kernel(timer_, nvml_, sets, candidate, choice);
      json record = record_of(m);
      record.update(plan_fields(candidate));
      record["asked_launch"] = o_.launch;
      log_.add(std::move(record));
      if (!m.error.empty()) device_.synchronize();  // throws where the kernel broke the context
    }
  }

  void cublas(const InputSets& sets, GemmType input) {
    if (log_.has({{"case", sets.spec().name},
                  {"kernel", input == GemmType::kF16 ? "cublas-fp16" : "cublas-fp8"},
                  {"peer", true},
                  {"distribution", std::string(distribution_name(sets.distribution()))},
                  {"seed", sets.seed()},
                  {"sets", sets.size()}}))
      return;
    try {
      std::vector<std::pair<std::string, double>> tried;
      for (const Contender& contender : cublas_contenders(timer_, lt_, sets, input, tried)) {
        Measurement m = measure(timer_, nvml_, sets, contender);
        m.variants = tried;
        log_.add(record_of(m));
      }
    } catch (const Error& e) {
      json a = absent(input == GemmType::kF16 ? "cublas-fp16" : "cublas-fp8", e.what());
      a["case"] = sets.spec().name;
      log_.add(std::move(a));
    }
  }

  // After everything of ours: they share the GPU, not the process.
  void python_peers() {
    PeerScripts how{o_.python, problems_, o_.peer_seconds, timer_.options()};
    for (const std::string& name : peer_scripts())
      run_peer_script(name, how, [&](json record) { log_.add(std::move(record)); });
  }

  const Options& o_;
  Log& log_;
  const Device& device_;
  Nvml nvml_;
  Timer timer_;
  std::shared_ptr<CublasLt> lt_;
  std::string problems_;  // folder for other programs; empty: none reads it
};

int report(const Options& o) {
  std::vector<json> records;
  for (const std::string& path : o.report)
    for (json& r : read_records(path)) records.push_back(std::move(r));
  const bool any = std::ranges::any_of(records, [](const json& r) {
    const std::string type = r.value("type", "");
    return type == "time" || type == "limit" || type == "absent";
  });
  if (!any)
    fail("{}: none of {} records is from bench; 'fp4lab report' prints those of run, sweep and mutate",
         fmt::join(o.report, ", "), records.size());
  fmt::print("{}", o.markdown ? bench_markdown(records) : bench_report(records, o.view, o.format));
  return 0;
}

int run(const Options& o) {
  if (!o.report.empty()) return report(o);
  const std::vector<Case> list = cases_of(o);
  std::vector<json> merged;
  for (const std::string& path : o.merge)
    for (json& r : read_records(path)) merged.push_back(std::move(r));
  const Device device = open_gpu(o);
  Log log(o, device);
  if (log.before()) fmt::print("{} times already in {}\n", log.before(), o.output.json);
  const auto tell = [&] { fmt::print("{}", bench_report(log.records(), o.view, o.format)); };
  {
    const OnInterrupt interrupt(tell);
    try {
      Bench(o, log, device).run(list);
    } catch (...) {
      tell();
      throw;
    }
  }
  for (const json& r : merged)
    if (r.value("type", "") != "limit") log.note(r);  // shares are of this run's limits
  tell();
  return log.failed() ? 1 : 0;
}

const Command kCommand{
    "bench", "time kernels, cuBLAS and other libraries on a GPU", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("operation", o->operation, "group, dual, gemm or all").capture_default_str();
      add_list(app, "--case", o->case_names,
               "cases and shapes, repeated or separated by commas; 'all': the full sizes, the default");
      app.add_option("--kernel", o->kernel,
                     "rungs, separated by commas; 'all'; 'default': the top rung; 'none': peers only")
          .capture_default_str();
      add_list(app, "--set", o->knobs, "set a knob of the plan, e.g. stages=4; repeatable");
      app.add_option("--device", o->device, "cuda only: the emulator does not measure time")
          .capture_default_str();
      o->numbers.declare(app);
      o->timed.declare(app);
      app.add_option("--launch", o->launch,
                     "launch our kernels by stream, by CUDA graph, or best (the faster)")
          .one_of({"best", "stream", "graph"})
          .capture_default_str();
      app.add_option("--peers", o->peers,
                     "what to compare with: cublas, python (scripts in bench/peers), both, or none")
          .capture_default_str();
      app.add_option(
          "--cublas", o->cublas,
          "path of libcublasLt.so or its folder; default: FP4LAB_CUBLAS, the toolkit, Python wheels");
      app.add_option("--python", o->python, "Python interpreter for the scripts").capture_default_str();
      app.add_option("--peer-seconds", o->peer_seconds, "timeout of a script")
          .whole_number(1, 86400)
          .capture_default_str();
      app.add_option("--problems", o->problems, "keep the scripts' input files in this folder");
      app.add_option("--against", o->view.against, "the peer that the ratio column divides by")
          .capture_default_str();
      app.add_option("--sort", o->view.sort, "sort the rows of a case by order or time")
          .one_of({"order", "time"});
      o->output.declare(app);
      o->format.declare(app);
      app.add_option("--merge", o->merge, "add records of other runs or programs to the tables");
      app.add_option("--report", o->report, "print the tables of these records; measure nothing");
      app.add_flag("--markdown", o->markdown, "with --report: print the summary as a Markdown table");
      app.add_flag("!--no-limits", o->limits, "skip measuring the tensor and bandwidth limits");
      app.examples({"fp4lab bench all --json r.json",
                    "fp4lab bench group --case g2k1536 --kernel all --peers none",
                    "fp4lab bench group --json r.json --resume", "fp4lab bench --report r.json --markdown"});
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
