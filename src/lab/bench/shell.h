// Other programs: git, Python.
#pragma once

#include <string>

namespace fp4lab {

// One word of a shell command, whatever characters it has.
std::string shell_word(const std::string& text);

struct Ran {
  int status = 0;      // exit status, 128 + n for signal n
  std::string output;  // stdout
};
Ran run_shell(const std::string& command);

}  // namespace fp4lab
