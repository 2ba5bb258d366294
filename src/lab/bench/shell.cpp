#include "lab/bench/shell.h"

#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fp4lab/error.h"

namespace fp4lab {

std::string shell_word(const std::string& text) {
  std::string out = "'";
  for (const char c : text)
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  return out + "'";
}

Ran run_shell(const std::string& command) {
  std::fflush(stdout);
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) fail("{}: {}", command, std::strerror(errno));
  Ran ran;
  char piece[4096];
  while (const size_t n = std::fread(piece, 1, sizeof piece, pipe)) ran.output.append(piece, n);
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace fp4lab
