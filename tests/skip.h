// Ends a test case that cannot run here, with a line that .ci/run counts as skipped.
#pragma once

#include <fmt/format.h>

#define FP4LAB_SKIP(reason)              \
  do {                                   \
    fmt::print("skipped: {}\n", reason); \
    return;                              \
  } while (0)
