// Kernels that are right make the checkers say nothing: no error, no note, whatever the schedule.
#include <doctest/doctest.h>

#include "fp4lab/emulator.h"
#include "fp4lab/run.h"

using namespace fp4lab;

TEST_CASE("checkers: every rung is silent under every schedule") {
  const Device device = Device::open("emulator", sm100::kArch);
  const auto seed =
      reinterpret_cast<decltype(&fp4lab_emulator_seed)>(device.driver().symbol("fp4lab_emulator_seed"));
  const auto check =
      reinterpret_cast<decltype(&fp4lab_emulator_check)>(device.driver().symbol("fp4lab_emulator_check"));
  check(1);
  for (const char* shape : {"group:100/128/1024", "group:1,2,17,129/256/256", "dual:130/128/768"}) {
    Trial trial(device, find_case(shape), Distribution::kModerate, 3);
    for (const sm100::Rung& rung : sm100::rungs()) {
      if (rung.op != sm100::op_of(trial.problem.spec.operation)) continue;
      CAPTURE(shape);
      CAPTURE(rung.name);
      for (uint64_t s = 0; s < 4; ++s) {
        CAPTURE(s);
        seed(s);
        const RunResult r = run_trial(device, trial, candidate_for(rung, trial.problem.spec, {}));
        CHECK_MESSAGE(r.passed(), r.error);
        CHECK(r.findings == "[]");
      }
    }
  }
  check(0);
  seed(0);
}

TEST_CASE("checkers: other numbers of stages, slots and CTAs are silent too") {
  const Device device = Device::open("emulator", sm100::kArch);
  const auto check =
      reinterpret_cast<decltype(&fp4lab_emulator_check)>(device.driver().symbol("fp4lab_emulator_check"));
  check(1);
  Trial trial(device, find_case("group:96,150/256,128/1024"), Distribution::kModerate, 3);
  const std::pair<const char*, std::vector<std::string>> plans[] = {
      {"v2", {"stages=1", "scale_slots=1"}},
      {"v3", {"stages=5", "scale_slots=2", "acc_slots=3", "ctas=2"}},
      {"v4", {"stages=2", "acc_slots=3", "ctas=1"}},
      {"v5", {"stages=3", "scale_slots=2", "acc_slots=2", "ctas=2"}},
      {"v7", {"split_k=3"}},
      {"v8", {"epilogue=tma"}},
      {"v8", {"epilogue=staged"}},
      {"v10", {"split_k=4", "ctas=6"}},
  };
  for (const auto& [name, knobs] : plans) {
    const Candidate c = candidate_for(sm100::find_rung(Op::kGroup, name), trial.problem.spec, knobs);
    CAPTURE(plan_line(c.plan));
    const RunResult r = run_trial(device, trial, c);
    CHECK_MESSAGE(r.passed(), r.error);
    CHECK(r.findings == "[]");
  }
  check(0);
}
