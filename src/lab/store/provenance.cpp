// Where, when and with what a record came about.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "fp4lab/error.h"
#include "fp4lab/jit.h"
#include "fp4lab/store.h"
#include "lab/bench/shell.h"

namespace fp4lab {
namespace {

// What a command prints, without the last newline; empty when it fails.
std::string output_of(const std::string& command) {
  Ran ran = run_shell(command + " 2>/dev/null");
  if (ran.status != 0) return "";
  while (!ran.output.empty() && ran.output.back() == '\n') ran.output.pop_back();
  return ran.output;
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string commit() {
  if (const char* given = std::getenv("FP4LAB_COMMIT"); given && *given) return given;
  std::string root;
  try {
    root = jit::project_root().string();
  } catch (const Error&) {
    return "unknown (no project folder)";
  }
  const std::string git = "git -C " + shell_word(root) + " ";
  const std::string head = output_of(git + "rev-parse HEAD");
  if (head.empty()) return fmt::format("unknown (no git repository at {})", root);
  const std::string changed = output_of(git + "status --porcelain --untracked-files=no");
  return head + (changed.empty() ? "" : ", modified");
}

std::string command_line() {
  std::string text, word;
  if (std::FILE* file = std::fopen("/proc/self/cmdline", "rb")) {
    for (int c; (c = std::fgetc(file)) != EOF;) {
      if (c) {
        word += char(c);
        continue;
      }
      const bool plain = !word.empty() && word.find_first_of(" \t\n'\"\\$`*?;&|<>()") == word.npos;
      text += (text.empty() ? "" : " ") + (plain ? word : shell_word(word));
      word.clear();
    }
    std::fclose(file);
  }
  return text;
}

Stamp stamp_of_process() { return {{"command", command_line()}, {"commit", commit()}}; }

Stamp stamp_of(const Device& device) {
  Stamp stamp = stamp_of_process();
  stamp.emplace_back("device", device.name());
  return stamp;
}

}  // namespace fp4lab
