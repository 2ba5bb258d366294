// fp4lab emulate: runs a CUDA program on the emulator, unmodified: the loader finds the emulator's driver and
// runtime libraries first.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/elf.h"
#include "fp4lab/driver.h"
#include "fp4lab/error.h"

namespace fp4lab::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string device, json, dump_ptx, replace_ptx;
  std::string seed, threads, sms;
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

int run(const Options& o) {
  std::vector<std::string> looked_at;
  const std::string library = emulator_library(looked_at);
  if (library.empty())
    fail("no emulator library; looked at\n  {}\n  build it with make", fmt::join(looked_at, "\n  "));
  const fs::path folder = fs::path(library).parent_path(), program = find_program(o.command.front());
  check_program(program, folder);

  const char* path = std::getenv("LD_LIBRARY_PATH");
  set("LD_LIBRARY_PATH", folder.string() + (path && *path ? std::string(":") + path : ""));
  set("FP4LAB_EMULATOR_DEVICE", o.device);
  set("FP4LAB_SEED", o.seed);
  set("FP4LAB_THREADS", o.threads);
  set("FP4LAB_SMS", o.sms);
  set("FP4LAB_OBSERVE", observers(o));
  set("FP4LAB_OBSERVE_KERNEL", o.kernel);
  set("FP4LAB_RECORD", o.json);
  set("FP4LAB_DUMP_PTX", o.dump_ptx);
  if (!o.replace_ptx.empty() && !fs::is_directory(o.replace_ptx))
    fail("--replace-ptx {}: no such folder", o.replace_ptx);
  set("FP4LAB_REPLACE_PTX", o.replace_ptx);
  if (o.eager) set("FP4LAB_EAGER", "1");
  if (o.check) set("FP4LAB_CHECK", "1");
  set("FP4LAB_TOLERANT", o.strict ? "0" : "1");
  if (o.fidelity) set("FP4LAB_FIDELITY", "1");

  std::vector<char*> arguments;
  for (const std::string& a : o.command) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  fail("{}: {}", program.string(), std::strerror(errno));
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

const Command kCommand{
    "emulate", "run a CUDA program on the emulator: fp4lab emulate [options] -- ./program arguments",
    [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option(
             "--device", o->device,
             "b200 or h200; default: what the program was built for, b200 if it brings no PTX of its own")
          .one_of({"b200", "h200"});
      app.add_option("--seed", o->seed,
                     "of the order in which asynchronous work completes; the same seed, the same run")
          .whole_number_from(0);
      app.add_option("--threads", o->threads,
                     "host threads; default: all cores. The run does not depend on it")
          .whole_number_from(1);
      app.add_option("--sms", o->sms,
                     "only so many SMs: a persistent kernel takes several tiles with a small problem")
          .whole_number_from(1);
      app.add_flag("--eager", o->eager, "asynchronous work completes at once");
      app.add_flag("--check", o->check,
                   "a launch fails when accesses are ordered by luck only (races, missing fences)");
      app.add_flag("--strict", o->strict,
                   "a load of shared memory that nobody wrote is a fault, not poison and a note; new device "
                   "memory is poisoned, not zero; a warp may run on while others of its cluster stand");
      app.add_flag("--fidelity", o->fidelity, "say at the end which of the executed instructions are exact");
      app.add_option("--trace", o->trace, "write a trace of the launches to this file, for Perfetto");
      app.add_flag("--profile", o->profile,
                   "behind each launch: what each kind of warp did and waited for, bytes by path");
      app.add_option("--stop-at", o->stop_at,
                     "registers, mbarriers and the shared memory that operands point to, when warps first "
                     "come to this line of the PTX (--dump-ptx)")
          .whole_number_from(1);
      app.add_option("--watch", o->watch,
                     "every access to this shared address (or variable), every event of an mbarrier there");
      app.add_option(
             "--tile", o->tile,
             "what the tensor core sees: MMA,A|B|D,ROW,ROW,COLUMN,COLUMN, as 0,A,0,7,0,0 for the rows "
             "0 to 7 of A of the first product of CTA 0")
          .check(tile_trouble);
      app.add_option("--kernel", o->kernel, "the five above look at kernels only whose name holds this");
      app.add_option("--json", o->json,
                     "append a line of JSON for each launch: kernel, module, findings, executed PTX lines");
      app.add_option("--dump-ptx", o->dump_ptx,
                     "write the PTX of every module that is loaded to this folder");
      app.add_option("--replace-ptx", o->replace_ptx,
                     "load the file of this folder that has the name --dump-ptx gives, instead of the "
                     "program's own PTX: an edited copy");
      app.add_option("command", o->command, "the program and its arguments, behind --").required();
      app.examples({"fp4lab emulate --check -- ./program arguments",
                    "fp4lab emulate --profile --kernel my_kernel -- ./program",
                    "fp4lab emulate --dump-ptx ptx -- ./program"});
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
