// fp4lab compare: verdicts, and what differs.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../command.h"
#include "fp4lab/jit.h"
#include "fp4lab/json_text.h"

namespace {

namespace fs = std::filesystem;

Outcome run_fp4lab(const std::string& arguments) {
  const fs::path binary = fs::read_symlink("/proc/self/exe").parent_path() / "fp4lab";
  return run_command("env -u COLUMNS '" + binary.string() + "' " + arguments + " 2>&1");
}
Outcome compare(const std::string& arguments) {
  return run_fp4lab("compare --device emulator --arch sm_100a " + arguments);
}

struct Scratch {
  fs::path folder = fs::temp_directory_path() / ("fp4lab-compare-" + std::to_string(getpid()));
  Scratch() { fs::create_directories(folder); }
  ~Scratch() { fs::remove_all(folder); }
  std::string file(const char* name) const { return (folder / name).string(); }
  // v2 with one text in place of another.
  std::string edited(const char* name, const std::string& from, const std::string& to) const {
    std::ifstream in(fp4lab::jit::project_root() / "ptx/sm100/group_gemm/v2_warp_specialized.cu");
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const size_t at = text.find(from);
    REQUIRE(at != text.npos);
    std::ofstream(file(name)) << text.replace(at, from.size(), to);
    return file(name);
  }
};

constexpr const char* kSmall = " --case group:100/128/1024";

}  // namespace

TEST_CASE("compare: the ladder's first steps and its top, on one screen") {
  CHECK(compare("v2 top --case g8k7168 --csv").says(",faster"));
  const Outcome o = compare("v2 top --case g2k1536");
  INFO(o.text);
  CHECK(o.status == 0);
  CHECK(o.says("Predicted, not measured"));
  CHECK(o.says("before its first product"));
  CHECK(o.says("full_barrier  v2_warp_specialized.cu:78"));
  size_t lines = 0;
  std::istringstream in(o.text);
  for (std::string line; std::getline(in, line); ++lines) CHECK(line.size() <= 100);
  CHECK(lines <= 50);
}

TEST_CASE("compare: a plan is the same as itself, and knobs are another plan") {
  const Scratch scratch;
  const Outcome o = compare("v2 v2:stages=6" + std::string(kSmall) + " --json " + scratch.file("c.json"));
  INFO(o.text);
  CHECK(o.status == 0);
  CHECK(o.says("same: equal plan and PTX"));
  std::ifstream in(scratch.file("c.json"));
  std::string line;
  REQUIRE(std::getline(in, line));
  const auto r = fp4lab::parse_json(line);
  CHECK(r.at("type") == "comparison");
  CHECK(r.at("verdict") == "same");
  CHECK(r.at("run_a").at("counts").at("MMAs") == 16);
  CHECK(r.at("run_a").at("profile").at("products") == 16);
  // A slower ring is slower both ways.
  CHECK(compare("v2 v2:stages=1 --case g2k1536 --csv").says(",slower"));
  CHECK(compare("v2:stages=1 v2 --case g2k1536 --csv").says(",faster"));
}

TEST_CASE("compare: an edited file of the same plan is undecided, and what differs is told") {
  const Scratch scratch;
  const std::string mine = scratch.edited("mine.cu", "      prefetch_maps(args, tile.group);\n", "");
  Outcome o = compare("v2 " + mine + kSmall);
  INFO(o.text);
  CHECK(o.status == 0);
  CHECK(o.says("mine.cu (like v2_warp_specialized)"));
  CHECK(o.says("undecided: equal plans, different PTX"));
  CHECK(o.says("prefetch.tensormap"));
  // The same with PTX; its last line names the plan.
  CHECK(
      run_fp4lab("ptx group --kernel v2 --set stages=2" + std::string(kSmall) + " > " + scratch.file("k.ptx"))
          .status == 0);
  o = compare("v2:stages=2 " + scratch.file("k.ptx") + kSmall);
  INFO(o.text);
  CHECK(o.says("same: equal plan and PTX"));
}

TEST_CASE("compare: wrong output has no time, and what cannot be is refused") {
  const Scratch scratch;
  const std::string wrong = scratch.edited("wrong.cu", "tile, k_tile > 0", "tile, k_tile > 1");
  Outcome o = compare("v2 " + wrong + kSmall);
  INFO(o.text);
  CHECK(o.status == 1);
  CHECK(o.says("wrong: B: "));
  CHECK(!o.says("Terms of the predicted us"));
  o = compare("v2 v2:stages=99" + std::string(kSmall));
  INFO(o.text);
  CHECK(o.status == 1);
  CHECK(o.says("refused: B cannot run"));
  CHECK(compare("v2" + std::string(kSmall)).status == 2);
  CHECK(compare("v2 none.cu" + std::string(kSmall)).says("none.cu: no such file"));
  CHECK(compare("v2 v2:stages" + std::string(kSmall)).status == 2);
  CHECK(compare("v2 v77" + std::string(kSmall)).says("v77"));
}

TEST_CASE("compare: files of records, best against best") {
  const Scratch scratch;
  const auto record = [](const char* plan, double us, double noise) {
    return nlohmann::json{{"type", "sweep"},
                          {"case", "g2k1536"},
                          {"kernel", "v2_warp_specialized"},
                          {"plan", plan},
                          {"point", plan},
                          {"passed", true},
                          {"device", "a GPU"},
                          {"us", {{"median", us}, {"p10", us - noise}, {"p90", us + noise}}}}
               .dump() +
           "\n";
  };
  std::ofstream(scratch.file("a.json")) << record("p", 10, 0.1) << record("q", 8, 0.1);
  std::ofstream(scratch.file("b.json")) << record("p", 6, 0.1) << record("q", 9, 0.1);
  std::ofstream(scratch.file("c.json")) << record("p", 8.1, 0.5);
  Outcome o = compare(scratch.file("a.json") + " " + scratch.file("b.json"));
  INFO(o.text);
  CHECK(o.status == 0);
  CHECK(o.says("1.333"));
  CHECK(o.says("faster"));
  CHECK(o.says("A v2_warp_specialized q, B v2_warp_specialized p"));
  CHECK(compare(scratch.file("a.json") + " " + scratch.file("c.json")).says("undecided"));
  CHECK(compare(scratch.file("a.json") + " v2").status == 2);
  // A case without a time in one of them.
  std::ofstream(scratch.file("d.json")) << R"({"type": "run", "case": "g2k1536", "passed": true})"
                                        << "\n";
  o = compare(scratch.file("a.json") + " " + scratch.file("d.json"));
  INFO(o.text);
  CHECK(o.status == 0);
  CHECK(o.says("no time, measured or predicted, in both files"));
}

TEST_CASE("compare: predicted records are judged by the model, apart from measured ones") {
  const Scratch scratch;
  const std::string sweep = "sweep group --device emulator --case group:100/128/1024,group:64/128/512 ";
  const std::string one = scratch.file("one.json"), two = scratch.file("two.json");
  REQUIRE(run_fp4lab(sweep + "--kernel v2 --stages 1 --json " + one).status == 0);
  REQUIRE(run_fp4lab(sweep + "--kernel v2 --stages 1,4 --json " + two).status == 0);
  Outcome o = compare(one + " " + two);
  INFO(o.text);
  CHECK(o.status == 0);
  CHECK(o.says("A: predicted us"));
  CHECK(!o.says("A: measured us"));
  CHECK(o.says("faster"));
  CHECK(compare(one + " " + one).says("one kernel and plan"));
  // A time that was measured stands in a table of its own.
  for (const std::string& file : {one, two}) {
    std::ofstream out(file, std::ios::app);
    out << nlohmann::json{{"type", "sweep"},
                          {"case", "g2k1536"},
                          {"kernel", "v2_warp_specialized"},
                          {"plan", "p"},
                          {"point", "p"},
                          {"passed", true},
                          {"device", "a GPU"},
                          {"us", {{"median", 8}, {"p10", 7.9}, {"p90", 8.1}}}}
               .dump()
        << "\n";
  }
  o = compare(one + " " + two);
  INFO(o.text);
  CHECK(o.says("A: predicted us"));
  CHECK(o.says("A: measured us"));
}
