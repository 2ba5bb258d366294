// The Hopper kernels: one row per kernel file, and the knobs of their plans.
#include <charconv>

#include "fp4lab/error.h"
#include "fp4lab/sm90.h"

namespace fp4lab::sm90 {
namespace {

constexpr std::string_view kKnobNames = "warpgroups max_tile tile_step split local at_once sms pdl";

constexpr Rung kRungs[] = {
    {kArch, Op::kGroup, "v0_registers", "",
     "weights decoded to fp16 in registers (wgmma A operand), tokens expanded once in the same launch",
     kKnobNames},
    {kArch, Op::kGroup, "v1_loops", "v0_registers", "a main loop per tile size: no branches between wgmmas",
     kKnobNames, "top"},
    {kArch, Op::kDual, "v0_registers", "", "as group; rows of B1 and B2 interleaved, silu in the epilogue",
     kKnobNames},
    {kArch, Op::kDual, "v1_loops", "v0_registers", "a main loop per tile size: no branches between wgmmas",
     kKnobNames, "top"},
};

struct Knob {
  KnobInfo info;
  int PlanOptions::*field;
};
constexpr Knob kKnobs[] = {
    {{"warpgroups", "2..4; 0: auto", "consumer warpgroups, 64 rows of the weights each"},
     &PlanOptions::warpgroups},
    {{"max_tile", "8..256 in steps of 8; 0: auto", "maximum tokens per tile"}, &PlanOptions::max_tile},
    {{"tile_step", "8..64 in steps of 8; 0: auto", "tokens per tile are a multiple of this"},
     &PlanOptions::tile_step},
    {{"split", "0..2; -1: auto", "split-K: 1: tiles that would leave SMs idle, 2: all tiles in two"},
     &PlanOptions::split},
    {{"local", "0..2; -1: auto", "first K steps whose activations each CTA expands itself"},
     &PlanOptions::local},
    {{"at_once", "0, 1; -1: auto", "1: expand all activations before the first wgmma; 0: by ranges of K"},
     &PlanOptions::at_once},
    {{"sms", "1..132", "resident CTAs"}, &PlanOptions::sms},
    {{"pdl", "0, 1", "programmatic dependent launch"}, &PlanOptions::pdl},
};
constexpr auto kInfo = [] {
  std::array<KnobInfo, std::size(kKnobs)> info;
  for (std::size_t i = 0; i < info.size(); ++i) info[i] = kKnobs[i].info;
  return info;
}();

void set_knob(PlanOptions& options, std::string_view assignment) {
  const std::size_t equal = assignment.find('=');
  if (equal == std::string_view::npos) fail("'{}' is not NAME=VALUE", assignment);
  const std::string_view name = assignment.substr(0, equal), value = assignment.substr(equal + 1);
  for (const Knob& knob : kKnobs) {
    if (knob.info.name != name) continue;
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size())
      fail("{}: {} takes {}", assignment, name, knob.info.values);
    options.*knob.field = number;
    return;
  }
  fail("no knob of the {} kernels is called '{}'; there are: {}", kArch, name, kKnobNames);
}

}  // namespace

std::string knob_value(const Plan& plan, std::string_view name) {
  // The line says what was chosen; what it leaves out is as it was asked for.
  const std::string line = " " + plan_line(plan) + " ", mark = fmt::format(" {}=", name);
  if (const std::size_t at = line.find(mark); at != line.npos)
    return line.substr(at + mark.size(), line.find(' ', at + mark.size()) - at - mark.size());
  for (const Knob& knob : kKnobs)
    if (knob.info.name == name) return fmt::format("{}", plan.options.*knob.field);
  fail("no knob of the {} kernels is called '{}'", kArch, name);
}

std::span<const Rung> rungs() { return kRungs; }
std::span<const KnobInfo> knob_table() { return kInfo; }

Plan plan_for(const Rung& rung, const Case& c, const std::vector<std::string>& knobs) {
  PlanOptions options;
  options.loops = rung.name != "v0_registers";
  if (!options.loops) options.at_once = 0;
  for (const std::string& knob : knobs) set_knob(options, knob);
  std::vector<Shape> shapes;
  for (const auto& s : c.shapes) shapes.push_back({unsigned(s.m), unsigned(s.n), unsigned(s.k)});
  return plan(shapes, rung.op == Op::kDual, options);
}

std::vector<Reason> reasons(const Rung& rung, const Plan& plan, const Case& c) {
  std::vector<Reason> all = plan.reasons;
  if (rung.op != op_of(c.operation) || plan.dual != (rung.op == Op::kDual))
    all.push_back(
        {"op", fmt::format("{} computes a {} GEMM, case {} is a {}", rung.file(),
                           rung.op == Op::kDual ? "dual" : "group", c.name, operation_name(c.operation))});
  bool same = !all.empty() || plan.shapes.size() == c.shapes.size();
  for (std::size_t g = 0; same && all.empty() && g < c.shapes.size(); ++g) {
    const auto& a = plan.shapes[g];
    const auto& b = c.shapes[g];
    same = int(a.m) == b.m && int(a.n) == b.n && int(a.k) == b.k;
  }
  if (!same) all.push_back({"shapes", fmt::format("the plan's schedule is of other shapes than {}", c.name)});
  return all;
}

std::string plan_line(const Plan& p) {
  if (!p.reasons.empty())
    return fmt::format("warpgroups={} max_tile={} tile_step={} split={} local={} at_once={} sms={} pdl={}",
                       p.options.warpgroups, p.options.max_tile, p.options.tile_step, p.options.split,
                       p.options.local, p.options.at_once, p.options.sms, p.options.pdl);
  std::string line =
      fmt::format("warpgroups={} max_tile={} split={}", p.warpgroups, p.max_tile, int(p.split));
  if (p.options.loops) line += fmt::format(" tile_step={} at_once={}", p.tile_step, int(p.at_once));
  if (p.options.local != PlanOptions{}.local) line += fmt::format(" local={}", p.local);
  if (p.options.sms != PlanOptions{}.sms) line += fmt::format(" sms={}", p.options.sms);
  if (p.options.pdl != PlanOptions{}.pdl) line += fmt::format(" pdl={}", p.options.pdl);
  return line;
}

Placement placement(const Plan& plan, const Case& c, int sms) {
  Placement p;
  p.sms = sms;
  p.tiles = int(plan.pieces);
  p.ctas = int(plan.ctas);
  p.threads = int(plan.threads);
  int busy = 0;
  double multiplied = 0, useful = 0;
  for (unsigned u = 0; u < plan.units; ++u) busy += plan.work[u * plan.pieces_per_unit].steps != 0;
  for (const Work& w : plan.work)
    multiplied += double(w.steps) * kStep * w.tile * plan.warpgroups * kRowsPerWarpgroup;
  for (const auto& s : c.shapes) useful += double(s.m) * s.n * s.k * c.products();
  p.waves = double(plan.pieces) / plan.units;
  p.busy = double(busy) / sms;
  p.rows_used = useful / multiplied;
  p.stages = plan.stages;
  p.shared_bytes = int(plan.shared_bytes);
  p.bytes_in_flight = plan.stages * int(stage_bytes(plan.max_tile, plan.warpgroups));
  return p;
}

}  // namespace fp4lab::sm90
