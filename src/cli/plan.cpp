// fp4lab plan: what a kernel does with a case, in numbers, before it runs.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/command.h"
#include "cli/table.h"
#include "cli/workload.h"
#include "fp4lab/machine.h"
#include "fp4lab/model.h"
#include "fp4lab/run.h"
#include "fp4lab/sweep.h"

namespace fp4lab::cli {
namespace {

// Knobs that decide most, and the values to try; a rung takes those that it has.
const std::vector<Axis> kAxes{{"mma_n", {"64", "128", "192", "256"}},
                              {"acc_slots", {"1", "2"}},
                              {"split_k", {"1", "2", "3", "4", "6", "8"}},
                              {"stages", {"3", "4", "5", "6", "8"}},
                              {"warpgroups", {"2", "3", "4"}},
                              {"max_tile", {"64", "80", "96", "112", "128", "144", "176", "208", "256"}},
                              {"split", {"0", "1", "2"}}};

// The plan that was asked for and the five that the model holds for the fastest, with what their time
// consists of.
void why(const Rung& rung, const Case& c, const Candidate& asked, const Setting& setting,
         const TableFormat& format) {
  std::vector<Axis> axes;
  for (const Axis& axis : kAxes)
    if (fmt::format(" {} ", rung.knobs).find(" " + axis.knob + " ") != std::string::npos)
      axes.push_back(axis);
  std::vector<Candidate> candidates = sweep_points(c, {&rung}, axes).legal;
  sort_by_prediction(candidates, c, 5, setting);
  candidates.insert(candidates.begin(), asked);
  std::vector<Prediction> predictions;
  std::vector<std::string> terms;
  for (const Candidate& candidate : candidates) {
    predictions.push_back(predict(candidate, c, setting));
    for (const Term& t : predictions.back().terms)
      if (std::ranges::find(terms, t.name) == terms.end()) terms.push_back(t.name);
  }
  std::vector<std::string> headings{"", "plan", ">predicted us", ">80 %", ">waves", ">MB in flight", "bound"};
  for (const std::string& term : terms) headings.push_back(">" + term);
  Table table(headings);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Prediction& p = predictions[i];
    std::vector<std::string> row{i == 0 ? "given" : fmt::format("{}", i),
                                 plan_line(candidates[i]),
                                 fmt::format("{:.2f}", p.us),
                                 fmt::format("{:.1f}-{:.1f}", p.low, p.high),
                                 fmt::format("{:.2f}", p.waves),
                                 fmt::format("{:.1f}", p.bytes_in_flight / 1e6),
                                 p.bound};
    for (const std::string& term : terms) {
      const auto at = std::ranges::find(p.terms, term, &Term::name);
      row.push_back(at == p.terms.end() ? "-" : fmt::format("{:.2f}", at->us));
    }
    table.add(std::move(row));
  }
  fmt::print("\nPredicted, not measured, for {} at {:.0f} MHz; {}. Terms in us add up to the time.\n{}",
             predictions[0].machine, predictions[0].sm_mhz, predictions[0].validation.text(),
             format.text(table));
}

const Command kCommand{
    "plan", "print the plan for a case: tiles, waves, memory, roofline, predicted time", [](Arguments& app) {
      struct Options {
        OneKernel kernel;
        Setting setting;
        bool why = false;
        TableFormat format;
      };
      auto o = std::make_shared<Options>();
      o->kernel.declare(app, "group, dual or gemm; or, for short: CASE");
      app.add_option("--machine", o->setting.machine, "predict for this machine: B200, H200 or H100");
      app.add_option("--sm-mhz", o->setting.sm_mhz,
                     "SM clock in MHz; default: the machine's under such load");
      app.add_flag("--why", o->why,
                   "also print the five plans predicted fastest, with the terms of their time");
      o->format.declare(app);
      app.examples({"fp4lab plan group --case g8k7168 --set stages=4", "fp4lab plan g2k1536 --kernel v2",
                    "fp4lab plan dual --case dual-256-4096-7168 --why"});
      return [o] {
        const Case c = o->kernel.the_case();
        const Candidate candidate = o->kernel.choose(c);
        const Rung& rung = *candidate.rung;
        say("{} with {} {}: {}\n", c.name, rung.arch, kernel_name(candidate), plan_line(candidate));
        const auto forbidden = reasons(candidate, c);
        for (const Reason& r : forbidden) say("  not legal: {}: {}\n", r.rule, r.text);
        if (!forbidden.empty()) return 1;
        const Machine& machine = machine_for(rung.arch);
        const Placement w = placement(candidate, c, machine.sms);
        say("  tiles            {} (split-K parts counted)\n", w.tiles);
        say("  CTAs             {} of {} threads{}\n", w.ctas, w.threads,
            w.cluster > 1 ? fmt::format(", clusters of {}", w.cluster) : "");
        say("  SMs busy         {:.0f} of {} = {:.0f} %\n", w.busy * w.sms, w.sms, w.busy * 100);
        say("  waves            {:.2f}\n", w.waves);
        say("  useful rows      {:.1f} % of the rows multiplied, the rest is padding\n", w.rows_used * 100);
        say("  shared memory    {} of {} bytes: {} stages of {} bytes\n", w.shared_bytes, kSharedBytesPerCta,
            w.stages, w.bytes_in_flight / w.stages);
        if (const Plan* plan = std::get_if<Plan>(&candidate.plan))
          say("  TMEM             {} of {} columns ({} used)\n", plan->tmem_columns(), kTmemColumns,
              plan->tmem_columns_used());
        if (const sm90::Plan* plan = std::get_if<sm90::Plan>(&candidate.plan))
          say("  schedule         {}\n", plan->describe());
        const double flight = double(w.bytes_in_flight) * w.busy * w.sms;
        say("  bytes in flight  {} per CTA, {:.1f} MB in all\n", w.bytes_in_flight, flight / 1e6);
        const Work work = work_of(c);
        const Roofline r = roofline(work, machine);
        say("  roofline         {:.2f} MB / {:.3f} TB/s = {:.3f} us; {:.2f} GFLOP / {:.1f} PFLOP/s = {:.3f} "
            "us: {}-bound (computed)\n",
            work.bytes / 1e6, machine.bytes_per_second / 1e12, r.memory_us, work.flops / 1e9,
            machine.flops_per_second / 1e15, r.compute_us, r.bound());
        say("  tensor time      {:.3f} us with this plan's padding and idle SMs (computed)\n",
            r.compute_us / w.rows_used / w.busy);
        const Prediction p = predict(candidate, c, o->setting);
        say("  time             {}\n  bound by         {}\n", p.text(), p.bound);
        for (const Term& t : p.terms) say("  term  {:<14} {:8.3f} us  {}\n", t.name, t.us, t.what);
        if (!candidate.source.empty())
          say("  Predicted from {}'s plan: the model does not see changes in the kernel file.\n", rung.name);
        if (o->why) why(rung, c, candidate, o->setting, o->format);
        return 0;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
