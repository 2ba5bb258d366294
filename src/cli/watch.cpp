// fp4lab watch: a kernel that is being edited, compiled, verified and compared at every save.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/versus.h"
#include "fp4lab/error.h"
#include "fp4lab/model.h"

namespace fp4lab::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

struct Options {
  OneKernel kernel;
  Numbers numbers;
  std::string device = "auto";
  Output output;
  bool check = false, ptx_diff = false;
};

template <class... Args>
void tell(fmt::format_string<Args...> text, Args&&... args) {
  fmt::print("{}", screen(fmt::format(text, std::forward<Args>(args)...)));
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Files that make a kernel, and their folders, where a header that was missing may appear. They are polled:
// editors replace files instead of writing them, and network file systems have no inotify events.
class Files {
 public:
  // Names of the files that are new or have another text than at the last call.
  std::vector<std::string> take(const std::vector<fs::path>& files) {
    std::vector<std::string> other;
    states_.clear(), count_ = files.size();
    for (const fs::path& file : files) {
      const fs::path path = fs::absolute(file).lexically_normal();
      states_[path] = state_of(path);  // before it is read: what is written meanwhile is seen by wait()
      states_[path.parent_path()] = state_of(path.parent_path());
      std::string text = text_of(path);
      const auto [old, first] = texts_.try_emplace(path);
      if (first || old->second != text) other.push_back(path.filename().string());
      old->second = std::move(text);
    }
    return other;
  }

  size_t count() const { return count_; }

  // Until something was saved and then left alone for a moment.
  void wait() {
    while (!look()) std::this_thread::sleep_for(50ms);
    // An editor that saves by renaming leaves a moment without the file.
    for (int quiet = 0, polls = 0; quiet < 2 && polls < 40; ++polls) {
      std::this_thread::sleep_for(25ms);
      quiet = look() || missing() ? 0 : quiet + 1;
    }
  }

 private:
  struct State {  // zeros: it is not there
    ino_t inode = 0;
    off_t size = 0;
    time_t seconds = 0;
    long nanoseconds = 0;
    bool operator==(const State&) const = default;
  };
  static State state_of(const fs::path& path) {
    struct stat s;
    if (stat(path.c_str(), &s)) return {};
    return {s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
  }

  bool look() {
    bool other = false;
    for (auto& [path, state] : states_)
      if (const State now = state_of(path); now != state) state = now, other = true;
    return other;
  }
  bool missing() const {
    return std::ranges::any_of(states_, [](const auto& s) { return s.second == State{}; });
  }

  std::map<fs::path, State> states_;
  size_t count_ = 0;
  std::map<fs::path, std::string> texts_;  // also of files that an earlier version included
};

// The PTX of versions that are right, to measure them beside later ones.
class Versions {
 public:
  Versions() {
    std::string name = (fs::temp_directory_path() / "fp4lab-watch-XXXXXX").string();
    if (!mkdtemp(name.data())) fail("{}: {}", name, std::strerror(errno));
    folder_ = name;
  }
  ~Versions() { remove(); }
  Versions(const Versions&) = delete;
  Versions& operator=(const Versions&) = delete;

  void remove() const {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  fs::path keep(int version, const std::string& ptx) const {
    const fs::path file = folder_ / fmt::format("version-{}.ptx", version);
    std::ofstream out(file, std::ios::binary);
    if (!(out << ptx).flush()) fail("{}: {}", file.string(), std::strerror(errno));
    return file;
  }

 private:
  fs::path folder_;
};

// As it is, a caret stays where it points.
void print_indented(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  for (size_t at = 0; (at = text.find('\n', at)) != text.npos; at += 3) text.replace(at, 1, "\n  ");
  fmt::print("  {}\n", text);
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%H:%M:%S", std::localtime(&time));
  return text;
}

class Watch {
 public:
  explicit Watch(const Options& o)
      : options_(o), spec_(o.kernel.the_case()), candidate_(o.kernel.choose(spec_)) {
    require_legal(candidate_, spec_);
    const std::string_view arch = candidate_.rung->arch;
    if (o.device == "cuda" || (o.device == "auto" && gpu_available(arch)))
      gpu_ = std::make_unique<InTurn>(o.numbers, arch);
    emulator_.emplace(open_for_kernels("emulator", arch));
    if (o.check) check_order(*emulator_);
    store_.emplace(o.output.open(*emulator_, {o.kernel.ptx, o.kernel.file.path}));
    trial_ = std::make_unique<Trial>(*emulator_, spec_, o.numbers.of(spec_.operation), o.numbers.seed);
  }

  [[noreturn]] void run() {
    files_.take(files());
    tell("Watching {}{} with {} on the emulator{}. Ctrl-C ends.\n", title(candidate_),
         files_.count() == 1 ? "" : fmt::format(" and {} headers", files_.count() - 1), spec_.name,
         gpu_ ? fmt::format(" and {}", gpu_->device().name()) : "");
    Candidate rung = candidate_;
    rung.source.clear(), rung.ptx.clear();
    if (kernel_name(rung) != kernel_name(candidate_))
      version(rung, fmt::format("{} itself", rung.rung->name));
    version(candidate_, "as it is");
    for (;;) {
      files_.wait();
      try {
        candidate_ = options_.kernel.choose(spec_);
        const std::vector<std::string> saved = files_.take(files());
        if (!saved.empty()) version(candidate_, fmt::format("{} saved", fmt::join(saved, ", ")));
      } catch (const Error& error) {
        // The folder's other files may change again and again meanwhile.
        if (error.what() != trouble_) print_indented(trouble_ = error.what());
      }
    }
  }

  // May be called from another thread, when the process ends.
  void end() const {
    versions_.remove();
    fmt::print("\n{} version{}, {} right\n", count_, count_ == 1 ? "" : "s", right_);
  }

 private:
  std::vector<fs::path> files() const {
    return candidate_.ptx.empty() ? jit::source_files(job_of(candidate_)) : std::vector{candidate_.ptx};
  }

  void version(const Candidate& candidate, const std::string& what) {
    const int number = count_++, against = before_version_;
    tell("\nversion {}  {}  {}\n", number, now(), what);
    std::fflush(stdout);
    const auto start = Clock::now();
    Versus v;
    v.spec = spec_;
    require_legal(candidate, spec_);
    v.b = look_at(*emulator_, *trial_, candidate, true);
    if (const std::string trouble = v.b->trouble(); !trouble.empty()) {
      print_indented(trouble);
      v.verdict = "wrong", v.why = trouble, v.record["run_b"] = record_of(*v.b);
    } else {
      v.a = before_;
      if (v.a)
        decide(v, gpu_.get());
      else
        v.verdict = "right", v.record["run_b"] = record_of(*v.b);
      print(v, std::chrono::duration<double>(Clock::now() - start).count());
      if (!v.bad()) {
        before_ = std::move(*v.b), before_version_ = number, ++right_;
        before_->candidate.ptx = versions_.keep(number, before_->artifact->ptx);
        limit_steps();
      }
    }
    std::fflush(stdout);
    store_->add(record_of(v, name(against), name(number)));
  }

  // An endless loop ends soon: many times what the last right version took is enough for any other.
  void limit_steps() const {
    constexpr unsigned long long kTimes = 20, kAtLeast = 1'000'000;
    if (const auto limit = reinterpret_cast<decltype(&fp4lab_emulator_step_limit)>(
            emulator_->driver().symbol("fp4lab_emulator_step_limit")))
      limit(std::max(kAtLeast, kTimes * before_->run.emulated->warp_instructions));
  }

  static std::string name(int version) { return version < 0 ? "" : fmt::format("version {}", version); }

  void print(const Versus& v, double seconds) const {
    const RunResult& r = v.b->run;
    const Prediction p = predict(v.b->candidate, spec_);
    tell("  right in {} elements; {}; {:.1f} s\n", r.exact.count,
         !v.time_b.empty() && gpu_ ? fmt::format("measured {} us", v.time_b)
                                   : fmt::format("predicted {:.2f} us ({:.1f}-{:.1f})", p.us, p.low, p.high),
         seconds);
    if (!v.a || v.a->run.plan != r.plan) tell("  {}: {}\n", r.plan, p.text());
    if (!r.notes.empty()) print_indented(r.notes);
    if (!v.a) return;
    const bool equal = v.predicted_a && v.predicted_a->us == v.predicted_b->us;  // the model cannot tell
    tell("  Against {}: {}{}{}\n", name(before_version_), v.verdict,
         v.ratio && v.verdict != "same" && !equal
             ? fmt::format(", speedup {:.3f} ({:.2f}-{:.2f})", v.ratio->value, v.ratio->low, v.ratio->high)
             : "",
         v.why.empty() ? "" : ": " + v.why);
    if (const auto counts = changed_counts(*v.a, *v.b); !counts.empty())
      tell("  {}\n", fmt::join(counts, ", "));
    if (v.ptx && !v.ptx->same) print_indented(ptx_text(*v.ptx, options_.ptx_diff));
  }

  const Options& options_;
  Case spec_;
  Candidate candidate_;
  std::unique_ptr<InTurn> gpu_;
  std::optional<Device> emulator_;
  std::optional<Store> store_;
  std::unique_ptr<Trial> trial_;
  Files files_;
  Versions versions_;
  std::optional<Look> before_;  // the last version that was right
  int before_version_ = -1;
  int count_ = 0, right_ = 0;
  std::string trouble_;
};

const Command kCommand{
    "watch", "compile, verify, predict and compare a kernel at every save", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      o->kernel.declare(app);
      o->kernel.declare_ptx(app);
      app.add_option("--device", o->device,
                     "cuda: measure against the version before; emulator: predict; auto: cuda if there is a "
                     "GPU that can run the kernels")
          .capture_default_str()
          .one_of({"auto", "cuda", "emulator"});
      app.add_flag("--check", o->check, "also fail on races and missing fences (the order checker)");
      app.add_flag("--ptx-diff", o->ptx_diff, "print all differences of the PTX");
      o->numbers.declare(app);
      o->output.declare(app);
      app.examples({"fp4lab watch group --case g2k1536 --kernel-file my.cu --like v2",
                    "fp4lab watch group --case group:100/128/1024 --ptx k.ptx --check",
                    "fp4lab watch dual --case dual:256/128/512 --kernel v3"},
                   "Watches the kernel's file and every project header it includes. Versions that do not\n"
                   "compile or are wrong are reported; the next one is compared with the last correct one.\n"
                   "A small case takes under a second. Ctrl-C ends with status 0.");
      return [o] {
        Watch watch(*o);
        const OnInterrupt interrupt([&] { watch.end(); }, true);
        watch.run();
        return 0;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
