// fp4lab gpu: all that a machine with a GPU can tell us, in one command: what is there, every rung verified,
// timed beside the peers that are installed, predicted and published times beside it, the experiments; one
// folder, one file to send. Each step is a process with a limit of time, so that a kernel that hangs costs
// its own results only; what is done is not done again.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/child.h"
#include "cli/command.h"
#include "cli/table.h"
#include "fp4lab/bench.h"
#include "fp4lab/error.h"
#include "fp4lab/json_text.h"
#include "fp4lab/model.h"
#include "fp4lab/peers.h"
#include "fp4lab/rung.h"
#include "fp4lab/store.h"

namespace fp4lab::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Options {
  std::string out = "fp4lab-gpu-record", device = "auto", arch, kernel = "all";
  std::vector<std::string> case_names;
  unsigned step_seconds = 120, bench_seconds = 420;
};

class Gpu {
 public:
  explicit Gpu(const Options& o)
      : o_(o), device_(open_for_kernels(o.device, o.arch)), arch_(arch_of(device_)) {
    fs::create_directories(fs::path(o.out) / "logs");
    steps_ = Store({.path = path("steps.jsonl"), .existing = Existing::kResume});
  }

  int all() {
    environment();
    for (const char* operation : {"group", "dual", "gemm"})
      for (const Distribution d : distributions()) verify(operation, std::string(distribution_name(d)));
    time();
    experiments();
    const json record = collect();
    std::ofstream out(path("record.json"));
    out << json_text(record, 1) << "\n";
    if (!out.flush()) fail("{}: cannot be written", path("record.json"));
    tell(record);
    return bad_ ? 1 : 0;
  }

 private:
  std::string path(const std::string& name) const { return (fs::path(o_.out) / name).string(); }

  void environment() {
    if (steps_.contains("environment")) return;
    const Nvml nvml(device_);
    json r = session_record(device_, nvml, {}, command_line());
    r["type"] = "environment", r["emulated"] = device_.is_emulator(), r["arch"] = arch_;
    try {
      CublasLt::open("");
      r["cublas"] = "there";
    } catch (const Error& e) {
      r["cublas"] = e.what();
    }
    const std::string trouble = peer_scripts_trouble("python3");
    r["python_peers"] = trouble.empty() ? "there" : trouble;
    steps_.add(std::move(r), "environment");
  }

  // Runs `fp4lab words...`; true when it came to its end, be it with results that are wrong.
  bool step(const std::string& name, std::vector<std::string> words, unsigned seconds) {
    for (const json& r : steps_.records())
      if (r.value("step", "") == name && r.value("ended", "") == "done") return true;
    fmt::print(stderr, "{}\n", name);
    words.insert(words.begin(), fs::read_symlink("/proc/self/exe").string());
    const auto start = std::chrono::steady_clock::now();
    const Child child = run_child(words, std::chrono::seconds(seconds));
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::string file = name;
    std::ranges::replace(file, ' ', '-');
    std::ofstream(path("logs/" + file + ".txt")) << child.out;
    const bool done = !child.timed_out && child.status <= 1;
    json r{{"type", "step"},
           {"step", name},
           {"command", fmt::format("{}", fmt::join(words, " "))},
           {"seconds", took},
           {"status", child.status},
           {"ended", child.timed_out ? fmt::format("timed out after {} s", seconds)
                     : done          ? "done"
                                     : "failed"},
           {"date", utc_now()}};
    if (!done || child.status) bad_ = true;
    if (!done) fmt::print(stderr, "  {}: {}\n", name, r["ended"].get<std::string>());
    steps_.add(std::move(r));
    return done;
  }

  std::vector<std::string> rungs_of(const std::string& operation) const {
    std::vector<std::string> names;
    for (const Rung* rung : rungs(arch_, operation == "dual" ? Op::kDual : Op::kGroup))
      if (o_.kernel == "all" || o_.kernel == rung->name) names.emplace_back(rung->name);
    return names;
  }
  std::vector<std::string> cases_for(const std::string& operation) const {
    if (o_.case_names.empty()) {
      // The emulator only shows that the command works: a shape that takes it a moment.
      if (device_.is_emulator()) return {operation + ":100/256/512"};
      return operation == "gemm" ? std::vector<std::string>{"all"}
                                 : std::vector<std::string>{"all", "correctness"};
    }
    std::vector<std::string> chosen;
    for (const std::string& name : o_.case_names)
      if (operation_name(find_case(name).operation) == operation) chosen.push_back(name);
    return chosen;
  }

  void verify(const std::string& operation, const std::string& distribution) {
    const std::vector<std::string> chosen = cases_for(operation), names = rungs_of(operation);
    if (chosen.empty() || names.empty()) return;
    const auto words = [&](const std::string& kernel) {
      std::vector<std::string> w{"run",     operation,    "--kernel", kernel,
                                 "--dist",  distribution, "--device", device_.label(),
                                 "--arch",  arch_,        "--json",   path("verify.jsonl"),
                                 "--resume"};
      for (const std::string& c : chosen) w.insert(w.end(), {"--case", c});
      return w;
    };
    const std::string name = fmt::format("verify {} {}", operation, distribution);
    if (step(name, words(o_.kernel), o_.step_seconds)) return;
    for (const std::string& rung : names)  // whose fault it is
      step(name + " " + rung, words(rung), std::max(20u, o_.step_seconds / 4));
  }

  void time() {
    if (device_.is_emulator()) {
      fmt::print(stderr, "time: only a GPU has times\n");
      return;
    }
    const std::vector<std::string> common{"--json", path("bench.jsonl"), "--resume"};
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.end(), common.begin(), common.end());
      for (const std::string& c : o_.case_names) words.insert(words.end(), {"--case", c});
      return words;
    };
    if (step("time", with({"bench", "all", "--kernel", o_.kernel, "--peer-seconds", "90"}), o_.bench_seconds))
      return;
    for (const char* operation : {"group", "dual", "gemm"})
      for (const std::string& rung : rungs_of(operation))
        step(fmt::format("time {} {}", operation, rung),
             with({"bench", operation, "--kernel", rung, "--peers", "none", "--no-limits"}), o_.step_seconds);
    step("time peers", with({"bench", "all", "--kernel", "none", "--peer-seconds", "90"}), o_.bench_seconds);
  }

  void experiments() {
    if (device_.is_emulator()) return;
    step("experiments", {"experiment", "run", "all", "--device", "cuda", "--records", path("experiments")},
         o_.bench_seconds);
  }

  // What the model says of every rung in every full-size case.
  json predictions() const {
    json all = json::array();
    for (const Case& c : cases()) {
      if (!c.full_size) continue;
      for (const Rung* rung : rungs(arch_, op_of(c.operation))) {
        const Candidate candidate = candidate_for(*rung, c, {});
        if (!reasons(candidate, c).empty()) continue;
        json r = record_of(predict(candidate, c));
        r["case"] = c.name, r["kernel"] = std::string(rung->name), r["plan"] = plan_line(candidate);
        all.push_back(std::move(r));
      }
    }
    return all;
  }

  std::vector<json> lines(const std::string& name) const {
    return fs::exists(path(name)) ? read_records(path(name)) : std::vector<json>();
  }

  json collect() const {
    json r{{"format", 1}, {"date", utc_now()}, {"command", command_line()}, {"commit", commit()}};
    r["steps"] = steps_.records(), r["verified"] = lines("verify.jsonl"),
    r["measured"] = lines("bench.jsonl");
    r["predicted"] = predictions(), r["published"] = json::array(), r["experiments"] = json::array();
    for (const Case& c : cases())
      if (c.best_us) r["published"].push_back({{"case", c.name}, {"us", *c.best_us}, {"machine", "B200"}});
    std::error_code none;
    for (const auto& file : fs::directory_iterator(path("experiments"), none))
      for (json& line : read_records(file.path().string())) r["experiments"].push_back(std::move(line));
    return r;
  }

  void tell(const json& record) const {
    size_t right = 0;
    std::vector<std::string> wrong;
    for (const json& v : record["verified"]) {
      if (v.value("passed", false))
        ++right;
      else
        wrong.push_back(fmt::format("{} {} {}: {}", v.value("case", ""), v.value("kernel", ""),
                                    v.value("distribution", ""), v.value("error", "outside the tolerance")));
    }
    fmt::print("{} on {}: {} of {} outputs right\n", arch_, device_.name(), right, record["verified"].size());
    for (const std::string& w : wrong) fmt::print("  {}\n", w.substr(0, w.find('\n')));
    std::map<std::pair<std::string, std::string>, const json*> predicted;
    for (const json& p : record["predicted"]) predicted[{p["case"], p["kernel"]}] = &p;
    Table table(
        {"case", "kernel", ">measured us", ">p10 to p90", ">predicted us", ">80 %", ">published us, B200"});
    for (const json& m : record["measured"]) {
      if (m.value("type", "") != "time" || !m.contains("us")) continue;
      const std::string c = m["case"], kernel = m["kernel"];
      const auto p = predicted.find({c, kernel});
      const Case known = find_case(c);
      table.add(
          {c, kernel, fmt::format("{:.2f}", m["us"]["median"].get<double>()),
           fmt::format("{:.2f} to {:.2f}", m["us"]["p10"].get<double>(), m["us"]["p90"].get<double>()),
           p == predicted.end() ? "-" : fmt::format("{:.2f}", (*p->second)["predicted_us"].get<double>()),
           p == predicted.end()
               ? "-"
               : fmt::format("{:.1f} to {:.1f}", (*p->second)["interval_low_us"].get<double>(),
                             (*p->second)["interval_high_us"].get<double>()),
           known.best_us ? fmt::format("{:g}", *known.best_us) : "-"});
    }
    if (!table.empty()) fmt::print("\n{}", TableFormat().text(table));
    for (const json& s : record["steps"])
      if (s.value("type", "") == "step" && s.value("ended", "") != "done")
        fmt::print("{}: {}\n", s.value("step", ""), s.value("ended", ""));
    fmt::print("\n{} holds all results: please send it to us. The same command completes what is missing.\n",
               path("record.json"));
  }

  const Options& o_;
  Device device_;
  std::string arch_;
  Store steps_;
  bool bad_ = false;
};

const Command kCommand{
    "gpu", "verify, time and predict everything on this machine's GPU, into one file", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("--out", o->out, "folder of the records; existing ones are kept and skipped")
          .capture_default_str();
      app.add_option("--device", o->device, "auto, cuda, or emulator (to try the command out)")
          .capture_default_str();
      app.add_option("--arch", o->arch, "emulator: sm_100a or sm_90a");
      app.add_option("--kernel", o->kernel, "a rung; 'all'").capture_default_str();
      app.add_option("--case", o->case_names, "run only this case; repeatable");
      app.add_option("--step-seconds", o->step_seconds,
                     "timeout of a verification; after it, rungs are tried one by one")
          .whole_number_from(1)
          .capture_default_str();
      app.add_option("--bench-seconds", o->bench_seconds, "timeout of all time measurements")
          .whole_number_from(1)
          .capture_default_str();
      app.examples(
          {"fp4lab gpu --out my-b200", "fp4lab gpu --device emulator --kernel v5_two_cta --out /tmp/trial"});
      return [o] { return Gpu(*o).all(); };
    }};

}  // namespace
}  // namespace fp4lab::cli
