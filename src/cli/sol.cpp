// fp4lab sol: the roofline arithmetic, with the rounds' constants and the true ones side by side.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/table.h"
#include "cli/workload.h"
#include "fp4lab/machine.h"
#include "fp4lab/problem.h"

namespace fp4lab::cli {
namespace {

const Command kCommand{
    "sol", "speed of light: minimum bytes, FLOPs and time, by machine constants", [](Arguments& app) {
      struct Options {
        std::string operation = "all";
        std::vector<std::string> case_names;
        TableFormat format;
      };
      auto o = std::make_shared<Options>();
      app.add_option("operation", o->operation, "group, dual, gemm or all; or, for short: CASE")
          .capture_default_str();
      add_list(app, "--case", o->case_names, "cases and shapes; default: the full-size cases");
      o->format.declare(app);
      app.examples({"fp4lab sol", "fp4lab sol group", "fp4lab sol --case g2k1536,dual:256/4096/7168"});
      return [o] {
        const bool is_case = o->case_names.empty() && o->operation != "all" && o->operation != "group" &&
                             o->operation != "dual" && o->operation != "gemm";
        const std::vector<Case> chosen =
            is_case ? std::vector{find_case(o->operation)}
                    : chosen_cases(o->case_names.empty() ? std::vector<std::string>{"all"} : o->case_names,
                                   o->operation, "sol");
        std::vector<std::string> headings{"case", "?>GFLOP", "?>MB", "?>FLOP/byte"};
        for (const Machine& m : machines())
          for (const char* what : {"compute", "memory", "bound"})
            headings.push_back(fmt::format("{}>{} {}", &m == &machines().back() ? "" : "?", m.name, what));
        headings.push_back(">task's speed of light");
        Table table(headings);
        for (const Case& c : chosen) {
          const Work work = work_of(c);
          std::vector<std::string> row{c.name, fmt::format("{:.2f}", work.flops / 1e9),
                                       fmt::format("{:.2f}", work.bytes / 1e6),
                                       fmt::format("{:.0f}", work.flops / work.bytes)};
          for (const Machine& m : machines()) {
            const Roofline r = roofline(work, m);
            row.insert(row.end(), {fmt::format("{:.3f}", r.compute_us), fmt::format("{:.3f}", r.memory_us),
                                   std::string(r.bound())});
          }
          row.push_back(c.speed_of_light_us ? fmt::format("{:.3f}", *c.speed_of_light_us) : "-");
          table.add(std::move(row));
        }
        if (o->format.csv) {
          fmt::print("{}", table.csv());
          return 0;
        }
        fmt::print(
            "{}\n{}", o->format.text(table),
            fitted("Microseconds, computed, not measured: FLOPs (2 M N K a product) over the peak, every "
                   "input and output byte once over the bandwidth.\n"));
        for (const Machine& m : machines())
          say("{:8} {} SMs, {:.3f} TB/s, {:.2f} PFLOP/s: {}\n", m.name, m.sms, m.bytes_per_second / 1e12,
              m.flops_per_second / 1e15, m.source);
        return 0;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
