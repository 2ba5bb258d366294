// A program run to its end, or to a limit of time.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace fp4lab::cli {

struct Child {
  int status = 0;          // its exit status, or 128 + the signal that ended it
  bool timed_out = false;  // killed, with what it had started, at the limit
  std::string out;         // stdout; stderr goes to /dev/null
};

// Throws fp4lab::Error when it cannot be started. `command[0]` is a path.
Child run_child(const std::vector<std::string>& command, std::chrono::milliseconds limit);

}  // namespace fp4lab::cli
