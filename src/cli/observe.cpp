// fp4lab profile, smem, tmem: what warps of each kind do in a kernel, and tiles as the tensor core sees them.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "fp4lab/run.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::string kernel, case_name, arch = std::string(architectures()[0]), ptx;
  std::vector<std::string> knobs;
  uint64_t product = 0;
  std::string operand = "A";
  std::vector<unsigned> rows = {0, 7}, columns = {0, 7};
};

int run(const Options& o, const std::string& what) {
  const Case c = find_case(o.case_name);
  const Rung& rung = find_rung(o.arch, op_of(c.operation), o.kernel);
  Candidate candidate = candidate_for(rung, c, o.knobs);
  candidate.ptx = o.ptx;
  require_legal(candidate, c);
  const Device device = Device::open("emulator", o.arch);
  observe(device, what);
  Trial trial(device, c, task_distribution(c.operation), 1);
  const RunResult r = run_trial(device, trial, candidate);
  fmt::print("{} {} on {}: {}\n{}", rung.name, plan_line(candidate), c.name, r.passed() ? "PASS" : "FAIL",
             observed(device));
  if (!r.error.empty()) fmt::print("{}\n", r.error);
  return r.passed() ? 0 : 1;
}

void common(Arguments& app, Options& o) {
  app.add_option("kernel", o.kernel, "a rung").required();
  app.add_option("case", o.case_name, "a case or shape").required();
  app.add_option("--arch", o.arch, "sm_100a or sm_90a").capture_default_str();
  app.add_option("--set", o.knobs, "a knob of the plan, as stages=4; may be repeated");
  app.add_option("--ptx", o.ptx, "run this (edited) PTX in place of the compiled kernel");
}

void tile(Arguments& app, Options& o) {
  common(app, o);
  app.add_option("--mma", o.product, "which tcgen05.mma of CTA 0, from 0").capture_default_str();
  app.add_option("--rows", o.rows, "first and last").expected(2);
}

std::string tile_text(const Options& o, const std::string& operand) {
  return fmt::format("tile={},{},{},{},{},{}", o.product, operand, o.rows[0], o.rows[1], o.columns[0],
                     o.columns[1]);
}

const Command kProfile{"profile", "what each kind of warp does, what it waits for, which bytes go where",
                       [](Arguments& app) {
                         auto o = std::make_shared<Options>();
                         common(app, *o);
                         return [o] { return run(*o, "profile"); };
                       }};

const Command kSmem{
    "smem", "an operand tile in shared memory as the tensor core sees it: rows, values, scales",
    [](Arguments& app) {
      auto o = std::make_shared<Options>();
      tile(app, *o);
      app.add_option("--operand", o->operand, "A or B").capture_default_str().one_of({"A", "B"});
      return [o] { return run(*o, tile_text(*o, o->operand)); };
    }};

const Command kTmem{"tmem", "the accumulator in tensor memory behind an MMA", [](Arguments& app) {
                      auto o = std::make_shared<Options>();
                      tile(app, *o);
                      app.add_option("--columns", o->columns, "first and last").expected(2);
                      return [o] { return run(*o, tile_text(*o, "D")); };
                    }};

}  // namespace
}  // namespace fp4lab::cli
