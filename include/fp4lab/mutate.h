// Mutants: a kernel's PTX with one synchronisation line removed or altered. A checker that lets a mutant pass
// has missed a bug, or the mutant is equivalent.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fp4lab {

struct Mutant {
  std::string rule;  // short and stable: "wait removed", "expect_tx + 16", ...
  int line = 0;      // of the original text, from 1
  std::string before, after;
  std::string ptx;  // the whole text with that one line changed; line numbers stay as they are
};

// Every mutant of a module's text, in line order. Rules: waits (mbarrier, tcgen05.wait,
// cp.async.bulk.wait_group, bar, cluster barriers) removed; phase flipped; arrivals, expect_tx bytes and init
// counts changed; commits, fences, copies and dealloc removed; coordinates, TMEM columns and descriptor
// fields off by one step.
std::vector<Mutant> mutants(std::string_view ptx);

}  // namespace fp4lab
