// How two PTX texts differ, as far as it matters: instructions. Names of registers, labels, files and
// entries, line information, comments and blanks do not.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fp4lab {

struct PtxDifference {
  bool same = false;   // one renaming of registers and labels makes them equal
  size_t renamed = 0;  // instructions that differ in registers or labels only
  size_t only_a = 0, only_b = 0;
  struct Opcode {
    std::string name;  // with its modifiers
    size_t a = 0, b = 0;
  };
  std::vector<Opcode> opcodes;  // that are not as many in both, the largest difference first
  struct Hunk {
    int line_a = 0, line_b = 0;     // of the first instruction, from 1
    std::vector<std::string> a, b;  // instructions of one side only
  };
  std::vector<Hunk> hunks;
};

PtxDifference ptx_difference(std::string_view a, std::string_view b);

}  // namespace fp4lab
