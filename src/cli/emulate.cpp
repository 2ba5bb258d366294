// fp4lab emulate: runs a CUDA program on the emulator, unmodified: the loader finds the emulator's driver and
// runtime libraries first.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "cli/command.h"
#include "cli/elf.h"
#include "cli/gate.h"
#include "fp4lab/driver.h"
#include "fp4lab/error.h"

namespace fp4lab::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string device, json, dump_ptx, replace_ptx;
  std::string threads, sms, timeout, step_limit;
  std::string fail_on, junit, sarif;
  uint64_t seed = 0, schedules = 1;
  int error_exitcode = 1;
  std::string trace, stop_at, watch, tile, kernel;
  bool profile = false;
  bool eager = false, check = false, strict = false, fidelity = false;
  std::vector<std::string> command;
};

// As execvp finds it.
fs::path find_program(const std::string& name) {
  if (name.find('/') != name.npos) return name;
  const char* path = std::getenv("PATH");
  std::string folders = path ? path : "/usr/local/bin:/bin:/usr/bin";
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const fs::path candidate = fs::path(folders.substr(begin, end - begin)) / name;
    if (access(candidate.c_str(), X_OK) == 0 && fs::is_regular_file(candidate)) return candidate;
    begin = end + 1;
  }
  fail("{}: no such program in PATH", name);
}

// What cannot work is said before it fails in ways that are harder to read.
void check_program(const fs::path& program, const fs::path& folder) {
  if (access(program.c_str(), X_OK) != 0) fail("{}: {}", program.string(), std::strerror(errno));
  if (fs::is_directory(program)) fail("{} is a folder, not a program", program.string());
  const ElfSummary elf = summarize_elf(program);
  if (!elf.is_elf) return;  // a script: what it starts inherits the library path
  bool runtime = false, driver = false;
  for (const std::string& name : elf.needed) {
    driver |= name == "libcuda.so.1";
    if (!name.starts_with("libcudart.so")) continue;
    runtime = true;
    if (!fs::exists(folder / name))
      fail("{} is linked with {}; the emulator has libcudart.so.13: build it with CUDA 13", program.string(),
           name);
  }
  if (elf.has_device_code && !runtime && !driver)
    fail("{} holds device code but is not linked with libcudart.so: link it with nvcc -cudart shared",
         program.string());
  if (elf.has_rpath && (runtime || driver))
    fmt::print(stderr,
               "fp4lab: {} has a DT_RPATH, which comes before the library path; if it holds CUDA's own "
               "libraries, link with -Wl,--enable-new-dtags\n",
               program.string());
}

void set(const char* variable, const std::string& value) {
  if (!value.empty()) setenv(variable, value.c_str(), 1);
}

// One watcher to a line, as FP4LAB_OBSERVE takes them.
std::string observers(const Options& o) {
  std::string lines;
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) lines += fmt::format("{}={}\n", what, value);
  };
  add("trace", o.trace), add("stop-at", o.stop_at), add("watch", o.watch), add("tile", o.tile);
  return o.profile ? lines + "profile" : lines;
}

// The program's environment, but for the seed.
void set_environment(const Options& o, const fs::path& folder) {
  const char* path = std::getenv("LD_LIBRARY_PATH");
  set("LD_LIBRARY_PATH", folder.string() + (path && *path ? std::string(":") + path : ""));
  set("FP4LAB_EMULATOR_DEVICE", o.device);
  set("FP4LAB_THREADS", o.threads);
  set("FP4LAB_SMS", o.sms);
  set("FP4LAB_OBSERVE", observers(o));
  set("FP4LAB_OBSERVE_KERNEL", o.kernel);
  set("FP4LAB_RECORD", o.json);
  set("FP4LAB_DUMP_PTX", o.dump_ptx);
  if (!o.replace_ptx.empty() && !fs::is_directory(o.replace_ptx))
    fail("--replace-ptx {}: no such folder", o.replace_ptx);
  set("FP4LAB_REPLACE_PTX", o.replace_ptx);
  set("FP4LAB_TIMEOUT", o.timeout);
  set("FP4LAB_STEP_LIMIT", o.step_limit);
  set("FP4LAB_INTERRUPT", "1");
  set("FP4LAB_PROGRESS", "1");
  if (o.eager) set("FP4LAB_EAGER", "1");
  if (o.check) set("FP4LAB_CHECK", "1"), set("FP4LAB_GO_ON", "1");
  set("FP4LAB_TOLERANT", o.strict ? "0" : "1");
  if (o.fidelity) set("FP4LAB_FIDELITY", "1");
}

[[noreturn]] void execute(const fs::path& program, const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  fail("{}: {}", program.string(), std::strerror(errno));
}

std::string seconds_trouble(const std::string& s) {
  char* end = nullptr;
  const double seconds = std::strtod(s.c_str(), &end);
  return !s.empty() && *end == 0 && seconds > 0 && seconds < 1e9
             ? std::string()
             : fmt::format("'{}' is not a number of seconds above 0", s);
}

std::string tile_trouble(const std::string& s) {
  unsigned n[5];
  char operand = 0;
  int end = 0;
  const bool good =
      std::sscanf(s.c_str(), "%u,%c,%u,%u,%u,%u%n", &n[0], &operand, &n[1], &n[2], &n[3], &n[4], &end) == 6 &&
      size_t(end) == s.size() && std::strchr("ABD", operand);
  return good ? std::string() : fmt::format("'{}' is not MMA,A|B|D,ROW,ROW,COLUMN,COLUMN", s);
}

constexpr int kTimedOut = 124;

// The program's status, 128 and the signal's number where one ended it. It ends itself at its limit of time;
// one that does not (its host code hangs) is killed some seconds behind.
int run_supervised(const Options& o, const fs::path& program, bool silent) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) fail("fork: {}", std::strerror(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // whoever ends this command ends the program
    if (silent)
      for (const int output : {STDOUT_FILENO, STDERR_FILENO})
        if (const int nowhere = open("/dev/null", O_WRONLY); nowhere >= 0) dup2(nowhere, output);
    try {
      execute(program, o.command);
    } catch (const std::exception& e) {
      fmt::print(stderr, "fp4lab: {}\n", e.what());
      _exit(2);
    }
  }
  const auto old_int = signal(SIGINT, SIG_IGN), old_quit = signal(SIGQUIT, SIG_IGN);  // the program answers
  using Clock = std::chrono::steady_clock;
  constexpr double kGrace = 5;  // seconds
  const bool limited = !o.timeout.empty();
  const auto end =
      Clock::now() +
      std::chrono::milliseconds(static_cast<int64_t>(limited ? (std::stod(o.timeout) + kGrace) * 1000 : 0));
  int status = 0;
  bool killed = false;
  for (;;) {
    const pid_t done = waitpid(child, &status, limited && !killed ? WNOHANG : 0);
    if (done == child) break;
    if (done < 0 && errno != EINTR) fail("waitpid: {}", std::strerror(errno));
    if (done == 0 && Clock::now() >= end) killed = true, kill(child, SIGKILL);
    if (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  signal(SIGINT, old_int), signal(SIGQUIT, old_quit);
  if (killed) {
    fmt::print(stderr,
               "fp4lab: the limit of {} s is over, and no launch was running: the program was killed\n",
               o.timeout);
    return kTimedOut;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream out(path, std::ios::binary);
  if (!(out << text).flush()) fail("{}: {}", path, std::strerror(errno));
}

// A file for what the emulator finds, for as long as the command runs.
struct FindingsFile {
  fs::path path = fs::temp_directory_path() / fmt::format("fp4lab-findings-{}", getpid());
  ~FindingsFile() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

int run_checked(const Options& o, const fs::path& program) {
  Gate gate(!o.fail_on.empty() ? o.fail_on : o.check ? "error" : "");
  const FindingsFile file;
  set("FP4LAB_FINDINGS", file.path.string());
  int status = 0;
  for (uint64_t k = 0; k < o.schedules; ++k) {
    fs::remove(file.path);
    set("FP4LAB_SEED", fmt::format("{}", o.seed + k));
    const int one = run_supervised(o, program, k > 0);
    if (one && !status) {
      status = one;
      if (k) fmt::print(stderr, "fp4lab: seed {}: the program's status is {}\n", o.seed + k, one);
    }
    const auto news = gate.read(file.path, o.seed + k);
    for (const GateFinding* g : news)
      if (k) fmt::print(stderr, "fp4lab: seed {}: {}{}\n", o.seed + k, g->error ? "" : "note: ", g->text);
    if (one == 130) break;  // Ctrl-C
  }
  const std::string name = program.filename().string();
  write_file(o.junit, o.junit.empty() ? "" : junit_of(gate, name));
  write_file(o.sarif, o.sarif.empty() ? "" : sarif_of(gate));
  const int result = gate.fails() ? o.error_exitcode : status;
  if (!gate.launches())
    fmt::print(stderr, "fp4lab: {} launched no kernel on the emulator: nothing was checked\n", name);
  if (const std::string summary = gate.summary(); !summary.empty())
    fmt::print(stderr, "fp4lab: {}{}{}\n", summary,
               o.schedules > 1 ? fmt::format(", {} schedules", o.schedules) : "",
               gate.fails() ? fmt::format(": exit status {}", result) : "");
  return result;
}

int run(const Options& o) {
  std::vector<std::string> looked_at;
  const std::string library = emulator_library(looked_at);
  if (library.empty())
    fail("no emulator library; looked at\n  {}\n  build it with make", fmt::join(looked_at, "\n  "));
  const fs::path folder = fs::path(library).parent_path(), program = find_program(o.command.front());
  check_program(program, folder);
  set_environment(o, folder);
  if (o.check || !o.fail_on.empty() || o.schedules > 1 || !o.timeout.empty() || !o.junit.empty() ||
      !o.sarif.empty())
    return run_checked(o, program);
  set("FP4LAB_SEED", fmt::format("{}", o.seed));
  execute(program, o.command);
}

const Command kCommand{
    "emulate", "run an unmodified CUDA program on the emulator", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option(
             "--device", o->device,
             "b200 or h200; default: the one the program was built for, b200 if it has no PTX of its own")
          .one_of({"b200", "h200"});
      app.add_option("--seed", o->seed, "seed of the schedule of asynchronous operations")
          .whole_number_from(0)
          .capture_default_str();
      app.add_option("--schedules", o->schedules,
                     "run the program N times, with --seed and the following seeds; its output is shown "
                     "once, new findings of each run are reported")
          .whole_number_from(1)
          .capture_default_str();
      app.add_option("--threads", o->threads,
                     "host threads; default: all cores. Runs are reproducible byte for byte with 1; with "
                     "more, findings are, unless CTAs race")
          .whole_number_from(1);
      app.add_option("--sms", o->sms,
                     "emulate only N SMs, e.g. to make a persistent kernel loop on a small problem")
          .whole_number_from(1);
      app.add_flag("--eager", o->eager, "complete asynchronous operations at once");
      app.add_flag("--check", o->check,
                   "report races and missing fences; the program continues after them, and the command fails "
                   "if there was an error");
      app.add_option("--fail-on", o->fail_on,
                     "which findings fail the command: error, note (and errors), or classes, e.g. "
                     "race,deadlock (notes/checkers.md); default: error with --check, otherwise none");
      app.add_option("--error-exitcode", o->error_exitcode, "exit status when findings fail the command")
          .whole_number(1, 255)
          .capture_default_str();
      app.add_option("--junit", o->junit, "write findings to this file as JUnit XML");
      app.add_option("--sarif", o->sarif, "write findings to this file as SARIF 2.1.0");
      app.add_option("--timeout", o->timeout,
                     "seconds after which the running launch ends with a report of where each warp is, and "
                     "the program with status 124 (Ctrl-C does the same, with 130)")
          .check(seconds_trouble);
      app.add_option("--step-limit", o->step_limit,
                     "maximum warp instructions per launch; beyond it the launch fails with the same report")
          .whole_number_from(1);
      app.add_flag("--strict", o->strict,
                   "stricter: reading uninitialised shared memory is an error, not a note; new device memory "
                   "is poisoned, not zero; a warp may run far ahead of the others in its cluster");
      app.add_flag("--fidelity", o->fidelity, "report at the end which executed instructions are bit-exact");
      app.add_option("--trace", o->trace, "write a trace of the launches to this file (open it in Perfetto)");
      app.add_flag("--profile", o->profile,
                   "after each launch: instructions and waits per warp role, bytes moved per path");
      app.add_option("--stop-at", o->stop_at,
                     "print registers, mbarriers and the shared memory that operands point to, when a warp "
                     "first reaches this PTX line (of --dump-ptx)")
          .whole_number_from(1);
      app.add_option(
          "--watch", o->watch,
          "print every access to this shared address or variable, and every event of an mbarrier there");
      app.add_option("--tile", o->tile,
                     "print a tile as the tensor core reads it: MMA,A|B|D,ROW,ROW,COLUMN,COLUMN, e.g. "
                     "0,A,0,7,0,0: rows 0 to 7 of A of the first MMA of CTA 0")
          .check(tile_trouble);
      app.add_option("--kernel", o->kernel,
                     "limit the five options above to kernels whose name contains this");
      app.add_option("--json", o->json,
                     "append a line of JSON per launch: kernel, module, findings, executed PTX lines");
      app.add_option("--dump-ptx", o->dump_ptx, "write the PTX of every loaded module to this folder");
      app.add_option(
          "--replace-ptx", o->replace_ptx,
          "load edited PTX from this folder in place of the program's own; same file names as --dump-ptx");
      app.add_option("command", o->command, "the program and its arguments, after --").required();
      app.examples(
          {"fp4lab emulate --check --schedules 20 --junit findings.xml -- ./program",
           "fp4lab emulate --timeout 60 --seed 3 --threads 1 -- ./program",
           "fp4lab emulate --profile --kernel my_kernel -- ./program",
           "fp4lab emulate --dump-ptx ptx -- ./program"},
          "Exit status: the program's own; with --check or --fail-on 1 (--error-exitcode) if findings\n"
          "fail, whatever the program returns; 124 at the end of --timeout, 130 on Ctrl-C, 128 + N where\n"
          "signal N ended the program; 2 for bad input or a broken environment.");
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
