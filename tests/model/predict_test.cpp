// What the model says of plans, and how it says it.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "fp4lab/error.h"
#include "fp4lab/machine.h"
#include "fp4lab/model.h"
#include "model/chip.h"
#include "model/registry.h"

using namespace fp4lab;

namespace {

Candidate blackwell(const Case& c, std::vector<std::string> knobs, std::string_view kernel = "top") {
  return candidate_for(find_rung("sm_100a", op_of(c.operation), kernel), c, knobs);
}

}  // namespace

TEST_CASE("model: every rung's own plan has a time for every full-size case, and its terms add up to it") {
  for (const Case& c : cases()) {
    if (!c.full_size) continue;
    for (const Rung* rung : rungs()) {
      if (rung->op != op_of(c.operation)) continue;
      CAPTURE(c.name);
      CAPTURE(rung->name);
      const Candidate candidate = candidate_for(*rung, c, {});
      const Prediction p = predict(candidate, c);
      const double sum = std::accumulate(p.terms.begin(), p.terms.end(), 0.0,
                                         [](double us, const Term& t) { return us + t.us; });
      CHECK(p.us == doctest::Approx(sum));
      CHECK(p.low < p.us);
      CHECK(p.us < p.high);
      // Below the bytes' own time there is none, beyond a millisecond no plan of these cases is.
      CHECK(p.us > roofline(work_of(c), machine_for(rung->arch)).memory_us);
      CHECK(p.us < 1000);
    }
  }
}

TEST_CASE("model: a ring of one stage is slower than one of six") {
  const Case c = find_case("g8k7168");
  const double one = predict(blackwell(c, {"stages=1"}, "v5"), c).us;
  const double three = predict(blackwell(c, {"stages=3"}, "v5"), c).us;
  const double six = predict(blackwell(c, {"stages=6"}, "v5"), c).us;
  CHECK(one > 1.5 * six);
  CHECK(three > six);
}

TEST_CASE("model: the SM clock is a parameter") {
  const Case c = find_case("dual-512-4096-7168");
  const Candidate plan = blackwell(c, {});
  const Prediction slow = predict(plan, c, {.machine = "B200", .sm_mhz = 1300});
  const Prediction fast = predict(plan, c, {.machine = "B200", .sm_mhz = 1965});
  CHECK(slow.us > fast.us);
  CHECK(slow.us < fast.us * 1965 / 1300);  // L2, DRAM and the launch have clocks of their own
  CHECK(slow.sm_mhz == 1300);
  // Without a named clock, its band makes the interval wider.
  const Prediction any = predict(plan, c), named = predict(plan, c, {"", any.sm_mhz});
  CHECK(any.us == named.us);
  CHECK(any.high > named.high);
}

TEST_CASE("model: a prediction says that it is one, for what, and how sure") {
  const Case c = find_case("g2k1536");
  const Prediction p = predict(blackwell(c, {}), c);
  for (const char* word : {"predicted", "B200", "MHz", "80 %", "validated"}) {
    CAPTURE(word);
    CHECK(p.text().find(word) != std::string::npos);
  }
  const nlohmann::json record = record_of(p);
  CHECK(record.at("predicted_us") == p.us);
  CHECK(record.at("machine") == "B200");
  CHECK(record.at("sm_mhz") == p.sm_mhz);
  CHECK(record.at("terms").size() == p.terms.size());
}

TEST_CASE("model: what was never measured is not validated") {
  const Case c = find_case("g8k7168");
  CHECK(predict(blackwell(c, {}, "v5"), c).validation.holds);
  CHECK_FALSE(predict(blackwell(c, {}, "v6"), c).validation.holds);  // launch control
  CHECK_FALSE(predict(blackwell(c, {}, "v0"), c).validation.holds);
  const Case small = find_case("gemm-128-7168-2048");  // one wave of pairs
  CHECK_FALSE(predict(blackwell(small, {}), small).validation.holds);
  CHECK_FALSE(predict(blackwell(c, {"pdl=1"}, "v10"), c).validation.holds);
  const Case brief = find_case("g2k1536");  // shorter than all that was measured
  CHECK_FALSE(predict(blackwell(brief, {}), brief).validation.holds);
  const Candidate hopper = candidate_for(find_rung("sm_90a", Op::kGroup, "top"), c, {});
  CHECK(predict(hopper, c).validation.holds);
}

TEST_CASE("model: a verdict on what was never measured takes twice the error, and a factor of 1.2 at least") {
  const auto is = [](std::pair<double, double> interval, double low, double high) {
    CHECK(interval.first == doctest::Approx(low));
    CHECK(interval.second == doctest::Approx(high));
  };
  is(interval_for_verdict(1.1, 1.0, 1.2, true), 1.0, 1.2);
  is(interval_for_verdict(1.1, 1.05, 1.15, false), 1.1 / 1.2, 1.1 * 1.2);
  is(interval_for_verdict(2, 1, 3, false), 0.5, 4.5);
}

TEST_CASE("model: ratios have errors of their own") {
  const Case c = find_case("g8k7168");
  const Candidate few = blackwell(c, {"stages=2"}, "v5"), many = blackwell(c, {"stages=6"}, "v5");
  const PredictedRatio up = predict_ratio(many, few, c), down = predict_ratio(few, many, c);
  CHECK(up.ratio > 1);
  CHECK(up.ratio * down.ratio == doctest::Approx(1));
  CHECK(up.low * down.high == doctest::Approx(1));
  CHECK(up.validation.points > predict(many, c).validation.points);  // pairs, not points
  CHECK(predict_ratio(few, few, c).ratio == 1);
  CHECK(up.text().find("predicted") == 0);
}

TEST_CASE("model: the fastest first, and no more than are wanted") {
  const Case c = find_case("g2k4096");
  std::vector<Candidate> plans;
  for (const char* stages : {"stages=2", "stages=6", "stages=4"})
    plans.push_back(blackwell(c, {stages}, "v5"));
  sort_by_prediction(plans, c, 2);
  REQUIRE(plans.size() == 2);
  CHECK(std::get<Plan>(plans[0].plan).stages == 6);
  CHECK(std::get<Plan>(plans[1].plan).stages == 4);
}

TEST_CASE("model: machines and plans that there are not") {
  const Case c = find_case("g2k1536");
  CHECK_THROWS_WITH_AS(predict(blackwell(c, {}), c, {.machine = "B300"}),
                       "no machine is called 'B300'; there are B200, H200, H100", Error);
  CHECK_THROWS_AS(predict(blackwell(c, {}), c, {.machine = "H200"}), Error);
  CHECK_THROWS_AS(predict(blackwell(c, {"mma_n=7"}), c), Error);
  CHECK_THROWS_AS(model::set_constant("B200.nothing=1"), Error);
  CHECK_THROWS_AS(model::set_constant("B200.fill=fast"), Error);
}

TEST_CASE("model: every constant has a unit or is a share, and a source; the roofline has the same ones") {
  for (const model::Chip& chip : model::chips())
    model::Chip::visit(chip, [&](std::string_view name, const model::Constant& c) {
      CAPTURE(chip.name);
      CAPTURE(std::string(name));
      CHECK(!c.source.empty());
    });
  CHECK(machine_for("sm_100a").bytes_per_second == model::kB200.dram_peak * 1e9);
  CHECK(machine_for("sm_90a").sms == model::kH200.sms);
}
