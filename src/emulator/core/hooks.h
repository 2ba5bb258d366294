// What the core asks the engines' state about, in one place. Each call is made only if CtaState offers it.
#pragma once

#include <string>

#include "emulator/engine/state.h"

namespace fp4lab::emu::hooks {

// A write that is no mbarrier operation must not touch a live mbarrier.
template <class State>
void check_payload(const State& s, uint32_t offset, uint32_t bytes, const char* what) {
  if constexpr (requires { s.check_payload(offset, bytes, what); }) s.check_payload(offset, bytes, what);
}

// No live mbarrier lies in these bytes.
template <class State>
bool payload_free(const State& s, uint32_t offset, uint32_t bytes) {
  if constexpr (requires { s.mbarriers.overlapping(offset, bytes); })
    return s.mbarriers.overlapping(offset, bytes) < 0;
  return true;
}

// The CTA's last warp has exited: faults when something is left that must not be (tensor memory, say).
template <class State>
void at_exit(const State& s) {
  if constexpr (requires { s.at_exit(); }) s.at_exit();
}

// Barriers in words, with their counts; empty when the engines know nothing of this wait.
template <class W, class Wt>
std::string wait_text(const W& warp, const Wt& wait) {
  if constexpr (requires { describe_wait(warp, wait); }) return describe_wait(warp, wait);
  return {};
}

// Who was to end this wait and where they are, in lines.
template <class W, class Wt>
std::string wait_story(const W& warp, const Wt& wait) {
  if constexpr (requires { describe_missing(warp, wait); }) return describe_missing(warp, wait);
  return {};
}

// Carries out the tcgen05.ld's that the warp has under way and makes their registers defined. False: there
// are none.
bool finish_loads(Warp&);

// Of an accumulator of wgmma that is on its way: makes it defined when the products that write it are done,
// else parks the group until they are, and throws Reschedule. False: the register is none.
bool await_products(Warp&, const Operand&);

template <class W, class Wt>
auto wait_blame(const W& warp, const Wt& wait) {
  return blame_of(warp, wait);
}

}  // namespace fp4lab::emu::hooks
