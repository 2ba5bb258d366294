// fp4lab kernels: the ladders of rungs and the knobs of their plans.
#include "cli/command.h"
#include "cli/table.h"
#include "fp4lab/rung.h"

namespace fp4lab::cli {
namespace {

const Command kCommand{
    "kernels", "list the rungs and the knobs", [](CLI::App&) {
      return [] {
        Table list({"arch", "kernel", "op", "changes", "idea"});
        for (const Rung* r : rungs())
          list.add({std::string(r->arch), std::string(r->name), r->op == Op::kDual ? "dual" : "group",
                    r->parent.empty() ? "-" : std::string(r->parent), std::string(r->idea)});
        Table knobs({"arch", "knob", "values", "meaning"});
        for (const std::string_view arch : architectures())
          for (const KnobInfo& k : knob_table(arch))
            knobs.add(
                {std::string(arch), std::string(k.name), std::string(k.values), std::string(k.meaning)});
        fmt::print("{}\nknobs (run --set NAME=VALUE):\n{}", list.text(), knobs.text());
        return 0;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
