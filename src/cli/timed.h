// How kernels are timed on a GPU: the options that bench and sweep share.
#pragma once

#include "cli/arguments.h"
#include "fp4lab/timing.h"

namespace fp4lab::cli {

// --sets, --rounds, --repeats, --warmups, --flush.
struct Timed {
  int sets = 4, flush_mib = 512;
  TimingOptions timing;

  // `where`: "on a GPU: " for commands that run elsewhere, too.
  void declare(Arguments&, const std::string& where = "");
  TimingOptions options() const;  // of the Timer
};

}  // namespace fp4lab::cli
