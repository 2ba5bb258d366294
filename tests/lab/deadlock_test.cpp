// Deadlocks planted into kernels: somebody who has never seen the code must find the line from the first
// screen of the report. Each is one of the mistakes that the reports' readers make: a wrong phase, count,
// number of bytes or mask, an arrival, a commit or a release that is missing.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "fp4lab/mutate.h"
#include "fp4lab/run.h"

using namespace fp4lab;

namespace {

// From "look first" to the first CTA's own lines.
std::string first_screen(const std::string& report) {
  const size_t begin = report.find("  look first at"), end = report.find("\n  CTA (", begin);
  return begin == report.npos ? "" : report.substr(begin, end - begin);
}

bool names(const std::string& text, int line) {
  const std::string mark = ".ptx:" + std::to_string(line);
  for (size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + 1))
    if (!std::isdigit(static_cast<unsigned char>(text[at + mark.size()]))) return true;
  return false;
}

struct Planted {
  const char* rule;
  // What the first screen says where the altered line itself is gone; null: it names that line.
  const char* says;
};

struct Ground {
  const char *kernel, *shape;
  std::vector<std::string> knobs;
  std::vector<Planted> planted;
};

}  // namespace

TEST_CASE("planted deadlocks: the first screen of the report names the line") {
  const Device device = Device::open("emulator", "sm_100a");
  const auto seed =
      reinterpret_cast<decltype(&fp4lab_emulator_seed)>(device.driver().symbol("fp4lab_emulator_seed"));
  const std::vector<Planted> common{
      {"init count + 1", nullptr},
      {"mbarrier phase flipped", nullptr},
      {"expect_tx + 16 bytes", nullptr},
      {"arrive.expect_tx removed", "mbarrier.expect_tx is missing"},
      {"commit removed", "no arrival yet on the mbarrier"},
  };
  std::vector<Planted> pair = common;
  pair.push_back({"commit to this CTA alone", nullptr});
  pair.push_back({"multicast to one CTA", nullptr});
  pair.push_back({"arrive removed", "no arrival yet on the mbarrier"});
  const std::string two = "group:100,40/512,256/2048,1024";
  for (const Ground& g :
       {Ground{"v2", "group:100/128/4096", {}, common},
        Ground{"v5", two.c_str(), {"ctas=2", "stages=2", "scale_slots=2", "acc_slots=2"}, pair},
        Ground{"v15", two.c_str(), {"ctas=2", "stages=2", "scale_slots=2"}, pair}}) {
    CAPTURE(g.kernel);
    const Case spec = find_case(g.shape);
    Trial trial(device, spec, Distribution::kModerate, 1);
    const Candidate candidate = candidate_for(find_rung("sm_100a", Op::kGroup, g.kernel), spec, g.knobs);
    const std::string ptx = jit::compile(job_of(candidate))->ptx;
    const std::vector<Mutant> all = mutants(ptx);
    for (const Planted& p : g.planted) {
      CAPTURE(p.rule);
      int deadlocks = 0;
      for (const Mutant& m : all) {
        if (m.rule != p.rule) continue;
        CAPTURE(m.line);
        CAPTURE(m.before);
        seed(0);
        const RunResult r = run_ptx(device, trial, candidate, m.applied(ptx), "kernel.ptx");
        if (r.error.find("deadlock: ") == r.error.npos) continue;
        ++deadlocks;
        const std::string screen = first_screen(r.error);
        CAPTURE(screen);
        CHECK(std::count(screen.begin(), screen.end(), '\n') <= 12);
        if (p.says)
          CHECK(screen.find(p.says) != screen.npos);
        else
          CHECK(names(screen, m.line));
      }
      CHECK(deadlocks > 0);
    }
  }
}
