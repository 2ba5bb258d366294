// The Hopper kernels as far as a machine without a GPU can tell: the schedule covers the work, and ptxas
// takes every kernel that a full-size case asks for without spills.
#include <doctest/doctest.h>

#include "fp4lab/jit.h"
#include "fp4lab/problem.h"
#include "fp4lab/sm90/plan.h"

using namespace fp4lab;

namespace {

sm90::Plan plan_of(const Case& c) {
  std::vector<sm90::Shape> shapes;
  for (const Shape& s : c.shapes) shapes.push_back({unsigned(s.m), unsigned(s.n), unsigned(s.k)});
  return sm90::plan(shapes, c.operation == Operation::kDual, {});
}

}  // namespace

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
  std::vector<jit::Job> jobs{{.source = "ptx/sm90/repack.cu", .arch = "sm_90a"}};
  for (const Case& c : cases()) {
    if (!c.full_size) continue;
    const char* source = c.operation == Operation::kDual ? "ptx/sm90/dual_gemm/v0_registers.cu"
                                                         : "ptx/sm90/group_gemm/v0_registers.cu";
    jobs.push_back({.source = source, .arch = "sm_90a", .options = plan_of(c).defines()});
  }
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
