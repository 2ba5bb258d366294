// fp4lab ptx: the PTX that NVRTC makes of a rung, to be read, edited and run with `run --ptx`.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/workload.h"
#include "fp4lab/run.h"

namespace fp4lab::cli {
namespace {

const Command kCommand{
    "ptx", "print the PTX of a kernel, or its registers and spills", [](Arguments& app) {
      struct Options {
        OneKernel kernel;
        bool report = false;
      };
      auto o = std::make_shared<Options>();
      o->kernel.declare(app);
      o->kernel.declare_ptx(app);
      app.add_flag("--report", o->report, "print ptxas's registers and spills instead");
      app.examples({"fp4lab ptx group --case g2k1536 --kernel v2 > k.ptx",
                    "fp4lab ptx dual --case dual:256/128/512 --set stages=2 --report",
                    "fp4lab ptx group --case g2k1536 --kernel-file my.cu --like v2 --report",
                    "fp4lab ptx group --case g2k1536 --ptx k.ptx --report"});
      return [o] {
        const Case c = o->kernel.the_case();
        const Candidate candidate = o->kernel.choose(c);
        require_legal(candidate, c);
        const auto artifact = artifact_of(candidate);
        if (!o->report && !candidate.ptx.empty()) {
          fmt::print("{}", artifact->ptx);
          return 0;
        }
        if (!o->report) {
          // The plan stands last: a line in front would move all line numbers.
          fmt::print("{}{}{}{}\n", artifact->ptx, artifact->ptx.ends_with('\n') ? "" : "\n", kPtxPlanMark,
                     plan_line(candidate));
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
