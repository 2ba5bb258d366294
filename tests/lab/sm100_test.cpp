// The ladder of Blackwell kernels, without running them: rows, plans and what ptxas says. Running them is
// sm100_run_test.cpp.
#include "fp4lab/sm100.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "../message.h"
#include "fp4lab/error.h"
#include "fp4lab/jit.h"
#include "fp4lab/run.h"

using namespace fp4lab;

TEST_CASE("every rung has a file, a parent that exists, and knobs that exist") {
  std::set<std::string> seen;
  for (const auto& rung : sm100::rungs()) {
    CAPTURE(rung.file());
    CHECK(std::filesystem::exists(jit::project_root() / rung.file()));
    CHECK(seen.insert(rung.file()).second);
    if (!rung.parent.empty()) CHECK_NOTHROW(sm100::find_rung(rung.op, rung.parent));
    std::string_view rest = rung.knobs;
    while (!rest.empty()) {
      const auto space = rest.find(' ');
      CHECK_NOTHROW(knob_value(Plan{}, rest.substr(0, space)));
      rest = space == std::string_view::npos ? "" : rest.substr(space + 1);
    }
  }
}

TEST_CASE("every kernel file has a row") {
  for (const Op op : {Op::kGroup, Op::kDual})
    for (const std::string_view arch : architectures()) {
      const std::filesystem::path folder =
          std::filesystem::path(rungs(arch, op).front()->file()).parent_path();
      for (const auto& file : std::filesystem::directory_iterator(jit::project_root() / folder)) {
        const std::string name = (folder / file.path().filename()).string(),
                          stem = file.path().stem().string();
        const auto all = rungs(arch, op);
        const bool known =
            std::ranges::any_of(all, [&](const fp4lab::Rung* rung) { return rung->name == stem; });
        CHECK_MESSAGE(known, name, " has no row. Add one to kRungs in src/lab/",
                      folder.parent_path().filename().string(),
                      "/rungs.cpp, with its parent, idea and knobs: {\"", stem,
                      "\", \"PARENT\", \"IDEA\", \"KNOBS\"}");
      }
    }
}

TEST_CASE("each ladder names its top, wherever the row stands") {
  for (const Op op : {Op::kGroup, Op::kDual})
    for (const std::string_view arch : architectures()) {
      CAPTURE(arch);
      const auto all = rungs(arch, op);
      CHECK(std::ranges::count_if(all, [](const fp4lab::Rung* rung) { return rung->alias == "top"; }) == 1);
      CHECK(find_rung(arch, op, "top").alias == "top");
      CHECK(&find_rung(arch, op, "default") == &find_rung(arch, op, "top"));
    }
  CHECK(find_rung("sm_100a", Op::kGroup, "top").name == "v15_top");
  CHECK(find_rung("sm_100a", Op::kDual, "top").name == "v7_top");
}

TEST_CASE("knobs are named once, by names that there are") {
  const Case c = find_case("g2k1536");
  const fp4lab::Rung& rung = find_rung("sm_100a", Op::kGroup, "v2");
  CHECK(has(message_of([&] {
              candidate_for(rung, c, {"stages=2", "mma_n=64", "stages=2"});
            }),
            "knob stages is set twice: stages=2, mma_n=64, stages=2"));
  CHECK(has(message_of([&] { candidate_for(rung, c, {"stage=2"}); }), "did you mean stages?"));
  CHECK(
      has(message_of([&] { candidate_for(rung, c, {"warpgroups=2"}); }), "is a knob of the sm_90a kernels"));
  CHECK(has(message_of([&] { candidate_for(rung, c, {"stages"}); }), "not of the form knob=value"));
  for (const std::string_view arch : architectures()) {
    const Candidate candidate = candidate_for(find_rung(arch, Op::kGroup, "top"), c, {});
    CHECK(knob_values(candidate).size() == knob_table(arch).size());
  }
}

TEST_CASE("asm is in ptx/isa and nowhere else") {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(jit::project_root() / "ptx")) {
    if (!entry.is_regular_file() || entry.path().parent_path().filename() == "isa") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    CAPTURE(entry.path().string());
    CHECK(text.find("asm(") == std::string::npos);
    CHECK(text.find("asm volatile") == std::string::npos);
  }
}

TEST_CASE("rungs are found by name and by number") {
  CHECK(sm100::find_rung(Op::kGroup, "v2").name == "v2_warp_specialized");
  CHECK(sm100::find_rung(Op::kDual, "v0_baseline").op == Op::kDual);
  CHECK_THROWS_AS(sm100::find_rung(Op::kGroup, "v"), Error);
}

TEST_CASE("every rung has a legal plan for every case") {
  for (const Case& c : cases())
    for (const auto& rung : sm100::rungs()) {
      if (rung.op != op_of(c.operation)) continue;
      const Plan plan = sm100::default_plan(rung, c);
      CAPTURE(c.name);
      CAPTURE(rung.name);
      CAPTURE(plan_line(plan));
      std::string text;
      for (const auto& reason : sm100::reasons(rung, plan, c)) text += reason.text + "\n";
      CHECK(text == "");
    }
}

TEST_CASE("a plan that a rung does not implement is refused before compiling") {
  const Case c = find_case("g2k1536");
  const auto& rung = sm100::find_rung(Op::kGroup, "v0");
  Plan plan = sm100::default_plan(rung, c);
  set_knob(plan, "stages=2");
  CHECK_THROWS_WITH_AS(require_legal({&rung, plan, {}}, c),
                       "v0_baseline cannot run g2k1536 with plan 128x128x256 stages=2 group_capacity=2:\n"
                       "  rung: the baseline has one working warp and one stage",
                       Error);
}

TEST_CASE("tiles, padding and busy SMs of a plan") {
  // Two groups, M 192 and 320: unswapped, 128-row tiles pad 192 to 256 and 320 to 384.
  const Case c = find_case("g2k4096");
  const auto& rung = sm100::find_rung(Op::kGroup, "v2");
  const auto work = sm100::placement(sm100::default_plan(rung, c), c, 148);
  CHECK(work.tiles == (2 + 3) * 24);
  CHECK(work.ctas == 120);
  CHECK(work.rows_used == doctest::Approx(512.0 / 640.0));
  CHECK(work.busy == doctest::Approx(120.0 / 148.0));
  // Swapped, tokens in steps of 8: nothing is padded.
  const auto& swap = sm100::find_rung(Op::kGroup, "v4");
  CHECK(sm100::placement(sm100::default_plan(swap, c), c, 148).rows_used == doctest::Approx(1.0));
}

TEST_CASE("every rung assembles for sm_100a without spills or local memory") {
  std::vector<jit::Job> jobs;
  std::vector<const sm100::Rung*> rungs;
  for (const auto& rung : sm100::rungs())
    for (const char* name :
         {"g8k7168", "g2k1536", "gemm-128-7168-16384", "dual-256-4096-7168", "dual-512-3072-7168"}) {
      const Case c = find_case(name);
      if (rung.op != op_of(c.operation)) continue;
      jobs.push_back(job_of({&rung, sm100::default_plan(rung, c), {}}));
      rungs.push_back(&rung);
    }
  const auto outcomes = jit::compile_all(jobs);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    CAPTURE(rungs[i]->file());
    CAPTURE(jobs[i].options.front());
    REQUIRE_MESSAGE(outcomes[i].artifact, outcomes[i].error);
    const auto& report = outcomes[i].artifact->kernel(rungs[i]->entry());
    CHECK(report.spill_stores == 0);
    CHECK(report.spill_loads == 0);
    CHECK(report.stack_frame == 0);
    CHECK(report.registers > 0);
    CHECK(outcomes[i].artifact->ptx.find(".local") == std::string::npos);
  }
}
