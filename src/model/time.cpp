// From counts to time: what bounds a k-tile, how tiles queue up in the units, what DRAM adds, what nothing
// hides.
#include <algorithm>
#include <cmath>

#include "model/kernel.h"

namespace fp4lab::model {
namespace {

double together(double a, double b, double p) {
  const double most = std::max(a, b);
  return most == 0 ? 0 : most * std::pow(std::pow(a / most, p) + std::pow(b / most, p), 1 / p);
}

struct Traffic {
  double dram = 0;   // bytes that DRAM moves
  double least = 0;  // bytes of all operands, once
};

// Who reads what again. A wave is what the units compute at once: it shares its operands through the L2,
// unless its walk over K is so long that the units drift apart by more than the L2 holds. What a wave needs
// again of the one before is still there as far as the operands fit.
Traffic traffic(const Chip& chip, const std::vector<Sweep>& sweeps, double units) {
  Traffic t;
  double out = 0;
  for (const Sweep& s : sweeps) {
    const double least = s.fast_bytes + s.slow_bytes;
    const double tiles = s.fast_tiles * s.slow_tiles, at_once = std::min(units, tiles);
    const double fast = std::min(s.fast_tiles, at_once), slow = std::ceil(at_once / s.fast_tiles);
    const double unique =
        std::min(fast * s.fast_panel, s.fast_bytes) + std::min(slow * s.slow_panel, s.slow_bytes);
    const double asked = at_once * (s.fast_panel + s.slow_panel);
    const double waves = tiles / at_once;
    const double all = std::max(least, unique * waves);
    const double lost = 1 / (1 + std::pow(chip.l2_effective * 1e6 / least, 2 * chip.l2_sharpness));
    const double apart = chip.drift * std::max(0.0, 1 - chip.l2_effective * 1e6 / unique);
    t.least += least;
    t.dram += least + (all - least) * lost + std::max(0.0, asked - unique) * waves * apart;
    out += s.out_bytes;
  }
  t.dram += out;
  return t;
}

// Units take tiles one after the other in the kernel's order. The unit that ends last counts.
struct Busiest {
  double loop = 0, between = 0;  // cycles: its main loops, its epilogues that nothing hides
  int last = 0;                  // kind of its last tile
};

}  // namespace

Step step(const Chip& chip, double sm_mhz, const TileKind& k, const Kernel& kernel, double active,
          double miss_share) {
  const double per_ns = sm_mhz / 1000;
  const double trip = chip.round_trip + chip.round_trip_row * k.rows +
                      chip.round_trip_kb * k.arriving / 1024 + chip.round_trip_mma * k.mma +
                      chip.round_trip_load * std::max(0.0, k.loads - 2) + chip.miss * per_ns * miss_share;
  const struct {
    double cycles;
    const char* name;
  } own[] = {{k.mma + chip.mma_stage, "tensor core"},
             {trip / kernel.stages, "latency"},
             {k.rows * chip.tma_row, "TMA rows"},
             {kernel.scale_slots ? (k.mma + chip.tail) / kernel.scale_slots : 0, "scale slots"},
             {chip.stage_least, "hand-over"}};
  const auto* most = &own[0];
  for (const auto& o : own)
    if (o.cycles > most->cycles) most = &o;
  const double fill = k.from_l2 * active / chip.fill * per_ns;
  return {together(most->cycles, fill, chip.queue), fill > most->cycles ? "L2 fill" : most->name};
}

Estimate estimate(const Chip& chip, double sm_mhz, const Kernel& kernel, const Harness& harness) {
  const double per_us = sm_mhz;
  double tiles = 0, asked = 0, tensor = 0;
  for (const Kernel::Run& run : kernel.order) {
    tiles += run.count;
    const TileKind& k = kernel.kinds[run.kind];
    asked += run.count * kernel.ctas * k.steps * k.from_l2;
    tensor += run.count * kernel.ctas * k.steps * k.mma;
  }
  const double at_once = std::min(kernel.units * kernel.resident, tiles), active = at_once * kernel.ctas;
  const Traffic moved = traffic(chip, kernel.sweeps, kernel.units * kernel.resident);
  double out = 0;
  for (const Sweep& s : kernel.sweeps) out += s.out_bytes;
  const double miss_share = std::min(1.0, (moved.dram - out) / std::max(1.0, asked));

  // Cycles of each kind of tile: its loop, and what of its epilogue the next tile's loop does not hide.
  std::vector<double> loop, between, epilogue;
  std::vector<const char*> bounds;
  for (TileKind k : kernel.kinds) {
    k.mma *= std::min(kernel.resident, std::ceil(tiles / kernel.units));
    const Step s = step(chip, sm_mhz, k, kernel, active, miss_share);
    loop.push_back(k.steps * s.cycles), bounds.push_back(s.bound);
    epilogue.push_back(kernel.epilogue->cycles(k.columns, k.out_bytes));
    double exposed =
        kernel.slots > 1 ? kernel.epilogue->exposed * epilogue.back() : epilogue.back() + chip.tail;
    if (kernel.slots > 1) exposed = std::max(exposed, epilogue.back() - loop.back());
    if (!kernel.persistent)  // its successor on the SM sets up and waits for its first stage
      exposed += (chip.slot_reuse + (chip.set_up + chip.first_fill) * per_us / 1000) / kernel.resident;
    between.push_back(exposed);
  }

  Busiest busiest;
  if (kernel.order.size() == 1) {
    const double waves = std::ceil(tiles / (kernel.units * kernel.resident));
    busiest = {waves * loop[kernel.order[0].kind], waves * between[kernel.order[0].kind],
               kernel.order[0].kind};
  } else {
    std::vector<Busiest> units(std::max(1.0, at_once));
    size_t next = 0;
    for (const Kernel::Run& run : kernel.order)
      for (double i = 0; i < run.count; ++i, next = (next + 1) % units.size()) {
        Busiest& unit = units[next];
        unit.loop += loop[run.kind], unit.between += between[run.kind], unit.last = run.kind;
      }
    for (const Busiest& unit : units)
      if (unit.loop + unit.between > busiest.loop + busiest.between) busiest = unit;
  }
  // What follows the last tile's loop counts as the end, not as between tiles.
  busiest.between -= between[busiest.last];
  double end =
      std::max(epilogue[busiest.last], between[busiest.last] * (kernel.persistent ? 1 : 0)) + chip.tail;
  double exchange = 0;
  if (kernel.parts > 1)
    exchange = chip.part_exchange + 2 * kernel.part_bytes * active / chip.fill * per_us / 1000;

  const double dirty = std::min(moved.least, harness.dirty_mb * 1e6);
  const double dram = (moved.dram + dirty) / chip.dram / 1000 * per_us;  // cycles
  const double work = busiest.loop + busiest.between;
  const double core = together(work, dram, chip.queue);

  Estimate e;
  e.waves = tiles / (kernel.units * kernel.resident);
  e.dram_bytes = moved.dram;
  e.in_flight = kernel.stages * kernel.stage_bytes * active;
  e.bound = dram > work ? "DRAM" : bounds[busiest.last];
  const auto term = [&](const char* name, double us, std::string what) {
    if (us != 0) e.terms.push_back({name, us, std::move(what)});
    e.us += us;
  };
  term("start", harness.start_us, "launch and what the harness adds");
  term("set-up", chip.set_up / 1000, "barriers, TMEM, cluster");
  term("first fill", chip.first_fill / 1000, "descriptors, cold loads of the first stage");
  term("main loop", busiest.loop / per_us,
       fmt::format("{:.2f} waves, k-tiles bound by {}", e.waves, bounds[busiest.last]));
  term("between tiles", busiest.between / per_us, "epilogues that no main loop hides");
  term("DRAM", (core - work) / per_us, fmt::format("{:.1f} MB, beyond the main loop", moved.dram / 1e6));
  term("parts", exchange / per_us, "split-K: sums through the L2");
  term("end", end / per_us, "last MMA, last epilogue");
  if (harness.floor_us > 0) {
    const double floored = together(e.us, harness.floor_us, 8);
    term("floor", floored - e.us, "the harness shows no less");
  }
  e.tensor_share = tensor / chip.sms / (e.us * per_us);
  return e;
}

}  // namespace fp4lab::model
