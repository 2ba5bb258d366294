// Choosing the top rung's plan: every legal combination of a few knobs, scored by a model of what a B200 does
// with it. The model ranks plans; its microseconds are an estimate that nobody has measured.
#include "lab/sm100/choose.h"

#include <algorithm>
#include <vector>

namespace fp4lab::sm100 {
namespace {

// Published measurements on B200 unless marked; cycles are those of the SM at 1.85 GHz.
constexpr double kClock = 1.85e9;
constexpr double kDramBytesPerCycle = 7.2e12 / kClock;  // TMA reads of DRAM, all SMs together
constexpr double kFillBytesPerCycle = 58;               // L2 to shared memory, per SM with all SMs loading
constexpr double kLaunch = 4000;          // launch, set-up, tear-down (an assumption, equal for all plans)
constexpr double kFirstLoad = 1500;       // DRAM latency under load until the first stage is full
constexpr double kEpiloguePerColumn = 6;  // TMEM load, conversion and store of 128 lanes
constexpr double kPartExchange = 1500;    // counting a split-K part: atomic and one trip to L2 (assumption)
constexpr int kSms = 148;

// One tcgen05.mma of a pair, M = 256, K = 64: the N/2 cycles of the data path, or reading the operands.
double mma_cycles(int n) { return std::max(n / 2.0, 32 + n / 8.0); }

}  // namespace

double estimate_us(const Plan& p, const Case& c) {
  const int pairs = std::max(1, (p.ctas > 0 ? p.ctas : kSms) / 2);
  std::vector<double> busy(pairs, kFirstLoad);
  double dram = 0;
  int number = 0;
  const std::vector<int> order = group_order(p, c.shapes);
  for (int index = 0; index < int(order.size()); ++index) {
    const Shape& s = c.shapes[order[index]];
    const int parts = p.parts(s.k, index, int(order.size()));
    const int left_tiles = (s.n + p.mma_m - 1) / p.mma_m,
              right_tiles = (s.m + p.tile_columns() - 1) / p.tile_columns();
    dram += (double(s.n) + s.m) * s.k * 9 / 16 + 2.0 * s.m * s.n;
    const double stages = double(s.k) / p.block_k / parts;
    for (int left = 0; left < left_tiles; ++left)
      for (int right = 0; right < right_tiles; ++right) {
        const int n = p.tile_n(s.m - right * p.tile_columns());
        const double multiply = p.k_blocks() * mma_cycles(n);
        const double load = p.load_bytes(p.box_rows(s.m), (n + p.mma_n - 1) / p.mma_n) / kFillBytesPerCycle;
        double epilogue = n * kEpiloguePerColumn;
        if (parts > 1) epilogue += kPartExchange + 2.0 * n * 128 * 4 / kFillBytesPerCycle;
        const double loop = stages * std::max(multiply, load);
        // With one accumulator the epilogue stands between two main loops; with more it must only not be
        // longer.
        const double tile = p.acc_slots == p.halves ? loop + epilogue : std::max(loop, epilogue);
        for (int part = 0; part < parts; ++part) busy[number++ % pairs] += tile;
        if (p.acc_slots > 1) busy[(number - 1) % pairs] += 1;  // equal otherwise: prefer fewer slots
      }
  }
  const int last_n = p.tile_columns();
  const double makespan = *std::max_element(busy.begin(), busy.end()) +
                          (p.acc_slots > 1 ? last_n * kEpiloguePerColumn : 0) +
                          (p.split_k > 1 ? kPartExchange : 0);
  return (kLaunch + std::max(makespan, kFirstLoad + dram / kDramBytesPerCycle)) / kClock * 1e6;
}

Plan cheapest(const std::vector<Plan>& plans, const Case& c) {
  const Plan* best = nullptr;
  double least = 0;
  for (const Plan& p : plans) {
    bool legal = plan_reasons(p).empty();
    for (const Shape& s : c.shapes) legal = legal && shape_reasons(p, s.m, s.n, s.k).empty();
    if (!legal) continue;
    const double us = estimate_us(p, c);
    if (!best || us < 0.99 * least)
      best = &p, least = us;  // differences below 1 % are noise: the earlier plan
  }
  return best ? *best : plans.front();
}

}  // namespace fp4lab::sm100
