#include "fp4lab/timing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fp4lab {

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * double(sorted.size() - 1);
  const size_t low = size_t(at), high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - double(low)) * (sorted[high] - sorted[low]);
}

Spread spread_of(std::vector<double> values) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (values.empty()) return {0, kNone, kNone, kNone, kNone, kNone};
  std::sort(values.begin(), values.end());
  return {values.size(),         values.front(),        quantile(values, 0.1),
          quantile(values, 0.5), quantile(values, 0.9), values.back()};
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) {
    if (!(v > 0)) return std::numeric_limits<double>::quiet_NaN();
    sum += std::log(v);
  }
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : std::exp(sum / double(values.size()));
}

Timer::Timer(const Device& device, TimingOptions options)
    : options_(options),
      stream_(device),
      start_(device),
      stop_(device),
      flush_(device, options.flush_bytes & ~size_t(3)) {}

Timing Timer::time(size_t sets, const Enqueue& enqueue, const std::function<void()>& during) const {
  return time(sets, enqueue, options_, during);
}

Timing Timer::time(size_t sets, const Enqueue& enqueue, const TimingOptions& options,
                   const std::function<void()>& during) const {
  if (options.repeats < 1 || options.rounds < 1 || options.warmups < 0 || sets < 1)
    fail("timing: {} repeats, {} warm-ups, {} rounds of {} input sets: each but the warm-ups is at least 1",
         options.repeats, options.warmups, options.rounds, sets);
  const Driver& driver = device().driver();
  device().make_current();
  Timing timing;
  timing.calls = sets * size_t(options.rounds);
  for (int sample = -options.warmups; sample < options.repeats; ++sample) {
    // The flush also keeps the device busy while the calls are submitted, so that no gap between them is the
    // host's.
    if (options.flush_bytes && flush_.bytes())
      driver.cuMemsetD32Async(flush_.address(), unsigned(sample), flush_.bytes() / 4, stream_);
    start_.record(stream_);
    for (int round = 0; round < options.rounds; ++round)
      for (size_t set = 0; set < sets; ++set) enqueue(set, stream_);
    stop_.record(stream_);
    if (sample >= 0 && during) during();
    stop_.synchronize();
    if (sample >= 0) timing.samples.push_back(stop_.microseconds_since(start_) / double(timing.calls));
  }
  timing.us = spread_of(timing.samples);
  return timing;
}

}  // namespace fp4lab
