// A machine as the model sees it: rates, latencies and sizes, each with its unit, the clock it is tied to,
// and where the figure comes from. One file a machine: b200.cpp, h200.cpp, h100.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fp4lab::model {

/// Units say the clock domain: "cy" are cycles of the SM clock and scale with it; "ns" and "B/ns" are tied to
/// the clocks of L2 and DRAM, which the SM clock does not change.
struct Constant {
  double value = 0;
  std::string_view unit, source;
  constexpr operator double() const { return value; }
};

/// How results leave: cycles of one CTA's epilogue for `columns` columns of 128 lanes and its kilobytes of
/// output.
struct EpiloguePath {
  Constant start, column, kilobyte;
  Constant exposed;  // share that the next tile's main loop does not hide although there are two accumulators
  double cycles(double columns, double bytes) const {
    return start + column * columns + kilobyte * bytes / 1024;
  }
};

struct Chip {
  std::string_view name, arch;
  // -- counts
  Constant sms;
  Constant pairs, quads;  // clusters of two and of four CTAs that are resident at once, one CTA an SM
  Constant shared_bytes;  // of a CTA
  // -- the SM clock under such work
  Constant sm_mhz, sm_mhz_low, sm_mhz_high;
  Constant sm_mhz_loaded;  // what power leaves when the tensor cores are always busy, for long
  // -- rooflines (fp4lab sol)
  Constant dram_peak, flops_peak;
  // -- TMA, of one SM
  Constant tma_row;     // a row of up to 128 bytes
  Constant round_trip;  // of a stage: asked for until multiplied and free again, L2 hit
  Constant round_trip_row, round_trip_kb, round_trip_mma, round_trip_load;  // and what makes it longer
  Constant miss;         // longer by this when the line is not in the L2
  Constant stage_least;  // producer and consumer hand a stage over: no k-tile is shorter
  // -- L2 and DRAM
  Constant l2_bytes, l2_effective;  // physical; as far as data stay that all SMs read
  Constant l2_sharpness;            // how suddenly reuse is lost beyond it
  Constant fill;                    // L2 to shared memory, all SMs together
  Constant drift;                   // share of shared reads that come too late for the L2 on long walks of K
  Constant dram;
  Constant queue;  // exponent p: two demands on a resource take (a^p + b^p)^(1/p)
  // -- tensor core
  Constant port;                         // shared-memory reads
  Constant scale_copy, scale_copy_pair;  // tcgen05.cp of 128 rows' scales for K = 64, on that port; of a pair
  Constant mma_stage;  // waiting for a stage and committing it, which the tensor core does not hide
  // -- a CTA's life
  Constant set_up;      // barriers, TMEM, cluster synchronisation
  Constant first_fill;  // descriptor fetch and cold loads until the first stage is full
  Constant slot_reuse;  // one CTA ends, the next one begins on the SM
  Constant tail;        // last MMA to the epilogue: completion, commit, wait
  EpiloguePath tma_store, fp32_store, direct_store;
  Constant part_exchange;  // split-K: counting a part and one trip to the L2
  // -- launches
  Constant launch;      // back to back in a stream
  Constant graph_node;  // in a graph
  Constant pdl_saves;

  /// f(name, constant) for every constant. The only list of their names.
  template <class Self, class F>
  static void visit(Self& c, F f) {
    f("sms", c.sms), f("pairs", c.pairs), f("quads", c.quads), f("shared_bytes", c.shared_bytes);
    f("sm_mhz", c.sm_mhz), f("sm_mhz_low", c.sm_mhz_low), f("sm_mhz_high", c.sm_mhz_high);
    f("sm_mhz_loaded", c.sm_mhz_loaded);
    f("dram_peak", c.dram_peak), f("flops_peak", c.flops_peak);
    f("tma_row", c.tma_row), f("round_trip", c.round_trip), f("round_trip_row", c.round_trip_row);
    f("round_trip_kb", c.round_trip_kb), f("round_trip_mma", c.round_trip_mma);
    f("round_trip_load", c.round_trip_load), f("miss", c.miss), f("stage_least", c.stage_least);
    f("l2_bytes", c.l2_bytes), f("l2_effective", c.l2_effective), f("l2_sharpness", c.l2_sharpness);
    f("fill", c.fill), f("drift", c.drift), f("dram", c.dram), f("queue", c.queue);
    f("port", c.port), f("scale_copy", c.scale_copy), f("scale_copy_pair", c.scale_copy_pair),
        f("mma_stage", c.mma_stage);
    f("set_up", c.set_up), f("first_fill", c.first_fill), f("slot_reuse", c.slot_reuse), f("tail", c.tail);
    const auto path = [&](const std::string& name, auto& p) {
      f(name + ".start", p.start), f(name + ".column", p.column), f(name + ".kilobyte", p.kilobyte);
      f(name + ".exposed", p.exposed);
    };
    path("tma_store", c.tma_store), path("fp32_store", c.fp32_store), path("direct_store", c.direct_store);
    f("part_exchange", c.part_exchange), f("launch", c.launch), f("graph_node", c.graph_node);
    f("pdl_saves", c.pdl_saves);
  }
};

extern const Chip kB200, kH200, kH100;

std::span<const Chip> chips();
/// By name; empty: the first that runs `arch`. Fails with the names there are.
const Chip& find_chip(std::string_view name, std::string_view arch);

}  // namespace fp4lab::model
