// fp4lab kernels: the ladder of rungs and the knobs of a plan.
#include "cli/command.h"
#include "cli/table.h"
#include "fp4lab/sm100.h"

namespace fp4lab::cli {
namespace {

const Command kCommand{"kernels", "list the rungs and the knobs", [](CLI::App&) {
                         return [] {
                           Table rungs({"kernel", "op", "changes", "idea"});
                           for (const sm100::Rung& r : sm100::rungs())
                             rungs.add({std::string(r.name), r.op == Op::kDual ? "dual" : "group",
                                        r.parent.empty() ? "-" : std::string(r.parent), std::string(r.idea)});
                           Table knobs({"knob", "values", "meaning"});
                           for (const KnobInfo& k : knob_table())
                             knobs.add({std::string(k.name), std::string(k.values), std::string(k.meaning)});
                           fmt::print("{}\nknobs (run --set NAME=VALUE):\n{}", rungs.text(), knobs.text());
                           return 0;
                         };
                       }};

}  // namespace
}  // namespace fp4lab::cli
