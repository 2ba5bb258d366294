// Artifacts from PTX files, and artifacts onto devices.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "fp4lab/device.h"
#include "fp4lab/jit.h"
#include "jit/includes.h"

extern char** environ;

namespace fp4lab::jit {
namespace fs = std::filesystem;
namespace {

// The word after a directive at the start of a line: ".target sm_100a, debug" -> "sm_100a".
std::string directive(const std::string& ptx, const std::string& name) {
  for (size_t at = 0; (at = ptx.find(name, at)) != ptx.npos; ++at) {
    if (at && ptx[at - 1] != '\n') continue;
    const size_t begin = ptx.find_first_not_of(" \t", at + name.size());
    return ptx.substr(begin, ptx.find_first_of(" \t,\r\n", begin) - begin);
  }
  return "";
}

// Runs a program and returns its exit status; what it writes goes to `output`.
int run(const std::vector<std::string>& command, std::string& output) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) fail("pipe for {}: {}", command[0], std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error) {
    close(ends[0]);
    fail("cannot run {}: {}", command[0], std::strerror(error));
  }
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) output.append(buffer, size_t(n));
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct TemporaryFile {
  fs::path path;
  TemporaryFile() {
    std::string name = (fs::temp_directory_path() / "fp4lab-XXXXXX").string();
    const int file = mkstemp(name.data());
    if (file < 0) fail("cannot create {}: {}", name, std::strerror(errno));
    close(file);
    path = name;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

}  // namespace

ArtifactPtr load_ptx(const fs::path& file) {
  auto artifact = std::make_shared<Artifact>();
  Artifact& a = *artifact;
  a.source_path = fs::absolute(file);
  a.name = file.stem().string();
  a.source = a.ptx = read_file(file);
  if (a.ptx.find_first_not_of(" \t\r\n") == a.ptx.npos) fail("{} is empty", file.string());
  a.arch = directive(a.ptx, ".target");
  if (directive(a.ptx, ".version").empty() || a.arch.empty())
    fail("{} is not PTX: it has no .version and .target line", file.string());
  const fs::path ptxas = tool_path("ptxas");
  if (ptxas.empty()) {
    a.compiler = "the driver, at load";
    for (const std::string& name : ptx_entries(a.ptx)) a.kernels.emplace_back().name = name;
    return artifact;
  }
  TemporaryFile out;
  a.options = {"-v", "--gpu-name=" + a.arch};
  a.compiler = ptxas.string();
  if (run({ptxas.string(), a.options[0], a.options[1], a.source_path.string(), "-o", out.path.string()},
          a.log))
    fail("{} does not assemble for {} with {}\n{}", file.string(), a.arch, ptxas.string(), a.log);
  a.cubin = read_file(out.path);
  a.kernels = parse_ptxas_report(a.log);
  return artifact;
}

std::string disassemble(const std::string& cubin) {
  const fs::path nvdisasm = tool_path("nvdisasm");
  if (nvdisasm.empty())
    fail(
        "no nvdisasm in the toolkit's bin or in PATH: CUDA has one, so has the Python package "
        "nvidia-cuda-nvdisasm");
  const TemporaryFile file;
  std::ofstream(file.path, std::ios::binary) << cubin;
  std::string text;
  if (run({nvdisasm.string(), "-c", "-gi", file.path.string()}, text))
    fail("{} failed:\n{}", nvdisasm.string(), text);
  return text;
}

}  // namespace fp4lab::jit

namespace fp4lab {
Module load(const Device& device, const jit::Artifact& a) {
  const bool as_ptx = device.is_emulator() || a.cubin.empty();
  return Module(device, as_ptx ? a.ptx : a.cubin,
                fmt::format("{} ({} {})", a.source_path.string(), a.arch, as_ptx ? "PTX" : "cubin"));
}
}  // namespace fp4lab
