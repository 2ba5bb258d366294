#include "cli/mutation_subject.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "cli/child.h"
#include "fp4lab/error.h"
#include "fp4lab/json_text.h"
#include "fp4lab/run.h"

namespace fp4lab::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

void sort_in(const nlohmann::json& findings, Sighting& s) {
  for (const auto& f : findings) {
    const std::string kind = f.at("kind");
    const auto line = [&](const char* party) {
      return f.at(party).is_null() ? 0 : f.at(party).at("line").get<int>();
    };
    const std::string key = fmt::format("{} {} {}", kind, line("first"), line("then"));
    (f.at("severity") == "note" ? s.notes : s.errors).emplace(key, f.at("text"));
  }
}

class KernelSubject final : public MutationSubject {
 public:
  KernelSubject(const Case& c, const Candidate& candidate, Distribution distribution)
      : case_(c), candidate_(candidate), device_(Device::open("emulator", candidate.rung->arch)) {
    require_legal(candidate_, case_);
    check_order(device_);
    trial_.emplace(device_, case_, distribution, 1);
    texts_.push_back(
        {fs::path(kernel_name(candidate_)).stem().string() + ".ptx", artifact_of(candidate_)->ptx, {}});
    name_ = fmt::format("{} {} on {}", kernel_name(candidate_), plan_line(candidate_), case_.name);
  }
  const std::string& name() const override { return name_; }
  const std::vector<Text>& texts() const override { return texts_; }

  Sighting run(const Text* text, const std::string& ptx, uint64_t seed) override {
    symbol<decltype(&fp4lab_emulator_seed)>("fp4lab_emulator_seed")(seed);
    if (!text) observe(device_, "lines");
    const RunResult r = run_ptx(device_, *trial_, candidate_, text ? ptx : texts_[0].ptx, texts_[0].name);
    if (!text) {
      std::istringstream lines(observed(device_));
      for (int line; lines >> line;) texts_[0].executed.insert(line);
      symbol<decltype(&fp4lab_emulator_observe)>("fp4lab_emulator_observe")(nullptr);
    }
    Sighting s;
    if (r.error.find("CUDA_ERROR_INVALID_PTX") != r.error.npos) {
      s.refused = r.error;
      return s;
    }
    if (!r.findings.empty()) sort_in(parse_json(r.findings), s);
    if (!r.error.empty() && s.errors.empty())
      s.wrong = r.error;
    else if (r.error.empty() && !r.passed())
      s.wrong = r.exact.describe();
    return s;
  }

 private:
  template <class F>
  F symbol(const char* name) const {
    return reinterpret_cast<F>(device_.driver().symbol(name));
  }

  Case case_;
  Candidate candidate_;
  Device device_;
  std::optional<Trial> trial_;
  std::string name_;
  std::vector<Text> texts_;
};

// A folder that goes when it is no longer needed.
struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "fp4lab-mutate-XXXXXX").string();
    if (!mkdtemp(pattern.data())) fail("{} cannot be made", pattern);
    path = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("{} cannot be read", path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

class ProgramSubject final : public MutationSubject {
 public:
  explicit ProgramSubject(const std::vector<std::string>& command)
      : command_(command), name_(fmt::format("{}", fmt::join(command, " "))) {
    if (access(command[0].c_str(), X_OK)) fail("{}: {}", command[0], std::strerror(errno));
    fs::create_directories(folder_.path / "mutant");
  }
  const std::string& name() const override { return name_; }
  const std::vector<Text>& texts() const override { return texts_; }

  Sighting run(const Text* text, const std::string& ptx, uint64_t seed) override {
    const fs::path record = folder_.path / "record", mutant = folder_.path / "mutant";
    fs::remove(record);
    std::vector<std::string> all{fs::read_symlink("/proc/self/exe").string(),
                                 "emulate",
                                 "--check",
                                 strict_ ? "--strict" : "--check",
                                 "--seed",
                                 std::to_string(seed),
                                 "--json",
                                 record.string(),
                                 text ? "--replace-ptx" : "--dump-ptx",
                                 (text ? mutant : folder_.path / "original").string(),
                                 "--"};
    all.insert(all.end(), command_.begin(), command_.end());
    if (text) std::ofstream(mutant / text->name, std::ios::binary) << ptx;
    const auto start = std::chrono::steady_clock::now();
    const Child child = run_child(all, text ? 20 * longest_ + milliseconds(10000) : kOriginalLimit);
    if (text) fs::remove(mutant / text->name);
    Sighting s;
    std::ifstream in(record);
    for (std::string line; std::getline(in, line);) {
      const auto launch = parse_json(line);
      if (launch.contains("error")) {
        s.refused = launch.at("error");
        continue;
      }
      sort_in(launch.at("findings"), s);
      if (!text) executed(launch.at("module"), launch.at("lines"));
    }
    if (!text) {
      longest_ = std::max(longest_,
                          std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start));
      if (!said_)
        said_ = child.out;
      else
        same_ &= child.out == *said_;
    }
    if (child.timed_out)
      s.wrong = fmt::format("it did not end within {:.0f} s", double((20 * longest_).count()) / 1e3 + 10);
    else if (child.status)
      s.wrong = fmt::format("exit status {}: {}", child.status, last_line(child.out));
    else if (text && same_ && child.out != *said_)
      s.wrong = "it writes something else: " + last_line(child.out);
    // Programs that use a tcgen05.ld's result before its wait, as CUTLASS does, are not held to it.
    if (!text && strict_ && !s.errors.empty() && texts_.size() && !same_seed_again_) {
      strict_ = false, same_seed_again_ = true, said_.reset();
      return run(text, ptx, seed);
    }
    if (!text && s.wrong.empty() && texts_.empty()) s.wrong = "it has launched no kernel on the emulator";
    return s;
  }

 private:
  static constexpr milliseconds kOriginalLimit{600'000};

  static std::string last_line(std::string text) {
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  }

  void executed(const std::string& module, const nlohmann::json& lines) {
    auto it = std::ranges::find(texts_, module, &Text::name);
    if (it == texts_.end())
      it = texts_.insert(it, {module, read_file(folder_.path / "original" / module), {}});
    for (const int line : lines) it->executed.insert(line);
  }

  std::vector<std::string> command_;
  std::string name_;
  TemporaryFolder folder_;
  std::vector<Text> texts_;
  milliseconds longest_{0};
  std::optional<std::string> said_;
  bool same_ = true;  // under every schedule of the original
  bool strict_ = true, same_seed_again_ = false;
};

}  // namespace

std::unique_ptr<MutationSubject> kernel_subject(const Case& c, const Candidate& candidate,
                                                Distribution distribution) {
  return std::make_unique<KernelSubject>(c, candidate, distribution);
}

std::unique_ptr<MutationSubject> program_subject(const std::vector<std::string>& command) {
  return std::make_unique<ProgramSubject>(command);
}

}  // namespace fp4lab::cli
