#include "model/tensor.h"

#include <algorithm>
#include <cmath>

namespace fp4lab::model {

double mma_interval(const Mma& mma, double port, double scale_copy) {
  // The data path takes N/2 cycles for 64 or 128 rows of A in a CTA, N/4 when a pair shares 128 rows.
  const double data = mma.ctas == 2 && mma.m == 128 ? mma.n / 4.0 : mma.n / 2.0;
  const double rows_a = mma.a == From::kShared ? double(mma.m) / mma.ctas : 0,
               rows_b = double(mma.n) / mma.ctas;
  const double operands = (rows_a + rows_b) * 32 / port;
  // Tiles with N of 16 and 32 show the least interval (CUTLASS main loop, same source): 64 rows 28, 128
  // rows 41.
  const double least = mma.a == From::kTmem ? 0
                       : mma.ctas == 2      ? operands + (mma.m == 256 ? 3.5 : 1.3)
                       : mma.m == 64        ? 28
                                            : 41;
  return std::max({data, operands + scale_copy * mma.scale_copies, mma.scale_copies > 0 ? 0 : least});
}

double wgmma_interval(double rows, double n) { return std::ceil(rows / 64) * std::max(n / 2, 16.0); }

double mma_latency(const Mma& mma) {
  const bool shared = mma.a == From::kShared;
  double cycles = 0;
  if (mma.ctas == 1)
    cycles = mma.n / 2.0 + (!shared ? 104 : mma.m == 64 ? 120 : 136);
  else if (mma.m == 256)
    cycles = mma.n / 2.0 + (shared ? 170 : 138);
  else
    cycles = mma.n / 4.0 + (!shared ? 146 : mma.n <= 64 ? 157 : 165);
  if (mma.block_scaled) cycles += mma.ctas == 1 && shared ? 1 : 3;
  return cycles;
}

}  // namespace fp4lab::model
