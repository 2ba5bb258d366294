// fp4lab ptx: the PTX that NVRTC makes of a rung, to be read, edited and run with `run --ptx`.
#include <fmt/format.h>

#include <fstream>
#include <memory>

#include "cli/command.h"
#include "fp4lab/run.h"

namespace fp4lab::cli {
namespace {

const Command kCommand{
    "ptx", "print the PTX of a kernel", [](Arguments& app) {
      struct Options {
        std::string kernel, case_name, arch = std::string(architectures()[0]);
        std::vector<std::string> knobs;
        bool report = false;
      };
      auto o = std::make_shared<Options>();
      app.add_option("kernel", o->kernel, "a rung, as in 'run --kernel'").required();
      app.add_option("case", o->case_name, "the case that the plan is for").required();
      app.add_option("--arch", o->arch, "sm_100a or sm_90a").capture_default_str();
      app.add_option("--set", o->knobs, "a knob of the plan, as stages=4; may be repeated");
      app.add_flag("--report", o->report, "print what ptxas says about registers and spills instead");
      return [o] {
        const Case c = find_case(o->case_name);
        const Candidate candidate =
            candidate_for(find_rung(o->arch, op_of(c.operation), o->kernel), c, o->knobs);
        require_legal(candidate, c);
        const auto artifact = jit::compile(job_of(candidate));
        if (!o->report) {
          fmt::print("{}{}\n{}", kPtxPlanMark, plan_line(candidate), artifact->ptx);
          return 0;
        }
        fmt::print("{} {}\n{}\n", artifact->name, plan_line(candidate), artifact->compiler);
        for (const jit::KernelReport& k : artifact->kernels)
          fmt::print(
              "{}: {} registers, {} bytes of shared memory, {} bytes of stack, {} / {} bytes spilled (stores "
              "/ loads)\n",
              k.name, k.registers, k.shared_bytes, k.stack_frame, k.spill_stores, k.spill_loads);
        return 0;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
