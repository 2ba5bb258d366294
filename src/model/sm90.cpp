// Hopper plans bring their schedule: every unit's pieces, one after the other. What a step, an end and a
// start cost is the kernel's own (ptx/sm90/kernel.cuh), so it is measured on our own sweeps, not published.
#include <algorithm>
#include <cmath>
#include <functional>

#include "model/plans.h"
#include "model/registry.h"

namespace fp4lab::model {
namespace {

// "sweep": notes/records/2026-11-28-model, 573 plans on an H200, fitted on the half that was not set aside.
struct KernelCosts {
  // Four wgmma m64nNk16 are a chunk of K = 64: 2 N cycles of the tensor core, or decoding the weights beside
  // it.
  Constant decode_column{1.228, "cy", "sweep"}, decode{94.5, "cy", "sweep"};
  Constant step{104, "cy", "sweep: waiting for a stage, giving it back"};
  Constant sizes_in_loop{7.4, "cy", "sweep: v0 decides the size of a tile between products"};
  Constant trip{2082, "cy", "sweep: a stage is asked for stages - 1 steps ahead"};
  Constant fill{14350, "B/ns", "sweep: L2 to shared memory, all SMs; RRZE reads 10 TB/s without merging"};
  Constant queue{4, "", "assumed"};
  Constant finish{1697, "cy", "sweep"}, finish_column{1.08, "cy", "sweep"};
  Constant publish{341, "cy", "sweep"}, publish_column{31.9, "cy", "sweep"};
  Constant exchange{5986, "cy", "sweep: halves of a tile between neighbours"};
  Constant helper{3525, "cy", "sweep: waiting for one more unit's sums"};
  Constant segment{48, "cy", "sweep: expanding 256 activations"},
      item{199, "cy", "sweep: beginning with them"};
  Constant first_range{1185, "cy", "sweep"}, range{501, "cy", "sweep: each further range of K"};
  Constant dram_queue{1.69, "", "sweep: DRAM and products overlap badly"};
  Constant start{2260, "ns", "sweep: launch to the first product, without the harness"};

  void visit(const std::function<void(std::string_view, Constant&)>& f) {
    f("decode_column", decode_column), f("decode", decode), f("step", step),
        f("sizes_in_loop", sizes_in_loop);
    f("trip", trip), f("fill", fill), f("queue", queue), f("finish", finish),
        f("finish_column", finish_column);
    f("publish", publish), f("publish_column", publish_column), f("exchange", exchange), f("helper", helper);
    f("segment", segment), f("item", item), f("first_range", first_range), f("range", range);
    f("dram_queue", dram_queue), f("start", start);
  }
} kKernel;

double together(double a, double b, double p) {
  const double most = std::max(a, b);
  return most == 0 ? 0 : most * std::pow(std::pow(a / most, p) + std::pow(b / most, p), 1 / p);
}

}  // namespace

void visit_sm90_costs(const std::function<void(std::string_view, Constant&)>& f) { kKernel.visit(f); }

Estimate estimate(const sm90::Plan& plan, const Case& c, const Chip& chip, double sm_mhz,
                  const Harness& harness) {
  using namespace sm90;
  const double per_ns = sm_mhz / 1000, groups = plan.warpgroups;
  double active = 0;
  for (unsigned u = 0; u < plan.units; ++u) active += plan.work[u * plan.pieces_per_unit].steps != 0;
  const char* bound = "tensor core";
  const auto step = [&](double tile) {
    const double tensor = 2 * tile, decode = kKernel.decode_column * tile + kKernel.decode;
    const double products = kChunksPerStep * groups * std::max(tensor, decode) + kKernel.step +
                            (plan.options.loops ? 0.0 : double(kKernel.sizes_in_loop));
    const double latency = kKernel.trip / (plan.stages - 1);
    const double bytes = 2 * kTokenRowBytes * tile + groups * kWarpgroupStepBytes;
    bound = latency > products ? "latency" : tensor > decode ? "tensor core" : "decoding";
    return together(std::max(products, latency), bytes * active / kKernel.fill * per_ns, kKernel.queue);
  };
  double loop = 0, end = 0;  // of the unit that takes longest
  unsigned helpers = 0;
  for (unsigned u = 0; u < plan.units; ++u) {
    double its_loop = 0, its_end = 0;
    for (unsigned i = 0; i < plan.pieces_per_unit; ++i) {
      const Work& w = plan.work[u * plan.pieces_per_unit + i];
      if (w.steps == 0) continue;
      its_loop += w.steps * step(w.tile);
      const double finish = kKernel.finish + kKernel.finish_column * w.tile;
      its_end += w.half       ? kKernel.exchange + finish / 2
                 : w.finishes ? finish
                              : kKernel.publish + kKernel.publish_column * w.tile;
      helpers = std::max(helpers, w.helpers);
    }
    if (its_loop + its_end > loop + end) loop = its_loop, end = its_end;
  }
  step(plan.max_tile);  // names what bounds the largest tile
  const double parts = kKernel.helper * helpers;
  const double warps = plan.ctas * 4 * groups;
  const double expand = plan.at_once
                            ? std::ceil(plan.items / warps) * (plan.segments * kKernel.segment + kKernel.item)
                            : kKernel.first_range +
                                  double(plan.token_count) * kSegmentsPerRange / warps * kKernel.segment +
                                  (plan.ranges - 1) * kKernel.range;
  double rest = 0;  // bytes beside the weights: activations once, C once
  for (const auto& s : c.shapes) rest += s.m * s.k * 9.0 / 16 + 2.0 * s.m * s.n;
  const double bytes = double(plan.weight_bytes) + rest;
  const double dram = bytes / chip.dram_peak * per_ns;
  const double work = loop + end + parts + expand, all = together(work, dram, kKernel.dram_queue);

  Estimate e;
  const auto term = [&](const char* name, double us, std::string what) {
    if (us != 0) e.terms.push_back({name, us, std::move(what)});
    e.us += us;
  };
  e.waves = double(plan.pieces) / plan.units;
  e.dram_bytes = bytes;
  e.in_flight = active * plan.stages * stage_bytes(plan.max_tile, plan.warpgroups);
  e.bound = dram > work ? "DRAM" : bound;
  term("start", harness.start_us + kKernel.start / 1000, "launch, set-up, first loads");
  term("activations", expand / sm_mhz,
       plan.at_once ? "all expanded before the first product" : "their first range");
  term("main loop", loop / sm_mhz, fmt::format("{:.2f} pieces a unit, steps bound by {}", e.waves, bound));
  term("ends of tiles", end / sm_mhz, "C stored, sums sent");
  term("parts", parts / sm_mhz, fmt::format("sums of {} units added", helpers));
  term("DRAM", (all - work) / sm_mhz, fmt::format("{:.1f} MB, beyond the products", bytes / 1e6));
  return e;
}

}  // namespace fp4lab::model
