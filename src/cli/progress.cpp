#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

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
  fmt::print(stderr, "\r\033[K{} [{:#<{}}{:.<{}}] {}/{} {} {}", what_, "", filled, "", kBar - filled, done,
             total_, current, eta);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace fp4lab::cli
