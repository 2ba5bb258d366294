// fp4lab sol: the roofline arithmetic, with the rounds' constants and the true ones side by side.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/table.h"
#include "fp4lab/machine.h"
#include "fp4lab/problem.h"

namespace fp4lab::cli {
namespace {

const Command kCommand{
    "sol", "speed of light: bytes, FLOPs and the time they need, on several sets of constants",
    [](Arguments& app) {
      auto name = std::make_shared<std::string>();
      app.add_option("case", *name, "a case; without it, every full-size one");
      return [name] {
        std::vector<std::string> headings{"case", ">GFLOP", ">MB", ">FLOP/byte"};
        for (const Machine& m : machines())
          for (const char* what : {"compute", "memory", "bound"})
            headings.push_back(fmt::format(">{} {}", m.name, what));
        headings.push_back(">the task says");
        Table table(headings);
        std::vector<Case> chosen;
        if (!name->empty())
          chosen.push_back(find_case(*name));
        else
          for (const Case& c : cases())
            if (c.full_size) chosen.push_back(c);
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
        fmt::print(
            "{}\nMicroseconds, computed, not measured: FLOPs (2 M N K a product) over the peak, every input "
            "and output byte once over the bandwidth.\n",
            table.text());
        for (const Machine& m : machines())
          fmt::print("{:8} {} SMs, {:.3f} TB/s, {:.2f} PFLOP/s: {}\n", m.name, m.sms,
                     m.bytes_per_second / 1e12, m.flops_per_second / 1e15, m.source);
        return 0;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
