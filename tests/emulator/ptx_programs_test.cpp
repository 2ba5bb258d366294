// Runs every program of tests/ptx on the emulator.
#include <doctest/doctest.h>

#include "ptx_program.h"

using namespace fp4lab;
using namespace fp4lab::ptx_test;

TEST_CASE("PTX programs give their bits") {
  for (const auto& path : all_programs()) {
    const Program p = read_program(path);
    for (const Case& c : p.cases) {
      Outcome o;
      REQUIRE_NOTHROW(o = run_on_emulator(p, c));
      for (const std::string& failure : o.failures) FAIL_CHECK(failure);
    }
  }
}
