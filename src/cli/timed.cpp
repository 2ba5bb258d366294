#include "cli/timed.h"

namespace fp4lab::cli {

void Timed::declare(Arguments& app, const std::string& where) {
  app.add_option("--sets", sets, where + "input sets used in rotation")
      .whole_number(1, 1000)
      .capture_default_str();
  app.add_option("--rounds", timing.rounds, where + "passes over the input sets per sample")
      .whole_number(1, 1'000'000)
      .capture_default_str();
  app.add_option("--repeats", timing.repeats, where + "samples; the median is reported")
      .whole_number(1, 1'000'000)
      .capture_default_str();
  app.add_option("--warmups", timing.warmups, where + "untimed samples first")
      .whole_number(0, 1'000'000)
      .capture_default_str();
  app.add_option("--flush", flush_mib, where + "MiB written before each sample to flush L2; 0: warm L2")
      .whole_number(0, 65536)
      .capture_default_str();
}

TimingOptions Timed::options() const {
  TimingOptions all = timing;
  all.flush_bytes = size_t(flush_mib) << 20;
  return all;
}

}  // namespace fp4lab::cli
