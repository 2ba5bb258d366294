// tcgen05.mma in cycles of the SM clock: how often one can start, and how long one takes until a wait
// returns. Source: SemiAnalysisAI/microbench-blackwell, umma_throughput and umma_latency, B200, and the
// closed forms that fit them; the shared-memory port explains the intervals of small N.
#pragma once

namespace fp4lab::model {

enum class From { kShared, kTmem };  // where the MMA's A comes from ("SS", "TS")

/// One MMA of 32 bytes along K (16 fp16, 32 fp8, 64 fp4), M over `ctas` CTAs.
struct Mma {
  int m = 128, n = 128, ctas = 1;
  From a = From::kShared;
  double scale_copies = 0;  // tcgen05.cp of 128 rows' scales that one MMA needs, on each CTA
  bool block_scaled = false;
};

/// Cycles from one MMA to the next when the queue is full.
/// `port`: bytes a cycle that shared memory gives; `scale_copy`: cycles of that port that a copy takes.
double mma_interval(const Mma& mma, double port, double scale_copy);

/// The same of Hopper's wgmma: `rows` of A in one CTA, 64 an instruction, N/2 cycles each (FV: 65.0 for N =
/// 128).
double wgmma_interval(double rows, double n);

/// Cycles from issue until the wait on its commit returns, nothing else in the queue.
double mma_latency(const Mma& mma);

}  // namespace fp4lab::model
