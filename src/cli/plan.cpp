// fp4lab plan: what a kernel does with a case, in numbers, before it runs.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "fp4lab/machine.h"
#include "fp4lab/run.h"

namespace fp4lab::cli {
namespace {

const Command kCommand{
    "plan", "print the plan for a case: tiles, waves, SMs, padding, memory, roofline", [](Arguments& app) {
      struct Options {
        std::string case_name, kernel = "top", arch = std::string(architectures()[0]);
        std::vector<std::string> knobs;
      };
      auto o = std::make_shared<Options>();
      app.add_option("case", o->case_name, "a case or a shape").required();
      app.add_option("--kernel", o->kernel, "a rung").capture_default_str();
      app.add_option("--arch", o->arch, "sm_100a or sm_90a").capture_default_str();
      app.add_option("--set", o->knobs, "a knob of the plan, as stages=4; may be repeated");
      return [o] {
        const Case c = find_case(o->case_name);
        const Rung& rung = find_rung(o->arch, op_of(c.operation), o->kernel);
        const Candidate candidate = candidate_for(rung, c, o->knobs);
        fmt::print("{} with {} {}: {}\n", c.name, rung.arch, rung.name, plan_line(candidate));
        const auto forbidden = reasons(candidate, c);
        for (const Reason& r : forbidden) fmt::print("  not legal: {}: {}\n", r.rule, r.text);
        if (!forbidden.empty()) return 1;
        const Machine& machine = machine_for(rung.arch);
        const Placement w = placement(candidate, c, machine.sms);
        fmt::print("  tiles            {}, parts of K counted\n", w.tiles);
        fmt::print("  CTAs             {} of {} threads{}\n", w.ctas, w.threads,
                   w.cluster > 1 ? fmt::format(", clusters of {}", w.cluster) : "");
        fmt::print("  SMs busy         {:.0f} of {} = {:.0f} %\n", w.busy * w.sms, w.sms, w.busy * 100);
        fmt::print("  waves            {:.2f}\n", w.waves);
        fmt::print("  rows used        {:.1f} % of what is multiplied is output, the rest is padding\n",
                   w.rows_used * 100);
        fmt::print("  shared memory    {} of {} bytes: {} stages of {} bytes\n", w.shared_bytes,
                   kSharedBytesPerCta, w.stages, w.bytes_in_flight / w.stages);
        if (const Plan* plan = std::get_if<Plan>(&candidate.plan))
          fmt::print("  TMEM             {} of {} columns ({} used)\n", plan->tmem_columns(), kTmemColumns,
                     plan->tmem_columns_used());
        if (const sm90::Plan* plan = std::get_if<sm90::Plan>(&candidate.plan))
          fmt::print("  schedule         {}\n", plan->describe());
        const double flight = double(w.bytes_in_flight) * w.busy * w.sms;
        fmt::print("  bytes in flight  {} per CTA, {:.1f} MB in all\n", w.bytes_in_flight, flight / 1e6);
        const Work work = work_of(c);
        const Roofline r = roofline(work, machine);
        fmt::print(
            "  roofline         {:.2f} MB / {:.3f} TB/s = {:.3f} us; {:.2f} GFLOP / {:.1f} PFLOP/s = {:.3f} "
            "us: {}-bound (computed)\n",
            work.bytes / 1e6, machine.bytes_per_second / 1e12, r.memory_us, work.flops / 1e9,
            machine.flops_per_second / 1e15, r.compute_us, r.bound());
        fmt::print("  with this plan   {:.3f} us of tensor time: padding and idle SMs counted (computed)\n",
                   r.compute_us / w.rows_used / w.busy);
        return 0;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
