// Verify, time, verify.
#include <cmath>
#include <limits>

#include "fp4lab/bench.h"
#include "fp4lab/machine.h"

namespace fp4lab {
namespace {

void run_all(const Timer& timer, size_t sets, const Timer::Enqueue& enqueue) {
  for (size_t set = 0; set < sets; ++set) enqueue(set, timer.stream());
  timer.stream().synchronize();
}

OutputCheck compute_and_check(const Timer& timer, const InputSets& sets, const Contender& contender) {
  sets.poison();
  run_all(timer, sets.size(), contender.enqueue);
  return sets.check(contender.must_pass);
}

// Nothing written, or not a number, is a broken contender, whatever its numerics.
bool acceptable(const Contender& contender, const OutputCheck& check) {
  const Comparison& c = check.comparison;
  return contender.must_pass ? c.passed() : c.unwritten == 0 && c.nan == 0;
}

}  // namespace

Measurement measure(const Timer& timer, const Nvml& nvml, const InputSets& sets, const Contender& contender) {
  Measurement m;
  const Case& c = sets.spec();
  m.case_name = c.name;
  m.kernel = contender.kernel, m.how = contender.how, m.launch = contender.launch;
  m.remark = contender.remark, m.peer = contender.peer;
  m.distribution = sets.distribution(), m.seed = sets.seed(), m.sets = sets.size();
  const Work work = work_of(c);
  m.flops = work.flops, m.bytes = work.bytes;
  try {
    m.before = compute_and_check(timer, sets, contender);
    if (!acceptable(contender, m.before)) {
      m.error = fmt::format("wrong before timing: {}", m.before.comparison.describe());
      return m;
    }
    std::vector<GpuState> readings;
    sets.poison();  // what the timed calls do not write shows afterwards
    m.timing = timer.time(sets.size(), contender.enqueue, [&] {
      if (nvml.present()) readings.push_back(nvml.read());
    });
    m.gpu = span_of(readings);
    m.weight_step = contender.weight_step, m.weight_bytes = contender.weight_bytes;
    if (contender.prepare_weights) m.weight_us = timer.time(sets.size(), contender.prepare_weights).us.median;
    m.after = sets.check(contender.must_pass);
    if (!acceptable(contender, m.after))
      m.error = fmt::format("wrong after timing: {}", m.after.comparison.describe());
    m.passed = m.before.comparison.passed() && m.after.comparison.passed();
  } catch (const Error& e) {
    m.error = e.what();
  }
  return m;
}

Contender as_graph(const Timer& timer, size_t sets, const Contender& contender) {
  run_all(timer, sets, contender.enqueue);  // nothing may be loaded for the first time while capturing
  auto graphs = std::make_shared<std::vector<Graph>>();
  const Stream recording(timer.device());
  for (size_t set = 0; set < sets; ++set)
    graphs->push_back(Graph::capture(recording, [&] { contender.enqueue(set, recording); }));
  Contender out = contender;
  out.launch = "graph";
  // What was captured stays alive with the graph.
  out.enqueue = [graphs, keep = contender.enqueue](size_t set, CUstream stream) {
    (*graphs)[set].launch(stream);
  };
  return out;
}

Contender fastest(const Timer& timer, const InputSets& sets, std::vector<Contender> contenders,
                  std::vector<std::pair<std::string, double>>& tried) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  TimingOptions brief = timer.options();
  brief.repeats = 5, brief.warmups = 1;
  const Contender* best = nullptr;
  double best_us = kNone;
  std::string trouble;
  for (const Contender& contender : contenders) {
    double us = kNone;
    try {
      const OutputCheck check = compute_and_check(timer, sets, contender);
      if (acceptable(contender, check))
        us = timer.time(sets.size(), contender.enqueue, brief).us.median;
      else if (trouble.empty())
        trouble = check.comparison.describe();
    } catch (const Error& e) {
      if (trouble.empty()) trouble = e.what();
    }
    tried.emplace_back(fmt::format("{}, {}", contender.how, contender.launch), us);
    if (!std::isnan(us) && !(us >= best_us)) best = &contender, best_us = us;
  }
  if (!best) fail("none of {} variants computes the case: {}", contenders.size(), trouble);
  return *best;
}

}  // namespace fp4lab
