// fp4lab: the command line. Exit status 0 = all well, 1 = a check failed, 2 = bad input, nothing to answer,
// or a broken environment; 128 + n = ended by signal n.
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "cli/command.h"

int main(int argc, char** argv) {
  int status;
  try {
    status = fp4lab::cli::run_command_line(argc, argv);
  } catch (const std::exception& e) {
    std::fflush(stdout);
    fmt::print(stderr, "fp4lab: {}\n", e.what());
    return 2;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    fmt::print(stderr, "fp4lab: writing the output failed: is the disk full?\n");
    return 2;
  }
  return status;
}
