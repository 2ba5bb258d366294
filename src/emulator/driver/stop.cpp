#include "emulator/driver/stop.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "emulator/core/place.h"

namespace fp4lab::emu::driver {

namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> running{false}, interrupted{false}, timed_out{false};
struct sigaction before;  // the program's own, or the default
std::optional<Clock::time_point> deadline;
double limit_seconds = 0;
bool shows_progress = false, shown = false;
Clock::time_point launch_began, last_shown;

void on_interrupt(int signal) {
  if (running && !interrupted.exchange(true)) return;  // the launch ends at its next round
  sigaction(signal, &before, nullptr);
  raise(signal);
}

void show(const Schedule::Round& r, Clock::time_point now) {
  using namespace std::chrono_literals;
  if (!shows_progress || now - launch_began < 2s || now - last_shown < 500ms) return;
  last_shown = now, shown = true;
  fmt::print(stderr, "\rfp4lab emulator: kernel {:.40}, {} of {} clusters, {:.0f} s\033[K",
             kernel_name(r.kernel), r.done, r.clusters,
             std::chrono::duration<double>(now - launch_began).count());
  std::fflush(stderr);
}

std::string each_round(const Schedule::Round& r) {
  if (interrupted) return "interrupted";
  if (!deadline && !shows_progress) return {};
  const auto now = Clock::now();
  show(r, now);
  if (!deadline || now < *deadline) return {};
  timed_out = true;
  return fmt::format("the limit of {} s is reached", limit_seconds);
}

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

}  // namespace

void stop_by_environment(State& s) {
  if (const char* seconds = setting("FP4LAB_TIMEOUT")) {
    limit_seconds = std::strtod(seconds, nullptr);
    deadline = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(limit_seconds * 1000));
  }
  if (const char* steps = setting("FP4LAB_STEP_LIMIT"))
    s.schedule.step_limit = std::strtoull(steps, nullptr, 10);
  shows_progress = setting("FP4LAB_PROGRESS") && isatty(STDERR_FILENO);
  const bool interruptible = setting("FP4LAB_INTERRUPT");
  if (interruptible) {
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    sigaction(SIGINT, &action, &before);
  }
  if (deadline || interruptible || shows_progress) s.schedule.each_round = each_round;
}

Watched::Watched(State&) {
  launch_began = Clock::now();
  running = true;
}
Watched::~Watched() {
  running = false;
  if (shown) fmt::print(stderr, "\r\033[K");
  shown = false;
}

void end_if_stopped(const std::string& report) {
  if (!interrupted && !timed_out) return;
  explain(CUDA_SUCCESS, report);
  std::fflush(nullptr);
  std::_Exit(interrupted ? 130 : 124);
}

}  // namespace fp4lab::emu::driver
