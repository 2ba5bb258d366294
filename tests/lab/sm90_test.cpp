// The Hopper kernels as far as a machine without a GPU can tell: the schedule covers the work, and ptxas
// takes every kernel that a full-size case asks for without spills.
#include "fp4lab/sm90.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "fp4lab/jit.h"
#include "fp4lab/problem.h"

using namespace fp4lab;

namespace {

Candidate candidate_of(const Case& c) {
  return candidate_for(find_rung(sm90::kArch, op_of(c.operation), "top"), c, {});
}
sm90::Plan plan_of(const Case& c) { return std::get<sm90::Plan>(candidate_of(c).plan); }

}  // namespace

TEST_CASE("Hopper: every rung has a file") {
  for (const Rung& rung : sm90::rungs()) CHECK(std::filesystem::exists(jit::project_root() / rung.file()));
}

TEST_CASE("Hopper: every full-size case has a schedule within the machine's limits") {
  for (const Case& c : cases()) {
    if (!c.full_size) continue;
    CAPTURE(c.name);
    const sm90::Plan p = plan_of(c);
    INFO(p.describe());
    CHECK(p.shared_bytes <= 232448);  // 227 KiB: CUDA programming guide, compute capability 9.0
    CHECK(p.ctas <= 132);
    CHECK(p.pieces > 0);
    CHECK(p.work.size() == size_t(p.units) * p.pieces_per_unit);
  }
}

TEST_CASE("Hopper: every kernel of a full-size case assembles for sm_90a without spills") {
  std::vector<jit::Job> jobs;
  for (const Case& c : cases())
    if (c.full_size) jobs.push_back(job_of(candidate_of(c)));
  for (const jit::Outcome& o : jit::compile_all(jobs)) {
    INFO(o.error);
    REQUIRE(o.artifact);
    for (const jit::KernelReport& k : o.artifact->kernels) {
      CAPTURE(k.name);
      CHECK(k.spill_stores == 0);
      CHECK(k.spill_loads == 0);
    }
  }
}
