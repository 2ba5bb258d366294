#include "cli/timed.h"

namespace fp4lab::cli {

void Timed::declare(Arguments& app, const std::string& where) {
  app.add_option("--sets", sets, where + "sets of inputs, in rotation")
      .whole_number(1, 1000)
      .capture_default_str();
  app.add_option("--rounds", timing.rounds, where + "times that a sample goes through the sets")
      .whole_number(1, 1'000'000)
      .capture_default_str();
  app.add_option("--repeats", timing.repeats, where + "samples; their median counts")
      .whole_number(1, 1'000'000)
      .capture_default_str();
  app.add_option("--warmups", timing.warmups, where + "samples before them")
      .whole_number(0, 1'000'000)
      .capture_default_str();
  app.add_option("--flush", flush_mib, where + "MiB overwritten before each sample; 0: the cache stays warm")
      .whole_number(0, 65536)
      .capture_default_str();
}

TimingOptions Timed::options() const {
  TimingOptions all = timing;
  all.flush_bytes = size_t(flush_mib) << 20;
  return all;
}

}  // namespace fp4lab::cli
