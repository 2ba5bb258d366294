#include "cli/interrupt.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

#include "fp4lab/error.h"

namespace fp4lab::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

int ends[2] = {-1, -1};  // of the pipe that a signal writes its number to
std::atomic<bool> telling = false;
std::atomic<pid_t> child_group = 0;
std::thread teller;
struct sigaction before[std::size(kSignals)];

void on_signal(int number) {
  const int error = errno;
  if (telling.exchange(true)) _exit(128 + number);
  const unsigned char byte = static_cast<unsigned char>(number);
  if (write(ends[1], &byte, 1) != 1) _exit(128 + number);
  errno = error;
}

void wait_and_tell(const std::function<void()>& tell, bool as_usual) {
  unsigned char number = 0;
  ssize_t n;
  do n = read(ends[0], &number, 1);
  while (n < 0 && errno == EINTR);
  if (n != 1) return;  // no signal came
  if (const pid_t group = child_group) kill(-group, SIGKILL);
  if (isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K");
  try {
    tell();
  } catch (const std::exception& e) {
    fmt::print(stderr, "fp4lab: {}\n", e.what());
  }
  as_usual = as_usual && number == SIGINT;
  if (!as_usual) fmt::print(stderr, "fp4lab: ended by {}\n", strsignal(number));
  std::fflush(nullptr);
  _exit(as_usual ? 0 : 128 + number);
}

}  // namespace

OnInterrupt::OnInterrupt(std::function<void()> tell, bool as_usual) {
  if (pipe2(ends, O_CLOEXEC)) fail("pipe: {}", std::strerror(errno));
  teller = std::thread(wait_and_tell, std::move(tell), as_usual);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);  // nohup stays
  }
}

OnInterrupt::~OnInterrupt() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before[i], nullptr);
  close(ends[1]);
  teller.join();
  close(ends[0]);
}

void ends_with_us(pid_t group) { child_group = group; }

}  // namespace fp4lab::cli
