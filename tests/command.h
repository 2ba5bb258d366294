// Runs a shell command as a user would.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

struct Outcome {
  int status;        // exit status, or 128 + signal
  std::string text;  // what it wrote to stdout
  bool says(const std::string& part) const { return text.find(part) != std::string::npos; }
};

inline Outcome run_command(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  Outcome outcome{};
  std::array<char, 4096> piece;
  while (const size_t n = std::fread(piece.data(), 1, piece.size(), pipe))
    outcome.text.append(piece.data(), n);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}
