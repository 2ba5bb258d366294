#include "cli/workload.h"

#include "fp4lab/error.h"
#include "fp4lab/sweep.h"

namespace fp4lab::cli {

void Numbers::declare(Arguments& app) {
  app.add_option("--dist", distribution,
                 "task-group, task-dual, full or moderate; default: what the task uses");
  app.add_option("--seed", seed, "of the input numbers; of several sets, of the first").capture_default_str();
}

Distribution Numbers::of(Operation operation) const {
  return distribution.empty() ? task_distribution(operation) : find_distribution(distribution);
}

void Target::declare(Arguments& app) {
  app.add_option("--device", device, "auto, emulator or cuda").capture_default_str();
  app.add_option("--arch", arch, "sm_100a or sm_90a; default: what the device runs, sm_100a on the emulator");
}

Case find_case_of(const std::string& name, const std::string& operation, const char* command) {
  Case c = find_case(name);
  if (operation_name(c.operation) != operation)
    fail("case {} is a {} GEMM; '{} {}' was asked for", c.name, operation_name(c.operation), command,
         operation);
  return c;
}

std::vector<const Rung*> chosen_rungs(std::string_view arch, Op op, const std::string& names) {
  if (names == "all") return rungs(arch, op);
  std::vector<const Rung*> chosen;
  for (const std::string& name : parse_axis("--kernel", names).values)
    chosen.push_back(&find_rung(arch, op, name));
  return chosen;
}

}  // namespace fp4lab::cli
