// Running an experiment: every arm verified in every case, timed where a GPU is, predicted otherwise. All
// that is found out becomes a record at once; a point that has one is not done again.
#include "fp4lab/run.h"

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "fp4lab/bench.h"
#include "fp4lab/error.h"
#include "fp4lab/experiment.h"
#include "fp4lab/json_text.h"
#include "fp4lab/model.h"
#include "fp4lab/record.h"
#include "fp4lab/store.h"

namespace fp4lab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Other experiments of this process have the same arms.
std::map<std::string, json>& verified_already() {
  static std::map<std::string, json> all;
  return all;
}

// The file of the records.
std::string path_of(const Experiment& e, const RunOptions& o) {
  return o.records.empty() ? e.records_path() : o.records;
}

// What starts anew still has run before: when, and as what, must not be forgotten.
std::vector<json> registrations(const std::string& path) {
  std::vector<json> kept;
  if (path.empty() || !fs::exists(path)) return kept;
  for (json& r : read_records(path))
    if (r.value("type", "") == "registration") kept.push_back(std::move(r));
  return kept;
}

class Run {
 public:
  Run(const Experiment& e, const RunOptions& o)
      : e_(e),
        o_(o),
        registered_(registrations(o.again ? path_of(e, o) : "")),
        store_({.path = path_of(e, o),
                .existing = o.again ? Existing::kForce : Existing::kResume,
                .inputs = {e.path}}),
        start_(std::chrono::steady_clock::now()) {}

  std::vector<std::string> all() {
    for (json& r : registered_) {
      const std::string at = r.value("point", "");
      store_.add(std::move(r), at);
    }
    add({{"type", "registration"}, {"question", e_.question}, {"text", e_.text}}, point("registration", {}));
    for (const std::string& name : e_.accept.cases) {
      const Case c = find_case(name);
      for (const Arm* arm : e_.arms()) {
        compute(*arm, c);
        if (!arm->peer.empty()) continue;
        verify(*arm, c);
        time(*arm, c);
      }
      trial_.reset(), sets_.reset();
    }
    if (!e_.measured_in.empty()) take_over();
    return {missing_.begin(), missing_.end()};
  }

 private:
  // A rung's own plan may change; then its old records are of another plan.
  std::string plan_of(const Arm& arm, const Case& c) const {
    try {
      const Candidate made = candidate_for(find_rung(arm.arch, op_of(c.operation), arm.kernel), c, arm.set);
      return std::string(made.rung->name) + " " + plan_line(made);
    } catch (const Error&) {
      return "";  // verify() says why
    }
  }
  std::string point(const char* type, std::vector<std::string> what) const {
    what.insert(what.begin(), {e_.id, e_.hash});
    return point_of(type, what);
  }
  void add(json record, const std::string& point) {
    if (store_.contains(point)) return;
    record["experiment"] = e_.name, record["hash"] = e_.hash;
    for (auto& [field, value] : stamp_)
      if (!record.contains(field)) record[field] = value;
    store_.add(std::move(record), point);
  }
  void tell(const std::string& what) const {
    if (o_.progress) o_.progress(fmt::format("{} {}", e_.id, what));
  }
  void spend() const {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    if (seconds > e_.seconds)
      fail("{}: its budget of {} seconds is spent; what was found out is in {}, and the next run goes on",
           e_.name, e_.seconds, store_.path());
  }

  // Figures and predictions: they take microseconds, so they are always anew, and a record where they
  // changed.
  void compute(const Arm& arm, const Case& c) {
    if (!arm.peer.empty() || arm.expect != Arm::Expect::kRight || !o_.predict) return;
    Candidate candidate{};
    try {
      candidate = candidate_for(find_rung(arm.arch, op_of(c.operation), arm.kernel), c, arm.set);
      require_legal(candidate, c);
    } catch (const Error&) {
      return;  // verify() says so
    }
    json r{{"type", "prediction"}, {"arm", arm.name}, {"case", c.name}, {"quantities", quantities(arm, c)}};
    // The model knows plans. What was edited it cannot see.
    if (arm.file.empty() && arm.ptx.empty()) {
      r["prediction"] = record_of(predict(candidate, c));
      const Arm& base = e_.baseline;
      if (&arm != &base && base.peer.empty() && base.arch == arm.arch && base.file.empty() &&
          base.ptx.empty() && base.expect == Arm::Expect::kRight) {
        const Candidate b = candidate_for(find_rung(base.arch, op_of(c.operation), base.kernel), c, base.set);
        if (reasons(b, c).empty()) r["ratio"] = record_of(predict_ratio(candidate, b, c));
      }
    }
    size_t number = 0;
    json last;
    for (const json& old : store_.records())
      if (old.value("type", "") == "prediction" && old.value("hash", "") == e_.hash &&
          old.value("arm", "") == arm.name && old.value("case", "") == c.name)
        ++number, last = old;
    for (const char* field : {"prediction", "ratio", "quantities"})
      if (number == 0 || r.value(field, json()) != last.value(field, json()))
        return add(std::move(r),
                   point("prediction", {arm.name, c.name, fmt::format("number {}", number + 1)}));
  }

  // One machine at a time: the emulator changes when nothing holds it.
  const Device& emulator(const std::string& arch, bool order) {
    static std::optional<Device> open;
    static std::string machine;
    if (machine != arch) {
      trial_.reset(), open.reset();
      open.emplace(Device::open("emulator", arch));
      machine = arch;
    }
    const auto check = reinterpret_cast<void (*)(int)>(open->driver().symbol("fp4lab_emulator_check"));
    if (!check) fail("the emulator cannot check the order of accesses");
    check(order);
    return *open;
  }

  json verified(const Arm& arm, const Case& c, bool order) {
    json r{{"order_checked", order}};
    const Device& device = emulator(arm.arch, order);  // what fails here is no fault of the arm
    try {
      const Candidate candidate = candidate_of(arm, c);
      if (const auto forbidden = reasons(candidate, c); !forbidden.empty()) {
        r["result"] = "illegal", r["rule"] = forbidden.front().rule, r["error"] = forbidden.front().text;
        return r;
      }
      const Distribution distribution = e_.distribution_of(c.operation);
      const std::string key = point_of_what(device, c, candidate, distribution) + (order ? " ordered" : "");
      if (auto known = verified_already().find(key); known != verified_already().end()) {
        json same = known->second;
        same["shared"] = true;
        return same;
      }
      const std::string of = arm.arch + " " + c.name;
      if (!trial_ || trial_of_ != of) {
        trial_.reset();  // frees the last one's memory first
        trial_ = std::make_unique<Trial>(device, c, distribution, 1), trial_of_ = of;
      }
      const RunResult result = run_trial(device, *trial_, candidate);
      r.update(record_of(result));
      for (const char* field : {"jit_ms", "jit_cached", "roofline_us_computed", "notes", "findings"})
        r.erase(field);
      r["result"] = result.passed() ? "right" : result.error.empty() ? "wrong" : "fault";
      // A checked launch may go on behind what it found. Notes are no fault.
      if (!result.findings.empty())
        for (const json& finding : parse_json(result.findings))
          if (finding.value("severity", "") != "note" && r["result"] == "right")
            r["result"] = "fault", r["error"] = finding.value("what", "a finding of the checker");
      verified_already()[key] = r;
    } catch (const Error& error) {
      r["result"] = "fault", r["error"] = error.what();
    }
    return r;
  }
  static std::string point_of_what(const Device& device, const Case& c, const Candidate& candidate,
                                   Distribution distribution) {
    return point_of("", {device.name(), c.name, std::string(candidate.rung->file()), plan_line(candidate),
                         text_hash(candidate), std::string(distribution_name(distribution))});
  }

  void verify(const Arm& arm, const Case& c) {
    if (o_.device == "cuda") return;
    const std::string at = point("validity", {arm.name, c.name, plan_of(arm, c), "emulator"});
    if (store_.contains(at)) return;
    spend();
    tell(fmt::format("{} {}: verify", c.name, arm.name));
    json r = verified(arm, c, e_.check_case.empty());
    if (!e_.check_case.empty() && r.value("result", "") == "right") {
      // Where the check of a full size takes minutes: the order on a small shape.
      const json small = verified(arm, find_case(e_.check_case), true);
      r["order_checked_in"] = e_.check_case;
      if (small.value("result", "") != "right")
        r["result"] = small["result"], r["error"] = e_.check_case + ": " + small.value("error", "wrong");
    }
    r["type"] = "validity", r["arm"] = arm.name, r["case"] = c.name;
    add(std::move(r), at);
  }

  // On a GPU; measure_kernel verifies before and after.
  void time(const Arm& arm, const Case& c) {
    if (o_.device == "emulator" || arm.expect == Arm::Expect::kIllegal) return;
    std::string why;
    if (!gpu_available(arm.arch, &why)) {
      missing_.insert(fmt::format("a GPU that runs {}, to time '{}' ({})", arm.arch, arm.name, why));
      return;
    }
    if (!gpu_) {
      gpu_.emplace(Device::open("cuda", arm.arch));
      timer_.emplace(*gpu_, TimingOptions{});
      nvml_.emplace(*gpu_);
    }
    const std::string at = point("time", {arm.name, c.name, plan_of(arm, c), gpu_->name()});
    if (store_.contains(at)) return;
    spend();
    tell(fmt::format("{} {}: time", c.name, arm.name));
    json r;
    try {
      const Candidate candidate = candidate_of(arm, c);
      if (!reasons(candidate, c).empty()) return;
      if (!sets_) sets_ = std::make_unique<InputSets>(*gpu_, c, e_.distribution_of(c.operation), 1, 4);
      const bool own =
          std::ranges::any_of(arm.set, [](const std::string& s) { return s.starts_with("launch="); });
      r = record_of(measure_kernel(*timer_, *nvml_, *sets_, candidate,
                                   own ? LaunchChoice::kStream : LaunchChoice::kBest));
    } catch (const Error& error) {
      r = {{"type", "time"}, {"error", error.what()}};
    }
    r["arm"] = arm.name, r["case"] = c.name, r["device"] = gpu_->name();
    const bool good = !r.contains("error");
    add(std::move(r), at);
    if (!good) gpu_->synchronize();  // throws where the kernel broke the context
  }

  // Times that `fp4lab bench` measured.
  void take_over() {
    const std::string path = (jit::project_root() / e_.measured_in).string();
    json session;
    for (const json& old : read_records(path)) {
      const std::string type = old.value("type", "");
      if (type == "session") session = old;
      if (type != "time" && type != "absent") continue;
      const std::string name = old.value("case", "");
      if (std::ranges::find(e_.accept.cases, name) == e_.accept.cases.end()) continue;
      for (const Arm* arm : e_.arms()) {
        const std::string kernel =
            arm->peer.empty()
                ? std::string(find_rung(arm->arch, op_of(find_case(name).operation), arm->kernel).name)
                : arm->peer;
        if (old.value("kernel", "") != kernel) continue;
        json r{{"type", type}, {"arm", arm->name}, {"case", name}, {"measured_in", e_.measured_in}};
        for (const char* field :
             {"us", "how", "launch", "passed", "error", "reason", "remark", "gpu", "kernel"})
          if (old.contains(field)) r[field] = old[field];
        if (type == "time" && !old.value("passed", false) && !r.contains("error"))
          r["error"] = "its output is not within the tolerance";
        for (const char* field : {"device", "date", "commit"})
          r[field] = old.contains(field) ? old[field] : session.value(field, json("unknown"));
        add(std::move(r), point(type.c_str(), {arm->name, name, e_.measured_in}));
      }
    }
  }

  const Experiment& e_;
  const RunOptions& o_;
  std::vector<json> registered_;  // before the store empties the file
  Store store_;
  Stamp stamp_ = stamp_of_process();
  std::chrono::steady_clock::time_point start_;
  std::set<std::string> missing_;
  std::unique_ptr<Trial> trial_;  // of the case at hand
  std::string trial_of_;
  std::optional<Device> gpu_;
  std::optional<Timer> timer_;
  std::optional<Nvml> nvml_;
  std::unique_ptr<InputSets> sets_;
};

}  // namespace

Candidate candidate_of(const Arm& arm, const Case& c) {
  if (!arm.peer.empty()) fail("'{}' is {}, no kernel of the lab", arm.name, arm.peer);
  Candidate candidate = candidate_for(find_rung(arm.arch, op_of(c.operation), arm.kernel), c, arm.set);
  if (!arm.ptx.empty()) candidate.ptx = jit::project_root() / arm.ptx;
  if (!arm.file.empty()) candidate.source = jit::project_root() / arm.file;
  return candidate;
}

std::vector<std::string> run_experiment(const Experiment& e, const RunOptions& o) {
  if (o.device != "auto" && o.device != "emulator" && o.device != "cuda")
    fail("--device {}: auto, emulator or cuda", o.device);
  fs::create_directories(fs::path(path_of(e, o)).parent_path());
  return Run(e, o).all();
}

}  // namespace fp4lab
