// Runs every program of tests/ptx on the emulator, and checks that each row of the opcode table is executed
// or exempt.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "../gpu.h"
#include "../skip.h"
#include "emulator/isa/opcode.h"
#include "ptx_program.h"

using namespace fp4lab;
using namespace fp4lab::ptx_test;

namespace {

// Rows that no program of tests/ptx executes, with the reason. An exemption fails once its row is executed.
const std::map<std::string_view, std::string_view> kNotExecuted = {};

// The engines' instructions have tests of their own (tests/emulator/*_test.cpp).
bool belongs_to_engine(const emu::Opcode& row) {
  return row.section.starts_with("9.7.15") || row.section.starts_with("9.7.16") ||
         row.section.starts_with("9.7.13.15") || row.section.starts_with("9.7.9.25") ||
         row.section.starts_with("9.7.9.26") || row.section.starts_with("9.7.9.27") ||
         row.section.starts_with("9.7.9.28") || row.section.starts_with("9.7.13.1.") ||
         row.section == "9.7.13.1" || row.section == "9.7.13.3" || row.section.starts_with("9.7.13.16") ||
         row.section.starts_with("9.7.13.17") || row.section.starts_with("9.7.13.18");
}

}  // namespace

TEST_CASE("PTX programs give their bits, and every row of the table is executed") {
  std::set<const emu::Opcode*> executed;
  for (const auto& path : all_programs()) {
    const Program p = read_program(path);
    for (const Case& c : p.cases) {
      Outcome o;
      REQUIRE_NOTHROW(o = run_on_emulator(p, c));
      for (const std::string& failure : o.failures) FAIL_CHECK(failure);
      for (const auto& [opcode, count] : o.statistics.by_opcode)
        if (count) executed.insert(opcode);
    }
  }
  for (const emu::Opcode& row : emu::opcodes()) {
    if (belongs_to_engine(row)) continue;
    CAPTURE(row.name);
    if (kNotExecuted.contains(row.name))
      CHECK_MESSAGE(!executed.contains(&row), "is executed: it needs no exemption any more");
    else
      CHECK_MESSAGE(executed.contains(&row), "is executed by no program of tests/ptx");
  }
}

TEST_CASE("PTX programs: a GPU gives their bits") {
  const std::shared_ptr<Driver> gpu = open_gpu();
  if (!gpu) FP4LAB_SKIP("no GPU");
  for (const auto& path : all_programs()) {
    const Program p = read_program(path);
    if (!p.hardware || p.target != 90) continue;
    for (const Case& c : p.cases) {
      if (!c.fault.empty() || !c.refuse.empty()) continue;  // a fault would end the context
      Outcome o;
      CHECK_NOTHROW(o = run_on_driver(p, c, *gpu));
      for (const std::string& failure : o.failures) FAIL_CHECK(failure);
    }
  }
}
