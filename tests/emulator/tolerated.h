// Kernels with something that a tolerant schedule notes, and without.
#pragma once

#include "kernel.h"

namespace fp4lab::emu::test {

// The outcome of a kernel that writes `words` words to its only parameter, `out`.
struct Ran {
  LaunchResult result;
  std::vector<uint32_t> out;
  // Whether the report of the fault, or else a note, contains the text.
  bool says(const char* what) const {
    return (result.ok ? result.notes : result.report).find(what) != std::string::npos;
  }
};

struct Options {
  Watcher* watcher = nullptr;
  uint64_t seed = 0;
  uint32_t cluster = 1;  // CTAs, of the only cluster
  bool eager = false;
};

inline Ran run(const std::string& text, bool tolerant, uint32_t threads, size_t words,
               const Options& o = {}) {
  Kernel k(text);
  const uint64_t out = k.buffer(4 * words);
  k.param(out);
  k.config.block.x = threads;
  k.config.grid.x = k.config.cluster.x = o.cluster;
  if (o.eager) k.schedule.kind = Schedule::Kind::eager;
  k.schedule.tolerant = tolerant;
  k.watcher = o.watcher;
  Ran r{k.run(o.seed), {}};
  r.out = k.download<uint32_t>(out, words);
  return r;
}

}  // namespace fp4lab::emu::test
