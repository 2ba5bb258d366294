// fp4lab plan: what a kernel does with a case, in numbers, before it runs.
#include "cli/command.h"
#include "fp4lab/machine.h"
#include "fp4lab/run.h"

namespace fp4lab::cli {
namespace {

const Command kCommand{
    "plan", "print the plan for a case: tiles, waves, SMs, padding, memory, roofline", [](CLI::App& app) {
      struct Options {
        std::string case_name, kernel = "top";
        std::vector<std::string> knobs;
      };
      auto o = std::make_shared<Options>();
      app.add_option("case", o->case_name, "a case or a shape")->required();
      app.add_option("--kernel", o->kernel, "a rung")->capture_default_str();
      app.add_option("--set", o->knobs, "a knob of the plan, as stages=4; may be repeated");
      return [o] {
        const Case c = find_case(o->case_name);
        const sm100::Rung& rung = sm100::find_rung(sm100::op_of(c.operation), o->kernel);
        const Plan plan = candidate_for(rung, c, o->knobs).plan;
        fmt::print("{} with {}: {}\n", c.name, rung.name, plan_line(plan));
        const auto reasons = sm100::reasons(rung, plan, c);
        for (const Reason& r : reasons) fmt::print("  not legal: {}: {}\n", r.rule, r.text);
        if (!reasons.empty()) return 1;
        const Machine& b200 = machines().back();
        const sm100::Work w = sm100::work_of(plan, c, b200.sms);
        fmt::print("  tiles            {}{}\n", w.tiles,
                   plan.split_k > 1 ? fmt::format(" (K split into {})", plan.split_k) : "");
        fmt::print("  CTAs             {} of {} threads{}\n", w.ctas, plan.threads(),
                   plan.cluster() > 1 ? fmt::format(", clusters of {}", plan.cluster()) : "");
        fmt::print("  SMs busy         {:.0f} of {} = {:.0f} %\n", w.busy * w.sms, w.sms, w.busy * 100);
        fmt::print("  waves            {:.2f}\n", w.waves);
        fmt::print("  rows used        {:.1f} % of what is multiplied is output, the rest is padding\n",
                   w.rows_used * 100);
        fmt::print("  shared memory    {} of {} bytes: {} stages of {} bytes\n", plan.shared_bytes(),
                   kSharedBytesPerCta, plan.stages, plan.stage_bytes());
        fmt::print("  TMEM             {} of {} columns ({} used)\n", plan.tmem_columns(), kTmemColumns,
                   plan.tmem_columns_used());
        const double flight = double(w.bytes_in_flight) * w.busy * w.sms;
        fmt::print("  bytes in flight  {} per CTA, {:.1f} MB in all\n", w.bytes_in_flight, flight / 1e6);
        const Work work = work_of(c);
        const Roofline r = roofline(work, b200);
        fmt::print(
            "  roofline         {:.2f} MB / {:.3f} TB/s = {:.3f} us; {:.2f} GFLOP / {:.1f} PFLOP/s = {:.3f} "
            "us: {}-bound (computed)\n",
            work.bytes / 1e6, b200.bytes_per_second / 1e12, r.memory_us, work.flops / 1e9,
            b200.flops_per_second / 1e15, r.compute_us, r.bound());
        fmt::print("  with this plan   {:.3f} us of tensor time: padding and idle SMs counted (computed)\n",
                   r.compute_us / w.rows_used / w.busy);
        return 0;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
