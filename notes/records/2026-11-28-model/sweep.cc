// The sweep of this record: every full-size case and rung of sm_90a, a grid of plans, each point verified
// before and after it is timed; a line of JSON per point on stdout. Built from the lab's libraries alone, for
// a machine that has none of the packages which `fp4lab sweep` needs (README.md).
#include <set>

#include "fp4lab/bench.h"
#include "fp4lab/sm90.h"

using namespace fp4lab;

namespace {

struct Point {
  const Case* spec;
  Candidate candidate;
};

std::vector<Point> grid() {
  std::vector<Point> all;
  for (const Case& c : cases()) {
    if (!c.full_size) continue;
    std::set<std::string> seen;
    for (const Rung* rung : rungs("sm_90a", op_of(c.operation)))
      for (const int warpgroups : {2, 3, 4})
        for (const int tile : {48, 64, 80, 96, 112, 128, 144, 176, 208, 256})
          for (const int split : {0, 1, 2})
            for (const int sms : {132, 104}) {
              const bool first = rung->name == "v0_registers";
              if (sms < 132 && (tile % 64 || first)) continue;
              if (first && tile % 32) continue;
              const Candidate candidate =
                  candidate_for(*rung, c,
                                {fmt::format("warpgroups={}", warpgroups), fmt::format("max_tile={}", tile),
                                 fmt::format("split={}", split), fmt::format("sms={}", sms)});
              if (!reasons(candidate, c).empty()) continue;
              if (seen.insert(std::string(rung->name) + plan_line(candidate)).second)
                all.push_back({&c, candidate});
            }
  }
  return all;
}

}  // namespace

int main() {
  const Device device = open_for_kernels("auto", "sm_90a");
  const Nvml nvml(device);
  const Timer timer(device, {.repeats = 15});
  const std::vector<Point> points = grid();
  std::vector<jit::Job> jobs;
  for (const Point& p : points) jobs.push_back(job_of(p.candidate));
  jit::compile_all(jobs, 0, {});
  for (const Case& c : cases()) {
    if (!c.full_size) continue;
    const InputSets sets(device, c, task_distribution(c.operation), 1, 4);
    for (const Point& p : points) {
      if (p.spec != &c) continue;
      const Measurement m = measure_kernel(timer, nvml, sets, p.candidate, LaunchChoice::kStream);
      if (!m.timing.us.count) {
        fmt::print(stderr, "{} {}: {}\n", c.name, plan_line(p.candidate), m.error);
        continue;
      }
      const Spread& us = m.timing.us;
      fmt::print(
          "{{\"case\":\"{}\",\"arch\":\"sm_90a\",\"kernel\":\"{}\",\"plan\":\"{}\",\"device\":\"{}\","
          "\"launch\":"
          "\"{}\",\"passed\":{},\"us\":{{\"median\":{:.4f},\"p10\":{:.4f},\"p90\":{:.4f},\"min\":{:.4f},"
          "\"max\":"
          "{:.4f},\"count\":{}}},\"gpu\":{{\"sm_mhz_min\":{},\"sm_mhz_median\":{},\"sm_mhz_max\":{}}}}}\n",
          c.name, m.kernel, m.how, device.name(), m.launch, m.passed, us.median, us.p10, us.p90, us.min,
          us.max, us.count, m.gpu.sm_mhz_min, m.gpu.sm_mhz_median, m.gpu.sm_mhz_max);
    }
  }
}
