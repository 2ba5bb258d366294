#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/table.h"

namespace fp4lab::cli {

Progress::Progress(std::string what, size_t total, double seconds)
    : what_(std::move(what)),
      total_(total),
      seconds_(seconds),
      terminal_(isatty(STDERR_FILENO)),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

void Progress::update(size_t done, const std::string& current) {
  if (!terminal_ || !total_) return;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  constexpr size_t kBar = 24;
  const size_t filled = std::min(done, total_) * kBar / total_;
  double left = done ? seconds / double(done) * double(total_ - std::min(done, total_)) : seconds_;
  if (seconds_ > 0) left = std::min(left, std::max(seconds_ - seconds, 0.0));
  const std::string eta = left > 0 ? fmt::format("{:.0f} s left", left) : "";
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
