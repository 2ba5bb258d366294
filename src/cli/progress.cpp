#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/table.h"

namespace fp4lab::cli {

Progress::Progress(std::string what, size_t total)
    : what_(std::move(what)),
      total_(total),
      terminal_(isatty(STDERR_FILENO)),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

void Progress::update(size_t done, const std::string& current) {
  if (!terminal_ || !total_) return;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  constexpr size_t kBar = 24;
  const size_t filled = done * kBar / total_;
  const std::string eta = done ? fmt::format("{:.0f} s left", seconds / done * (total_ - done)) : "";
  std::string line =
      fmt::format("{} [{:#<{}}{:.<{}}] {}/{} ", what_, "", filled, "", kBar - filled, done, total_);
  // A line that is longer than the terminal would leave a piece behind at each step.
  const size_t width = std::max<size_t>(terminal_width(STDERR_FILENO), 20) - 1;
  const size_t room = width - std::min(width, line.size() + eta.size() + 1);
  line += current.size() <= room ? current : current.substr(0, room - std::min<size_t>(room, 3)) + "...";
  line = (line + " " + eta).substr(0, width);
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace fp4lab::cli
