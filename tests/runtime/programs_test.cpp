// Programs built as by their authors (tests/programs, by nvcc with the shared runtime), run unmodified by
// `fp4lab emulate`.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
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

namespace {

std::string read_file(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

}  // namespace

TEST_CASE("programs: a check fails the command, whatever the program returns, and the program goes on") {
  if (programs().empty()) FP4LAB_SKIP("no nvcc built tests/programs");
  const std::string device = "--device h200 ";
  CHECK(emulate(device, "findings").status == 0);
  const Outcome o = emulate(device + "--check", "findings");
  INFO(o.text);
  CHECK(o.status == 1);
  CHECK(o.says("ok\n"));
  for (const char* line : {"findings.cu:10)", "findings.cu:11)", "findings.cu:20)", "findings.cu:24)"})
    CHECK_MESSAGE(o.says(line), line);
  CHECK(count_of(o.text, "fp4lab emulator: race on shared") == 2);  // each pair of CUDA lines once
  CHECK(count_of(o.text, "fp4lab emulator: illegal-address: ") == 1);
  CHECK(o.says("fp4lab: 3 errors (race, illegal-address)"));
  CHECK(o.says(" in 6 launches: exit status 1\n"));
  const Outcome right = emulate(device + "--check", "cluster");
  CHECK(right.status == 0);
  CHECK(emulate(device + "--check --error-exitcode 7", "findings").status == 7);
  CHECK(emulate(device + "--check --fail-on deadlock", "findings").status == 0);
  CHECK(emulate(device + "--fail-on illegal-address", "findings").status == 1);
  CHECK(emulate(device + "--fail-on error", "findings").status == 0);
  CHECK(emulate(device + "--fail-on note", "findings").status == 1);
  const Outcome unknown = emulate(device + "--fail-on races", "findings");
  CHECK(unknown.status == 2);
  CHECK(unknown.says("--fail-on races: error, note or a class of findings: illegal-address, "));
  CHECK(emulate(device + "--error-exitcode 0 --check", "findings").status == 2);
  CHECK(emulate(device + "--check --schedules 3", "findings")
            .says("in 18 launches, 3 schedules: exit status 1"));
}

TEST_CASE("programs: what a check finds, for programs") {
  if (programs().empty()) FP4LAB_SKIP("no nvcc built tests/programs");
  const Scratch scratch;
  const auto path = [&](const char* name) { return (scratch.folder / name).string(); };
  const auto run = [&](const std::string& options, const char* name) {
    return emulate(fmt::format("--device h200 --check {} --sarif {}", options, path(name)), "findings").text;
  };
  // The same seed, the same bytes.
  const std::string first = run("--threads 1 --seed 3 --junit " + path("junit"), "a");
  CHECK(first == run("--threads 1 --seed 3", "b"));
  CHECK(read_file(path("a")) == read_file(path("b")));
  // More threads, the same findings.
  run("--threads 2 --seed 3", "c");
  const auto set_of = [&](const char* name) {
    std::set<std::string> all;
    const auto sarif = nlohmann::json::parse(read_file(path(name)));
    CHECK(sarif.at("version") == "2.1.0");
    for (const auto& r : sarif.at("runs").at(0).at("results"))
      all.insert(r.at("ruleId").get<std::string>() + r.at("locations").dump() +
                 r.value("relatedLocations", nlohmann::json()).dump());
    return all;
  };
  CHECK(set_of("a").size() >= 3);
  CHECK(set_of("a") == set_of("c"));
  const std::string junit = read_file(path("junit"));
  CHECK(junit.find("failures=\"3\"") != junit.npos);
  CHECK(junit.find("<failure type=\"race\"") != junit.npos);
  CHECK(junit.find("findings.cu:11") != junit.npos);
  // One schema for all.
  emulate("--device h200 --check --json " + path("launches"), "findings");
  std::ifstream lines(path("launches"));
  std::set<std::string> keys;
  for (std::string line; std::getline(lines, line);) {
    const auto launch = nlohmann::json::parse(line);
    for (const auto& f : launch.at("findings")) {
      std::string all;
      for (const auto& [key, value] : f.items()) all += key + " ";
      keys.insert(all);
    }
  }
  CHECK(keys ==
        std::set<std::string>{"belongs count first kernel kind line needs place severity text then what "});
}

TEST_CASE("programs: a launch that does not end is stopped, and says where its warps stand") {
  if (programs().empty()) FP4LAB_SKIP("no nvcc built tests/programs");
  const Outcome late = emulate("--device h200 --timeout 2", "findings", "spin");
  INFO(late.text);
  CHECK(late.status == 124);
  CHECK(late.says("stopped: kernel spin: the limit of 2 s is reached; where its warps are:"));
  CHECK(late.says("warps 0-1, all 32 lanes: runs"));
  CHECK(late.says("findings.cu:28"));
  const Outcome steps = emulate("--device h200 --step-limit 100000", "findings", "spin");
  CHECK(steps.status == 1);
  CHECK(steps.says("stopped: kernel spin: the limit of 100000 warp instructions is reached"));
  const Outcome interrupted = run_command(fmt::format(
      "timeout -s INT 2 '{0}/fp4lab' emulate --device h200 --check -- '{0}/programs/findings' spin 2>&1",
      build_folder().string()));
  INFO(interrupted.text);
  CHECK(interrupted.says("stopped: kernel spin: interrupted; where its warps are:"));
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
