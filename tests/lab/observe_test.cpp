// Looking into a run: profile, trace, stops, watched addresses, tiles.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fp4lab/e2m1.h"
#include "fp4lab/half.h"
#include "fp4lab/json_text.h"
#include "fp4lab/run.h"
#include "fp4lab/sm100.h"
#include "fp4lab/ue4m3.h"

using namespace fp4lab;

namespace {

struct Lab {
  Device device = Device::open("emulator", sm100::kArch);
  Trial trial{device, find_case("group:100/128/1024"), Distribution::kModerate, 1};
  Candidate candidate;

  explicit Lab(const char* rung)
      : candidate(candidate_for(find_rung(sm100::kArch, Op::kGroup, rung), trial.problem.spec, {})) {}
  ~Lab() { off(); }
  void off() {
    reinterpret_cast<decltype(&fp4lab_emulator_observe)>(device.driver().symbol("fp4lab_emulator_observe"))(
        nullptr);
  }
  std::string seen(const std::string& what) {
    observe(device, what);
    const RunResult r = run_trial(device, trial, candidate);
    CHECK_MESSAGE(r.passed(), r.error);
    const std::string text = observed(device);
    off();
    return text;
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("observe: a profile tells the roles apart and counts bytes") {
  Lab lab("v2");
  const std::string text = lab.seen("profile");
  INFO(text);
  CHECK(has(text, "load (warp 4)"));
  CHECK(has(text, "MMA (warp 5)"));
  CHECK(has(text, "epilogue (warps 0,1,2,3)"));
  CHECK(has(text, "16 products"));  // K 1024 / 64
  CHECK(has(text, "mbarrier.try_wait"));
  // Codes and scales of the 100 and of the 128 rows, 512 and 64 bytes each, scales in blocks of 128 rows.
  CHECK(has(text,
            fmt::format("{:.1f} KB read for the first time", (100 * 512 + 128 * 512 + 2 * 128 * 64) / 1e3)));
}

TEST_CASE("observe: a trace names warps by what they do, and the SM") {
  Lab lab("v2");
  const auto path = std::filesystem::temp_directory_path() / fmt::format("fp4lab_observe_{}.json", getpid());
  lab.seen("trace=" + path.string());
  std::ifstream in(path);
  std::stringstream all;
  all << in.rdbuf();
  const auto events = parse_json(all.str());
  CHECK(events.size() > 100);
  CHECK(has(all.str(), "warp 4: load"));
  CHECK(has(all.str(), "warp 5: MMA"));
  CHECK(has(all.str(), "on SM "));
  CHECK(has(all.str(), "tensor core: mma, cp, commit"));
  std::filesystem::remove(path);
}

TEST_CASE("observe: registers at a line, and what happens to a barrier") {
  Lab lab("v2");
  const auto artifact = jit::compile(job_of(lab.candidate));
  const size_t at = artifact->ptx.find("mbarrier.arrive.expect_tx");
  const auto line = 1 + std::count(artifact->ptx.begin(), artifact->ptx.begin() + long(at), '\n');
  const std::string stop = lab.seen(fmt::format("stop-at={}", line));
  INFO(stop);
  CHECK(has(stop, "stop 1: CTA (0,0,0), warp 4, lane 0"));
  CHECK(has(stop, "0x9000 (36864)"));  // bytes of a stage
  CHECK(has(stop, "1 of 1 arrivals pending"));
  CHECK(has(stop, "shared 0x36400 of CTA (0,0,0) (lane 0): 00000002 "));
  const std::string watch = lab.seen("watch=0x36400");
  INFO(watch);
  CHECK(has(watch, "expect_tx 36864"));
  CHECK(has(watch, "bytes delivered"));
  CHECK(has(watch, "phase complete"));
  CHECK(has(watch, "wait passed"));
  CHECK(has(lab.seen("watch=nonsense"), "no shared variable 'nonsense'"));
  CHECK_THROWS_WITH(observe(lab.device, "nonsense"), doctest::Contains("stop-at=LINE"));
}

TEST_CASE("observe: tiles hold the operands' values, and the accumulator becomes C") {
  Lab lab("v0");
  const Operand& a = lab.trial.problem.groups[0].a;
  const std::string text = lab.seen("tile=1,A,5,5,0,0");  // the second product: k from 64
  INFO(text);
  std::string values;
  for (int k = 64; k < 80; ++k)
    values += fmt::format(" {:g}", e2m1_value(a.code_row(5)[k / 2] >> k % 2 * 4 & 15));
  CHECK(has(text, fmt::format("scale {:g}:{}", ue4m3_value(a.scale_row(5)[4]), values)));
  const std::string d = lab.seen("tile=15,D,5,5,3,3");  // the last one
  INFO(d);
  const double c = half_to_float(lab.trial.tensor_core[0][5 * 128 + 3]);
  const double shown = std::stod(d.substr(d.rfind(' ')));
  CHECK(shown == doctest::Approx(c).epsilon(0.001));
}
