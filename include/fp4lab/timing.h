// How long does work on the device take? Timed as the public contest does: the L2 is flushed, then one pair
// of events surrounds a sequence of calls that goes through several sets of inputs, so that no call finds its
// operands in the cache; time per call = total / calls; the median over repeats counts, and the spread is
// shown.
//
//   Timer timer(device, {.repeats = 30});
//   const Timing t = timer.time(sets.size(), [&](size_t set, CUstream stream) { launch[set].run(stream); });
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "fp4lab/device.h"

namespace fp4lab {

/// Order statistics of a sample; percentiles are linear between neighbours (numpy's default). All NaN for an
/// empty one.
struct Spread {
  size_t count = 0;
  double min, p10, median, p90, max;
};
Spread spread_of(std::vector<double> values);
/// `q` in [0, 1]; `sorted` ascending, not empty.
double quantile(const std::vector<double>& sorted, double q);
/// exp of the mean logarithm; NaN for an empty list or a value that is not positive.
double geometric_mean(const std::vector<double>& values);

struct TimingOptions {
  int repeats = 30;                        // samples
  int warmups = 3;                         // samples before them, not counted
  int rounds = 1;                          // times each sample goes through the input sets
  size_t flush_bytes = size_t(512) << 20;  // overwritten before each sample; 0: no flush, operands stay in L2
};

struct Timing {
  Spread us{};                  // per call
  std::vector<double> samples;  // in the order taken
  size_t calls = 0;             // in each sample
};

class Timer {
 public:
  /// Allocates the flushed memory. Fails on options that cannot be (no repeats).
  Timer(const Device& device, TimingOptions options);

  using Enqueue = std::function<void(size_t set, CUstream stream)>;
  /// `enqueue` submits one call on the inputs of `set` (0 .. sets - 1) and must not wait for it. `during`, if
  /// there, is called once per counted sample, while the device works on it.
  Timing time(size_t sets, const Enqueue& enqueue, const std::function<void()>& during = {}) const;
  /// The same with other options than the timer's own (its flushed memory stays the size it is).
  Timing time(size_t sets, const Enqueue& enqueue, const TimingOptions& options,
              const std::function<void()>& during = {}) const;

  const TimingOptions& options() const { return options_; }
  const Stream& stream() const { return stream_; }
  const Device& device() const { return stream_.device(); }

 private:
  TimingOptions options_;
  Stream stream_;
  Event start_, stop_;
  DeviceBuffer flush_;
};

}  // namespace fp4lab
