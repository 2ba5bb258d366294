// Programs built as by their authors (tests/programs, by nvcc with the shared runtime), run unmodified by
// `fp4lab emulate`.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "../command.h"
#include "../skip.h"

namespace {

namespace fs = std::filesystem;

fs::path build_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

std::vector<std::string> programs() {
  std::vector<std::string> names;
  if (!fs::exists(build_folder() / "programs")) return names;
  for (const auto& file : fs::directory_iterator(build_folder() / "programs"))
    names.push_back(file.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Outcome emulate(const std::string& options, const std::string& program, const std::string& arguments = "") {
  return run_command(fmt::format("timeout 120 '{0}/fp4lab' emulate {1} -- '{0}/programs/{2}' {3} 2>&1",
                                 build_folder().string(), options, program, arguments));
}

struct Scratch {
  fs::path folder = fs::temp_directory_path() / fmt::format("fp4lab-programs-{}", getpid());
  Scratch() { fs::create_directories(folder); }
  ~Scratch() { fs::remove_all(folder); }
};

}  // namespace

TEST_CASE("programs: unmodified, on both device models, under several schedules") {
  const auto names = programs();
  if (names.empty()) FP4LAB_SKIP("no nvcc built tests/programs");
  CHECK(names.size() >= 11);
  for (const std::string& name : names)
    for (const char* options : {"--device h200", "--device b200 --seed 1", "--device b200 --eager"}) {
      const Outcome o = emulate(options, name);
      CAPTURE(name);
      CAPTURE(options);
      INFO(o.text);
      CHECK(o.status == 0);
      CHECK(o.says("ok\n"));
    }
}

TEST_CASE("programs: their output, and the emulator's messages") {
  if (programs().empty()) FP4LAB_SKIP("no nvcc built tests/programs");
  const Outcome console = emulate("--device h200", "console");
  INFO(console.text);
  CHECK(console.says("thread 3 of block 0: says 2.500 c 1099511627776 1.2e+04|42  |\n"));
  CHECK(console.says("thread is within the limit"));
  CHECK(console.says("thread (31,0,0)"));
  CHECK(!console.says("griddepcontrol.wait"));
  const Outcome early = emulate("--device h200 --check", "console");
  INFO(early.text);
  CHECK(early.says("kernel checked was launched with programmatic stream serialization"));
  CHECK(!early.says("kernel alone"));
  const Outcome refused = emulate("", "refused");
  INFO(refused.text);
  for (const char* name :
       {"cudaCreateTextureObject", "cudaMallocArray", "cudaIpcGetMemHandle", "cuNoSuchCall"}) {
    const size_t first = refused.text.find(name);
    REQUIRE(first != std::string::npos);
    CHECK_MESSAGE(refused.text.find(name, first + 1) == std::string::npos, name,
                  " is reported more than once");
  }
  CHECK(emulate("", "memory").says("new memory holds 00\n"));
  CHECK(emulate("--strict", "memory").says("new memory holds cb\n"));
  const Outcome saxpy = emulate("--device b200 --fidelity", "saxpy");
  INFO(saxpy.text);
  CHECK(saxpy.says("NVIDIA B200: 5 launches"));
  CHECK(saxpy.says("instructions exact"));
}

TEST_CASE("programs: the device model is the one they were built for, whichever library they call first") {
  if (programs().empty()) FP4LAB_SKIP("no nvcc built tests/programs");
  for (const char* first : {"", "driver", "primary", "own"}) {
    const Outcome o = emulate("", "hopper_only", first);
    INFO(std::string(first));
    INFO(o.text);
    CHECK(o.says("compute capability 9\nok\n"));
  }
}

TEST_CASE("programs: a seed repeats a run exactly") {
  if (programs().empty()) FP4LAB_SKIP("no nvcc built tests/programs");
  const Scratch scratch;
  const auto trace = [&](const char* options, const char* file) {
    const std::string path = (scratch.folder / file).string();
    const Outcome o = emulate(fmt::format("--device h200 {} --trace {}", options, path), "cluster");
    INFO(o.text);
    CHECK(o.status == 0);
    std::ifstream in(path);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  const std::string a = trace("--seed 5", "a"), b = trace("--seed 5 --threads 1", "b"),
                    c = trace("--seed 6", "c");
  CHECK(a.size() > 1000);
  CHECK(a == b);
  CHECK(a != c);
}

TEST_CASE("programs: those that cannot run get a reason") {
  const fs::path folder = build_folder();
  const auto say = [&](const std::string& arguments) {
    return run_command(fmt::format("'{}/fp4lab' emulate {} 2>&1", folder.string(), arguments));
  };
  CHECK(say("-- no-such-program-anywhere").says("no such program in PATH"));
  CHECK(say("-- ./no-such-program").says("No such file"));
  CHECK(say("--device h300 -- true").status == 2);
  CHECK(say("-- sh -c 'exit 7'").status == 7);
  CHECK(say("--seed 9 --eager -- sh -c 'echo $FP4LAB_SEED$FP4LAB_EAGER; echo $LD_LIBRARY_PATH'")
            .says("91\n" + (folder / "emulator").string()));
  CHECK(say("").status == 2);
}
