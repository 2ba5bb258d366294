// Ctrl-C in a command that has results already: it tells them before it ends.
#pragma once

#include <sys/types.h>

#include <functional>

namespace fp4lab::cli {

// While there is one, SIGINT, SIGTERM and SIGHUP call `tell` on a thread of its own, end the children that
// were named, and end the process with status 128 + the signal's number. The work goes on meanwhile, so
// `tell` reads what may be read from another thread (Store::records). A second signal ends the process at
// once. One at a time. `as_usual`: Ctrl-C is how the command is ended, with status 0.
class OnInterrupt {
 public:
  explicit OnInterrupt(std::function<void()> tell, bool as_usual = false);
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;
};

// A child that leads a process group of its own, and so does not see the terminal's signals; 0: it has ended.
void ends_with_us(pid_t group);

}  // namespace fp4lab::cli
