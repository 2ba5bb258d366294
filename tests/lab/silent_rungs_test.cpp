// Kernels that are right make the checkers say nothing: no error, no note, whatever the schedule.
#include <doctest/doctest.h>

#include "fp4lab/emulator.h"
#include "fp4lab/run.h"

using namespace fp4lab;

namespace {

struct Checked {
  explicit Checked(std::string_view arch) : device(Device::open("emulator", arch)) {
    symbol(&fp4lab_emulator_check, "fp4lab_emulator_check")(1);
  }
  ~Checked() {
    symbol(&fp4lab_emulator_check, "fp4lab_emulator_check")(0);
    seed(0);
  }
  template <class F>
  F* symbol(F*, const char* name) {
    return reinterpret_cast<F*>(device.driver().symbol(name));
  }
  void seed(uint64_t s) { symbol(&fp4lab_emulator_seed, "fp4lab_emulator_seed")(s); }

  void silent(Trial& trial, const Candidate& c) {
    CAPTURE(trial.problem.spec.name);
    CAPTURE(c.rung->name);
    CAPTURE(plan_line(c));
    const RunResult r = run_trial(device, trial, c);
    CHECK_MESSAGE(r.passed(), r.error);
    if (c.rung->arch ==
        "sm_90a")  // slots are given back without the proxy fence that the manual's examples have
      CHECK(r.findings.find("\"severity\":\"error\"") == std::string::npos);
    else
      CHECK(r.findings == "[]");
  }

  Device device;
};

}  // namespace

TEST_CASE("checkers: every rung is silent under every schedule") {
  Checked lab("sm_100a");
  for (const char* shape : {"group:100/128/1024", "group:1,2,17,129/256/256", "dual:130/128/768"}) {
    Trial trial(lab.device, find_case(shape), Distribution::kModerate, 3);
    for (const Rung* rung : rungs("sm_100a", op_of(trial.problem.spec.operation)))
      for (uint64_t s = 0; s < 4; ++s) {
        CAPTURE(s);
        lab.seed(s);
        lab.silent(trial, candidate_for(*rung, trial.problem.spec, {}));
      }
  }
}

TEST_CASE("checkers: other numbers of stages, slots and CTAs are silent too") {
  Checked lab("sm_100a");
  Trial trial(lab.device, find_case("group:96,150/256,128/1024"), Distribution::kModerate, 3);
  const std::pair<const char*, std::vector<std::string>> plans[] = {
      {"v2", {"stages=1", "scale_slots=1"}},
      {"v3", {"stages=5", "scale_slots=2", "acc_slots=3", "ctas=2"}},
      {"v4", {"stages=2", "acc_slots=3", "ctas=1"}},
      {"v5", {"stages=3", "scale_slots=2", "acc_slots=2", "ctas=2"}},
      {"v7", {"split_k=3"}},
      {"v8", {"epilogue=tma"}},
      {"v8", {"epilogue=staged"}},
      {"v11", {"stages=3", "scale_slots=2", "acc_slots=2", "ctas=2", "pdl=1"}},
      {"v13", {"stages=3", "scale_slots=1", "acc_slots=3", "ctas=2"}},
      {"v14", {"split_k=4", "split_groups=1", "ctas=6", "sort_groups=1"}},
      {"v15",
       {"mma_n=128", "halves=1", "collector=0", "acc_slots=2", "stages=4", "split_k=4", "split_groups=0",
        "ctas=6"}},
      {"v15", {"mma_n=128", "halves=2", "acc_slots=3", "stages=4", "split_k=2", "split_groups=1", "ctas=6"}},
  };
  for (const auto& [name, knobs] : plans)
    lab.silent(trial, candidate_for(find_rung("sm_100a", Op::kGroup, name), trial.problem.spec, knobs));
}

TEST_CASE("checkers: Hopper kernels are silent under every schedule") {
  Checked lab("sm_90a");
  for (const char* shape : {"group:40,70,1/256,128,128/1024", "dual:40/128/1024"}) {
    Trial trial(lab.device, find_case(shape), Distribution::kModerate, 3);
    for (const Rung* rung : rungs("sm_90a", op_of(trial.problem.spec.operation)))
      for (uint64_t s = 0; s < 3; ++s) {
        CAPTURE(s);
        lab.seed(s);
        lab.silent(trial, candidate_for(*rung, trial.problem.spec, {"sms=6"}));
        // Rings that come round.
        if (s == 0) lab.silent(trial, candidate_for(*rung, trial.problem.spec, {"sms=4"}));
      }
  }
}
