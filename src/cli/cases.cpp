// fp4lab cases: what can be run, by name.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/table.h"
#include "fp4lab/error.h"
#include "fp4lab/machine.h"
#include "fp4lab/problem.h"
#include "fp4lab/suggest.h"

namespace fp4lab::cli {
namespace {

std::string list(const std::vector<Shape>& shapes, int Shape::*side) {
  bool same = true;
  for (const Shape& s : shapes) same &= s.*side == shapes.front().*side;
  if (same) return fmt::format("{}", shapes.front().*side);
  std::string text;
  for (const Shape& s : shapes) text += fmt::format("{}{}", text.empty() ? "" : ",", s.*side);
  return text;
}

std::string optional(const std::optional<double>& us) { return us ? fmt::format("{:g}", *us) : "-"; }

const Command kCommand{
    "cases", "list the cases: named problem shapes", [](Arguments& app) {
      auto operation = std::make_shared<std::string>();
      auto format = std::make_shared<TableFormat>();
      app.add_option("operation", *operation, "list only group, dual or gemm");
      format->declare(app);
      app.examples({"fp4lab cases", "fp4lab cases dual --csv"});
      return [operation, format] {
        Table table({"case", "op", "?>groups", "M", "N", "K", ">GFLOP", ">MB", ">speed of light us",
                     "?>best us", "?>contest us"});
        for (const Case& c : cases()) {
          if (!operation->empty() && operation_name(c.operation) != *operation) continue;
          const Work work = work_of(c);
          table.add({c.name, std::string(operation_name(c.operation)), fmt::format("{}", c.shapes.size()),
                     list(c.shapes, &Shape::m), list(c.shapes, &Shape::n), list(c.shapes, &Shape::k),
                     fmt::format("{:.2f}", work.flops / 1e9), fmt::format("{:.2f}", work.bytes / 1e6),
                     optional(c.speed_of_light_us), optional(c.best_us), optional(c.rounds_us)});
        }
        if (table.empty())
          fail("no operation '{}'{}\n  there are: group dual gemm", *operation,
               did_you_mean(*operation, {"group", "dual", "gemm"}));
        if (format->csv) {
          fmt::print("{}", table.csv());
          return 0;
        }
        fmt::print(
            "{}\n{}", format->text(table),
            fitted("speed of light: the public task's own, at 1.5 GHz on a B200. best: published, on a B200. "
                   "contest: where its rounds stood.\n"
                   "A shape in words is a case too: group:M,M,../N,../K,..  dual:M/N/K  gemm:M/N/K\n"));
        return 0;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
