// Mutants: a kernel's PTX with one synchronisation line removed or altered. A checker that lets a mutant pass
// has missed a bug, or the mutant is equivalent.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fp4lab {

struct Mutant {
  std::string rule;  // short and stable: "wait removed", "expect_tx + 16", ...
  int line = 0;      // of the original text, from 1; where the instruction begins
  std::string before, after;
  size_t begin = 0, end = 0;  // what `after` stands in place of, in bytes of the original text
  // The whole text with that one instruction changed; line numbers stay as they are.
  std::string applied(std::string_view ptx) const;
};

// Every mutant of a module's text, in line order: of any PTX, with several instructions on a line (inline
// assembly) or an instruction on several lines. Rules (src/lab/mutation_rules.cpp): waits, arrivals, commits,
// fences, barriers, copies, allocations removed; phases flipped, or never toggled; counts, bytes, scopes,
// masks, mbarriers, coordinates, TMEM columns and descriptor fields altered by one step. A guard (@%p1) stays
// in front of what is altered, but for the rule that removes it.
std::vector<Mutant> mutants(std::string_view ptx);

// How well a report leads to the altered instruction, the best of:
enum class Naming {
  line,  // names its line ("k.ptx:12", "line 12")
  near,  // names a line at most kNearInstructions instructions away, or of the instruction of the kinds that
         // are altered here (synchronising, asynchronous) in front of it or behind it
  gap,   // says that an instruction of its kind is missing between two lines around it
  none,
};
constexpr int kNearInstructions = 5;
Naming naming(std::string_view ptx, const Mutant&, std::string_view report);

}  // namespace fp4lab
