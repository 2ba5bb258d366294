// fp4lab profile, smem, tmem: what warps of each kind do in a kernel, and tiles as the tensor core sees them.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/table.h"
#include "cli/workload.h"
#include "fp4lab/error.h"
#include "fp4lab/run.h"

namespace fp4lab::cli {
namespace {

struct Options {
  OneKernel kernel;
  uint64_t product = 0;
  std::string operand = "A";
  std::vector<unsigned> rows = {0, 7}, columns = {0, 7};
};

int run(const Options& o, const std::string& what) {
  const Case c = o.kernel.the_case();
  const Candidate candidate = o.kernel.choose(c);
  require_legal(candidate, c);
  const Device device = Device::open("emulator", o.kernel.arch);
  observe(device, what);
  Trial trial(device, c, task_distribution(c.operation), 1);
  const RunResult r = run_trial(device, trial, candidate);
  say("{} {} on {}: {}\n{}", kernel_name(candidate), plan_line(candidate), c.name,
      r.passed() ? "PASS" : "FAIL", observed(device));
  if (!r.error.empty()) fmt::print("{}\n", r.error);
  if (!r.passed()) return 1;
  if (const std::string missed = unseen(device); !missed.empty()) fail("{}", missed);
  return 0;
}

void common(Arguments& app, Options& o) {
  o.kernel.declare(app);
  o.kernel.declare_ptx(app);
}

void tile(Arguments& app, Options& o) {
  common(app, o);
  app.add_option("--mma", o.product, "index of the tcgen05.mma of CTA 0, from 0")
      .whole_number_from(0)
      .capture_default_str();
  app.add_option("--rows", o.rows, "first and last").expected(2).whole_number(0, 255);
}

int show_tile(const Options& o, const std::string& operand) {
  for (const auto& [name, range] : {std::pair("--rows", &o.rows), std::pair("--columns", &o.columns)})
    if (range->at(0) > range->at(1))
      fail("{} {} {}: the first is greater than the last", name, range->at(0), range->at(1));
  return run(o, fmt::format("tile={},{},{},{},{},{}", o.product, operand, o.rows[0], o.rows[1], o.columns[0],
                            o.columns[1]));
}

const Command kProfile{"profile",
                       "profile on the emulator: instructions and waits per warp role, bytes moved",
                       [](Arguments& app) {
                         auto o = std::make_shared<Options>();
                         common(app, *o);
                         app.examples({"fp4lab profile group --case g2k1536 --kernel v2",
                                       "fp4lab profile dual --case dual:256/128/512 --set stages=2",
                                       "fp4lab profile group --case g2k1536 --kernel-file my.cu --like v2",
                                       "fp4lab profile group --case g2k1536 --ptx k.ptx"});
                         return [o] { return run(*o, "profile"); };
                       }};

const Command kSmem{
    "smem", "print an operand tile in shared memory as the tensor core reads it", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      tile(app, *o);
      app.add_option("--operand", o->operand, "A or B").capture_default_str().one_of({"A", "B"});
      app.examples({"fp4lab smem group --case group:100/128/1024 --kernel v0 --mma 1 --rows 0 3"});
      return [o] { return show_tile(*o, o->operand); };
    }};

const Command kTmem{
    "tmem", "print the accumulator in tensor memory (TMEM) after an MMA", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      tile(app, *o);
      app.add_option("--columns", o->columns, "first and last").expected(2).whole_number(0, 511);
      app.examples({"fp4lab tmem group --case group:100/128/1024 --kernel v0 --columns 0 15"});
      return [o] { return show_tile(*o, "D"); };
    }};

}  // namespace
}  // namespace fp4lab::cli
