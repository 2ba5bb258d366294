// fp4lab bench: kernels of the lab and the libraries they are compared with, timed on a GPU in one run.
#include "fp4lab/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cli/bench_table.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/workload.h"
#include "fp4lab/error.h"
#include "fp4lab/peers.h"
#include "fp4lab/record.h"
#include "fp4lab/sweep.h"

namespace fp4lab::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Options {
  std::string operation = "all", kernel = "default", device = "cuda", json, cublas, python = "python3",
              problems, against = "cublas-fp16", launch = "best", peers = "cublas,python";
  std::vector<std::string> case_names{"all"}, knobs, merge, report;
  Numbers numbers;
  int sets = 4, flush_mib = 512, peer_seconds = 300;
  TimingOptions timing;
  bool limits = true, markdown = false;
};

std::string command_line() {
  std::string text;
  if (std::FILE* file = std::fopen("/proc/self/cmdline", "rb")) {
    for (int c; (c = std::fgetc(file)) != EOF;) text += c ? char(c) : ' ';
    std::fclose(file);
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::vector<Case> chosen_cases(const Options& o) {
  std::vector<Case> chosen;
  for (const std::string& name : o.case_names) {
    if (name == "all") {
      for (const Case& c : cases())
        if (c.full_size && (o.operation == "all" || operation_name(c.operation) == o.operation))
          chosen.push_back(c);
      continue;
    }
    chosen.push_back(find_case(name));
    if (o.operation != "all" && operation_name(chosen.back().operation) != o.operation)
      fail("case {} is a {} GEMM; 'bench {}' was asked for", name, operation_name(chosen.back().operation),
           o.operation);
  }
  if (chosen.empty()) fail("no operation '{}': group, dual, gemm and all are known", o.operation);
  return chosen;
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
        "bench measures time on a GPU, and the emulator's time means nothing: {}\n  to check what kernels "
        "compute without a GPU: fp4lab run {} --device emulator",
        why, o.operation == "all" ? "group" : o.operation);
  return Device::open("cuda");
}

// All that comes in, in the file at once and in memory for the tables.
class Log {
 public:
  explicit Log(const std::string& path) {
    if (!path.empty()) file_ = RecordFile(path, false);
  }
  void add(json record) {
    file_.add(record);
    failed_ |= record.contains("error");
    records_.push_back(std::move(record));
  }
  void note(const json& record) { records_.push_back(record); }  // for the tables only
  const std::vector<json>& records() const { return records_; }
  bool failed() const { return failed_; }

 private:
  RecordFile file_;
  std::vector<json> records_;
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
  Bench(const Options& o, Log& log)
      : o_(o), log_(log), device_(open_gpu(o)), nvml_(device_), timer_(device_, o.timing) {}

  void run(const std::vector<Case>& list) {
    log_.add(session_record(device_, nvml_, o_.timing, command_line()));
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
    const InputSets sets(device_, c, o_.numbers.of(c.operation), o_.numbers.seed, o_.sets);
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
      const Measurement m = measure_kernel(timer_, nvml_, sets, candidate, choice);
      log_.add(record_of(m));
      if (!m.error.empty()) device_.synchronize();  // throws where the kernel broke the context
    }
  }

  void cublas(const InputSets& sets, GemmType input) {
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
    PeerScripts how{o_.python, problems_, o_.peer_seconds, o_.timing};
    for (const std::string& name : peer_scripts())
      run_peer_script(name, how, [&](json record) { log_.add(std::move(record)); });
  }

  const Options& o_;
  Log& log_;
  Device device_;
  Nvml nvml_;
  Timer timer_;
  std::shared_ptr<CublasLt> lt_;
  std::string problems_;  // folder for other programs; empty: none reads it
};

int run(const Options& given) {
  Options o = given;
  o.timing.flush_bytes = size_t(std::max(0, o.flush_mib)) << 20;
  if (!o.report.empty()) {
    std::vector<json> records;
    for (const std::string& path : o.report)
      for (json& r : read_records(path)) records.push_back(std::move(r));
    fmt::print("{}", o.markdown ? bench_markdown(records) : bench_report(records, o.against));
    return 0;
  }
  const std::vector<Case> list = chosen_cases(o);
  std::vector<json> merged;
  for (const std::string& path : o.merge)
    for (json& r : read_records(path)) merged.push_back(std::move(r));
  Log log(o.json);
  try {
    Bench(o, log).run(list);
  } catch (...) {
    if (log.records().size() > 1) fmt::print("{}", bench_report(log.records(), o.against));
    throw;
  }
  for (const json& r : merged)
    if (r.value("type", "") != "limit") log.note(r);  // shares are of this run's limits
  fmt::print("{}", bench_report(log.records(), o.against));
  return log.failed() ? 1 : 0;
}

const Command kCommand{
    "bench", "time kernels and the libraries they are compared with, on a GPU", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("operation", o->operation, "group, dual, gemm or all").capture_default_str();
      app.add_option("--case", o->case_names, "cases or shapes; 'all': the full sizes").capture_default_str();
      app.add_option("--kernel", o->kernel,
                     "rungs, separated by commas; 'all'; 'default': the top rung; 'none': peers only")
          .capture_default_str();
      app.add_option("--set", o->knobs, "a knob of the plan, as stages=4; may be repeated");
      app.add_option("--device", o->device, "cuda: the emulator has no times").capture_default_str();
      o->numbers.declare(app);
      app.add_option("--sets", o->sets, "sets of inputs, in rotation")
          .whole_number_from(1)
          .capture_default_str();
      app.add_option("--rounds", o->timing.rounds, "times that a sample goes through the sets")
          .capture_default_str();
      app.add_option("--repeats", o->timing.repeats, "samples; their median counts")
          .whole_number_from(1)
          .capture_default_str();
      app.add_option("--warmups", o->timing.warmups, "samples before them").capture_default_str();
      app.add_option("--flush", o->flush_mib, "MiB overwritten before each sample; 0: the cache stays warm")
          .capture_default_str();
      app.add_option("--launch", o->launch,
                     "how our kernels are launched: stream, graph, or best, the faster of the two")
          .one_of({"best", "stream", "graph"})
          .capture_default_str();
      app.add_option("--peers", o->peers, "cublas, python (the scripts in bench/peers), both, or none")
          .capture_default_str();
      app.add_option("--cublas", o->cublas,
                     "libcublasLt.so or its folder; default: FP4LAB_CUBLAS, the toolkit, Python's wheels");
      app.add_option("--python", o->python, "interpreter of the scripts").capture_default_str();
      app.add_option("--peer-seconds", o->peer_seconds, "a script that takes longer is ended")
          .capture_default_str();
      app.add_option("--problems", o->problems, "keep the problems that the scripts read in this folder");
      app.add_option("--against", o->against, "the peer of the ratio column").capture_default_str();
      app.add_option("--json", o->json, "write every record as a line of JSON when it is there");
      app.add_option("--merge", o->merge, "records of other runs or programs, into the same tables");
      app.add_option("--report", o->report, "measure nothing: print the tables of these records");
      app.add_flag("--markdown", o->markdown, "with --report: the summary as a table for a page");
      app.add_flag("!--no-limits", o->limits, "do not measure the tensor and byte limits");
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
