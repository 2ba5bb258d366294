// Ends of launches that go nowhere: a limit of time or steps, or Ctrl-C, with a report of where every warp
// stands.
#pragma once

#include <string>

#include "emulator/driver/state.h"

namespace fp4lab::emu::driver {

// FP4LAB_TIMEOUT=SECONDS from here on, FP4LAB_STEP_LIMIT=INSTRUCTIONS of a launch, FP4LAB_INTERRUPT=1: Ctrl-C
// ends the launch that runs, and the process behind its report; FP4LAB_PROGRESS=1: says on stderr how far a
// long launch is.
void stop_by_environment(State&);

// While a launch runs.
class Watched {
 public:
  explicit Watched(State&);
  ~Watched();
  Watched(const Watched&) = delete;
};

// The process ends where it was stopped by its limit of time (status 124) or by Ctrl-C (130).
void end_if_stopped(const std::string& report);

}  // namespace fp4lab::emu::driver
