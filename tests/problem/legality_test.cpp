#include "fp4lab/legality.h"

#include <doctest/doctest.h>

using namespace fp4lab;

namespace {

bool has(const std::vector<Reason>& reasons, std::string_view rule) {
  for (const auto& reason : reasons)
    if (reason.rule == rule) return true;
  return false;
}

}  // namespace

TEST_CASE("the default plan is legal") {
  CHECK(plan_reasons(Plan{}).empty());
  CHECK(shape_reasons(Plan{}, 1, 128, 256).empty());
}

TEST_CASE("NVFP4 has no M = 64, and the reason says what to do instead") {
  Plan p;
  p.mma_m = 64;
  const auto reasons = plan_reasons(p);
  REQUIRE(has(reasons, "mma_m"));
  CHECK(reasons[0].text.find("9.7.16.2.1") != std::string::npos);
  CHECK(reasons[0].text.find("swap") != std::string::npos);
  const auto explained = explain_tile(64, 128, 256);
  REQUIRE(explained.size() == 3);
  CHECK(explained[1].text.find("128x64x256 swapped") != std::string::npos);
  CHECK(explain_tile(128, 128, 256).empty());
  CHECK(explain_tile(256, 256, 256).empty());
  CHECK(!explain_tile(128, 12, 256).empty());
  CHECK(!explain_tile(128, 128, 100).empty());
}

TEST_CASE("M and N of the instruction") {
  Plan p;
  p.mma_m = 256;
  CHECK(has(plan_reasons(p), "mma_m"));
  p.cta_group = 2, p.roles = Roles::kSpecialized, p.scale_copy = ScaleCopy::kTensor;
  CHECK(plan_reasons(p).empty());
  p.mma_n = 24, p.n_step = 8;
  CHECK(has(plan_reasons(p), "mma_n"));
  CHECK(has(plan_reasons(p), "n_step"));
  p = Plan{};
  for (int n : {0, 4, 12, 264}) {
    p.mma_n = n;
    CHECK(has(plan_reasons(p), "mma_n"));
  }
}

TEST_CASE("shared memory: the limit is found, one stage more is refused with the numbers") {
  Plan p;
  p.roles = Roles::kSpecialized;
  const int most = most_stages(p);
  CHECK(most == 6);  // 36864 bytes each
  p.stages = most;
  CHECK(plan_reasons(p).empty());
  p.stages = most + 1;
  const auto reasons = plan_reasons(p);
  REQUIRE(has(reasons, "shared memory"));
  CHECK(reasons[0].text.find("232448") != std::string::npos);
  CHECK(reasons[0].text.find("enough for 6 stages") != std::string::npos);
}

TEST_CASE("TMEM: accumulators and scales share 512 columns") {
  Plan p;
  p.mma_n = 256, p.acc_slots = 2, p.schedule = Schedule::kStatic, p.roles = Roles::kSpecialized;
  CHECK(has(plan_reasons(p), "TMEM"));
  p.mma_n = 128;
  CHECK(plan_reasons(p).empty());
}

TEST_CASE("stages are bounded by shared memory, scale buffers by TMEM and the stages") {
  Plan p;
  p.op = Op::kDual, p.mma_m = 256, p.mma_n = 64, p.cta_group = 2, p.multicast = true;
  p.roles = Roles::kSpecialized, p.schedule = Schedule::kStatic, p.scale_copy = ScaleCopy::kTensor;
  CHECK(most_stages(p) == 7);  // 30720 bytes each
  p.stages = 7;
  p.acc_slots = 1;  // 128 columns for both products; 48 for a stage's scales
  CHECK(most_scale_slots(p) == 7);
  p.acc_slots = 2;
  CHECK(most_stages(p) == 7);
  CHECK(most_scale_slots(p) == 5);
  p.acc_slots = 4;
  CHECK(most_scale_slots(p) == 0);
}

TEST_CASE("shapes") {
  Plan p;
  CHECK(has(shape_reasons(p, 0, 128, 256), "M"));
  CHECK(has(shape_reasons(p, 1, 192, 256), "N"));
  CHECK(has(shape_reasons(p, 1, 128, 100), "K"));
  p.swap = true, p.mma_n = 96;
  CHECK(shape_reasons(p, 96, 128, 256).empty());
  CHECK(has(shape_reasons(p, 97, 128, 256), "mma_n"));
}
