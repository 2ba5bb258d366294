// fp4lab predict: the model against measured points, published ones or our own records.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>

#include "cli/command.h"
#include "cli/table.h"
#include "fp4lab/error.h"
#include "model/harness.h"
#include "model/points.h"
#include "model/registry.h"

namespace fp4lab::cli {
namespace {

using namespace model;

struct Options {
  std::vector<std::string> points, constants, harness;
  std::string out, which = "all";
  int mhz = 0;
  bool list = false, errors = false;
  TableFormat format;
};

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\n") == cell.npos) return cell;
  std::string text = "\"";
  for (const char c : cell) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}

void write_csv(const std::string& path, const PointTable& table, const std::vector<Answer>& answers) {
  std::ofstream file(path);
  for (const std::string& column : table.columns) file << quoted(column) << ',';
  file << "predicted_us,error_pct,interval_low,interval_high,predicted_machine,predicted_sm_mhz,validation\n";
  for (size_t i = 0; i < table.points.size(); ++i) {
    const Point& point = table.points[i];
    for (const std::string& cell : point.cells) file << quoted(cell) << ',';
    if (!answers[i].prediction) {
      file << ",,,,,," << quoted("not predicted: " + answers[i].why) << '\n';
      continue;
    }
    const Prediction& p = *answers[i].prediction;
    file << fmt::format(
        "{:.6g},{},{:.6g},{:.6g},{},{:.0f},{}\n", p.us,
        point.measured_us > 0 ? fmt::format("{:.2f}", (p.us / point.measured_us - 1) * 100) : "", p.low,
        p.high, p.machine, p.sm_mhz, quoted(p.validation.text()));
  }
  file.close();
  if (!file) fail("{}: {}", path, std::strerror(errno));
}

void list_constants(const TableFormat& format) {
  Table table({"machine", "constant", ">value", "unit", "source"});
  for (const Chip& chip : chips())
    Chip::visit(chip, [&](std::string_view name, const Constant& c) {
      table.add({std::string(chip.name), std::string(name), fmt::format("{:g}", c.value), std::string(c.unit),
                 std::string(c.source)});
    });
  visit_sm90_costs([&](std::string_view name, const Constant& c) {
    table.add({"sm90", std::string(name), fmt::format("{:g}", c.value), std::string(c.unit),
               std::string(c.source)});
  });
  Table added({"source", "kernel", ">start us", ">floor us", ">dirty MB"});
  for (const Harness& h : harnesses())
    added.add({h.source.empty() ? "any other" : std::string(h.source),
               h.kernel.empty() ? "any" : std::string(h.kernel), fmt::format("{:g}", h.start_us),
               fmt::format("{:g}", h.floor_us), fmt::format("{:g}", h.dirty_mb)});
  fmt::print("{}\nWhat belongs to a harness, not to the machine:\n{}", format.text(table),
             format.text(added));
}

int run(const Options& o) {
  for (const std::string& constant : o.constants) set_constant(constant);
  for (const std::string& row : o.harness) set_harness(row);
  if (o.list) {
    list_constants(o.format);
    return 0;
  }
  if (o.points.empty()) fail("--points FILE.csv or FILE.jsonl is needed, or --constants");
  if (std::ranges::find(o.points, o.out) != o.points.end())
    fail("--out {}: the file of points itself", o.out);
  if (!o.out.empty() && o.points.size() > 1)
    fail("--out goes with one file of points, not {}", o.points.size());
  std::vector<Point> points;
  std::vector<Answer> answers;
  std::map<std::string, size_t> unanswered;
  for (const std::string& path : o.points) {
    PointTable table = read_points(path);
    std::erase_if(table.points,
                  [&](const Point& p) { return o.which != "all" && set_aside(p) != (o.which == "aside"); });
    std::vector<Answer> those;
    for (const Point& p : table.points) {
      those.push_back(predict(p, o.mhz));
      if (!those.back().prediction)
        ++unanswered[fmt::format("{} {}: {}", p.source, p.kind, those.back().why)];
    }
    if (!o.out.empty()) write_csv(o.out, table, those);
    points.insert(points.end(), table.points.begin(), table.points.end());
    answers.insert(answers.end(), those.begin(), those.end());
  }
  Table table({"source", "kind", "dtype", ">points", ">MAPE %", ">bias %", ">shapes", ">tau", ">regret %",
               ">in interval %", "predicted for"});
  for (const Score& s : score(points, answers))
    table.add({s.source, s.kind, s.dtype, fmt::format("{}", s.points), fmt::format("{:.1f}", s.mape * 100),
               fmt::format("{:+.1f}", s.bias * 100), fmt::format("{}", s.shapes),
               s.shapes ? fmt::format("{:.2f}", s.tau) : "-",
               s.shapes ? fmt::format("{:.1f}", s.regret * 100) : "-", fmt::format("{:.0f}", s.inside * 100),
               s.machine});
  fmt::print(
      "{}\nPredicted, not measured: times against the points' measured ones. MAPE: mean of |predicted / "
      "measured - 1|; "
      "tau (Kendall's tau-b) and regret within a shape, where it has three points or more.\n",
      o.format.text(table));
  if (o.errors) {
    Table classes({"class", ">points", ">10 %", ">90 %", ">pairs", ">near 10 %", ">near 90 %", ">far 10 %",
                   ">far 90 %"});
    for (const ClassErrors& e : class_errors(points, answers))
      classes.add({e.on, fmt::format("{}", e.points), fmt::format("{:.3f}", e.low),
                   fmt::format("{:.3f}", e.high), fmt::format("{}", e.pairs),
                   fmt::format("{:.3f}", e.near_low), fmt::format("{:.3f}", e.near_high),
                   fmt::format("{:.3f}", e.far_low), fmt::format("{:.3f}", e.far_high)});
    fmt::print(
        "\nmeasured / predicted, of times and of ratios of two plans of a shape (near: predicted below "
        "1.2)\n{}",
        o.format.text(classes));
  }
  for (const auto& [why, count] : unanswered) fmt::print("  {} not predicted: {}\n", count, why);
  return 0;
}

const Command kCommand{
    "predict", "check the time model against measured points", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("--points", o->points,
                     "measured points: a CSV file, or JSON lines of sweep or bench; repeatable");
      app.add_option("--out", o->out, "write points and predictions to this CSV file");
      app.add_option("--sm-mhz", o->mhz,
                     "SM clock in MHz of points that state none; 0: the machine's under such load")
          .capture_default_str();
      app.add_option("--which", o->which, "which points: all, fitted, or aside (held out of the fit)")
          .one_of({"all", "fitted", "aside"})
          .capture_default_str();
      app.add_flag("--errors", o->errors, "also print errors by class (src/model/validation.cpp)");
      app.add_flag("--constants", o->list, "print every constant with its source");
      app.add_option("--set", o->constants, "override a constant, e.g. B200.fill=17000; repeatable");
      app.add_option("--harness", o->harness,
                     "constants of a benchmark harness, SOURCE|KERNEL=START,FLOOR,DIRTY; repeatable");
      app.examples({"fp4lab predict --points points.csv", "fp4lab predict --constants",
                    "fp4lab predict --points points.csv --which aside --out predicted.csv"});
      o->format.declare(app);
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
