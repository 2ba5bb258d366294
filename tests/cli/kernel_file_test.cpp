// Kernel files and PTX from anywhere, in a rung's place.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../command.h"
#include "fp4lab/error.h"
#include "fp4lab/jit.h"
#include "fp4lab/json_text.h"
#include "fp4lab/run.h"
#include "fp4lab/rung.h"

using namespace fp4lab;

namespace {

namespace fs = std::filesystem;

Outcome run_fp4lab(const std::string& arguments) {
  const fs::path binary = fs::read_symlink("/proc/self/exe").parent_path() / "fp4lab";
  return run_command("'" + binary.string() + "' " + arguments + " 2>&1");
}

// A folder with copies of a rung.
struct Copies {
  fs::path folder = fs::temp_directory_path() / ("fp4lab-kernel-file-" + std::to_string(getpid()));
  std::string text;
  Copies() {
    fs::create_directories(folder);
    std::ifstream in(jit::project_root() / "ptx/sm100/group_gemm/v2_warp_specialized.cu");
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  ~Copies() { fs::remove_all(folder); }
  std::string path(const char* name) const { return (folder / name).string(); }
  // The copy, with every `from` in it now `to`.
  std::string write(const char* name, const std::string& from = "", const std::string& to = "") const {
    std::string changed = text;
    for (size_t at = 0; !from.empty() && (at = changed.find(from, at)) != changed.npos; at += to.size())
      changed.replace(at, from.size(), to);
    if (!from.empty()) REQUIRE(changed != text);
    std::ofstream(path(name)) << changed;
    return path(name);
  }
};

const std::string kCase = "group --case group:100/128/512 ", kRun = "run --device emulator " + kCase;

}  // namespace

TEST_CASE("kernel file: it runs like its rung, under its own entry too, for every command") {
  const Copies copies;
  const std::string mine = copies.write("mine.cu");
  Outcome o = run_fp4lab(kRun + "--kernel-file " + mine);
  INFO(o.text);
  CHECK(o.status == 0);
  CHECK(o.says("mine.cu"));
  CHECK(o.says("runs like v2_warp_specialized"));

  const std::string own = copies.write("own.cu", "group_gemm_v2_warp_specialized", "fast_thing");
  const std::string as = "--kernel-file " + own + " --like v2 ";
  CHECK(run_fp4lab(kRun + as).status == 0);
  CHECK(run_fp4lab("ptx " + kCase + as + "--report").says("fast_thing: "));
  CHECK(run_fp4lab("profile " + kCase + as).says("called at " + own + ":78"));
  CHECK(run_fp4lab("plan " + kCase + as).says("the model does not see changes in the kernel file"));
  CHECK(run_fp4lab("smem " + kCase + as + "--rows 0 0").says("PASS"));
  CHECK(run_fp4lab("mutate " + kCase + as + "--rule 'mbarrier wait removed' --seeds 1").says("own.cu 128x"));
  // What it is made into is PTX like any other, and knows what it was made of.
  const std::string ptx = copies.path("own.ptx");
  CHECK(run_fp4lab("ptx " + kCase + as + "--set stages=2 > " + ptx).status == 0);
  o = run_fp4lab("profile " + kCase + "--kernel v2 --ptx " + ptx);
  INFO(o.text);
  CHECK(o.says("own.ptx 128x128x256 stages=2"));
  CHECK(o.says("own.ptx:"));
}

TEST_CASE("kernel file: what is wrong with it is said") {
  const Copies copies;
  const std::string own = copies.write("own.cu", "group_gemm_v2_warp_specialized", "fast_thing");
  const auto refused = [&](const std::string& arguments, int status, const std::string& why) {
    const Outcome o = run_fp4lab(kRun + arguments);
    INFO(arguments << "\n" << o.text);
    CHECK(o.status == status);
    CHECK(o.says(why));
  };
  refused("--kernel-file " + copies.path("none.cu"), 2, "none.cu: no such file");
  refused("--kernel-file " + own, 2,
          "its header (Parent) says v1_pipeline, its header (KERNEL=) says v2_warp_specialized: choose a "
          "rung with --like RUNG");
  refused("--kernel-file " + own + " --like v77", 2, "no group GEMM kernel for sm_100a is called 'v77'");
  refused("--like v2", 2, "--like v2 needs --kernel-file");
  refused("--kernel-file " + own + " --kernel v2", 2, "--kernel-file");
  refused("--kernel-file " + copies.write("typo.cu", "drain(ring", "drian(ring"), 1,
          copies.path("typo.cu") + "(68): error: identifier \"drian\" is undefined");
  refused("--kernel-file " + copies.write("limits.cu", "plan.cta_group == 1", "plan.cta_group == 2"), 1,
          copies.path("limits.cu") + "(22): error: static assertion failed");
  std::ofstream(copies.path("two.cu")) << "extern \"C\" __global__ void a() {}\n"
                                          "extern \"C\" __global__ void b() {}\n";
  refused("--kernel-file " + copies.path("two.cu") + " --like v2", 1, "there are a, b");
}

TEST_CASE("kernel file: an edited file, or a header of it, is another point") {
  const Copies copies;
  const std::string mine = copies.write("mine.cu", "#include \"isa/fence.cuh\"",
                                        "#include \"isa/fence.cuh\"\n#include \"own.cuh\""),
                    json = copies.path("s.json");
  std::ofstream(copies.path("own.cuh")) << "// one\n";
  const std::string sweep =
      "sweep --device emulator " + kCase + "--stages 1,2 --kernel-file " + mine + " --resume --json " + json;
  const auto points = [&] {
    const Outcome o = run_fp4lab(sweep);
    INFO(o.text);
    CHECK(o.status == 0);
    std::ifstream in(json);
    size_t count = 0;
    for (std::string line; std::getline(in, line); ++count) {
      const auto r = parse_json(line);
      CHECK(r.at("kernel") == "mine.cu");
      CHECK(r.at("like") == "v2_warp_specialized");
      CHECK(r.at("file") == mine);
      CHECK(r.at("file_hash").get<std::string>().size() == 16);
      CHECK(r.at("point").get<std::string>().find(r.at("file_hash").get<std::string>()) != std::string::npos);
    }
    return count;
  };
  CHECK(points() == 2);
  CHECK(points() == 2);
  std::ofstream(copies.path("own.cuh")) << "// two\n";
  CHECK(points() == 4);
  std::ofstream(mine, std::ios::app) << "// three\n";
  CHECK(points() == 6);
}

TEST_CASE("kernel file: the rung that it is like, and the plan that PTX names") {
  const Copies copies;
  const auto like = [&](const std::string& file) { return rung_like("sm_100a", Op::kGroup, file).name; };
  CHECK(like(copies.write("any.cu")) == "v2_warp_specialized");  // by its entry
  CHECK(like(copies.write("v3.cu")) == "v2_warp_specialized");   // the entry is surer
  const auto text = [&](const char* name, const char* head) {
    std::ofstream(copies.path(name)) << head;
    return copies.path(name);
  };
  CHECK(like(text("v4_mine.cu", "//\n")) == "v4_swap");
  CHECK(like(text("mine.cu", "// Parent: v4_swap.\n")) == "v4_swap");
  CHECK_THROWS_WITH_AS(like(text("v5x.cu", "//\n")), doctest::Contains("neither its name nor its header"),
                       Error);
  CHECK_THROWS_WITH_AS(like(text("v5.cu", "// Parent: v4_swap.\n")),
                       doctest::Contains("its header (Parent) says v4_swap, its name says v5_two_cta"),
                       Error);

  const Case c = find_case("group:100/128/512");
  for (const auto& [name, arch] : {std::pair("v2", "sm_100a"), {"v15", "sm_100a"}, {"v1", "sm_90a"}}) {
    const Rung& rung = find_rung(arch, Op::kGroup, name);
    for (const std::vector<std::string>& knobs :
         {std::vector<std::string>{}, {arch == std::string("sm_90a") ? "max_tile=64" : "stages=2"}}) {
      const Candidate made = candidate_for(rung, c, knobs);
      const std::string ptx = text("k.ptx", fmt::format("{}{}\n", kPtxPlanMark, plan_line(made)).c_str());
      const Candidate read = candidate_of_ptx(rung, c, ptx);
      CHECK(plan_line(read) == plan_line(made));
      CHECK(kernel_name(read) == "k.ptx");
    }
  }
}
