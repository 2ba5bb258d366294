#include "emulator/core/named_barrier.h"

#include <bit>
#include <utility>

#include "emulator/core/machine.h"

namespace fp4lab::emu {

namespace {

uint32_t live_lanes(const Cta& cta, unsigned warp) {
  const Warp& w = *cta.warps[warp];
  return w.lanes & ~w.exited;
}

}  // namespace

uint32_t NamedBarrier::required(const Cta& cta) const {
  if (expected) return expected;
  uint32_t warps = 0;
  for (unsigned w = 0; w < cta.warps.size(); ++w) warps += live_lanes(cta, w) != 0;
  return warps * kLanes;
}

void NamedBarrier::arrive(const Cta& cta, unsigned id, unsigned warp, uint32_t lanes, uint32_t count,
                          bool waits, uint32_t predicate) {
  if (parts.empty()) parts.resize(cta.warps.size());
  if (!open) {
    open = true;
    expected = count;
  } else if (count != expected) {
    auto name = [](uint32_t n) { return n ? fmt::format("{} threads", n) : std::string("all threads"); };
    fault(FaultKind::named_barrier, kLanes,
          "barrier {} is used with {} here, but {} arrived threads of the same phase said {}", id,
          name(count), arrived, name(expected));
  }
  Part& p = parts[warp];
  if (p.partial & lanes)
    fault(FaultKind::named_barrier, kLanes,
          "lanes {:#010x} of warp {} arrive again at barrier {} while other lanes of the warp are missing "
          "once",
          p.partial & lanes, warp, id);
  p.partial |= lanes;
  if (waits) {
    p.waiting |= lanes;
    p.predicate = (p.predicate & ~lanes) | (predicate & lanes);
  }
  uint32_t live = live_lanes(cta, warp);
  if ((p.partial & live) == live) {
    p.partial = 0;
    arrived += kLanes;
    ++p.times;
    ++(waits ? p.syncs : p.arrives);
  }
  if (expected && arrived > expected)
    fault(FaultKind::named_barrier, kLanes, "{} threads arrived at barrier {}, which expects {}", arrived, id,
          expected);
}

bool NamedBarrier::settle(const Cta& cta) {
  if (!open) return false;
  for (unsigned w = 0; w < parts.size(); ++w) {  // lanes that were missing have exited since
    uint32_t live = live_lanes(cta, w);
    if (parts[w].partial && (parts[w].partial & live) == live) {
      parts[w].partial = 0;
      arrived += kLanes;
    }
  }
  if (arrived < required(cta)) return false;
  uint32_t population = 0, all = 0;
  for (const Part& p : parts) {
    population += static_cast<uint32_t>(std::popcount(p.predicate & p.waiting));
    all += static_cast<uint32_t>(std::popcount(p.waiting));
  }
  const uint64_t now = cta.cluster.next_event();
  for (unsigned w = 0; w < parts.size(); ++w) {
    Part& p = parts[w];
    if (!p.waiting) continue;
    p.released |= p.waiting;
    cta.warps[w]->synchronised = now;
    p.result = population, p.all = all;
    p.waiting = p.predicate = 0;
  }
  count_round();
  arrived = expected = 0;
  open = false;
  ++generation;
  return true;
}

void NamedBarrier::count_round() {
  uint32_t twice = 0, absent = 0;
  for (unsigned w = 0; w < parts.size(); ++w) {
    Part& p = parts[w];
    twice |= uint32_t(p.times > 1) << w, absent |= uint32_t(p.times == 0) << w;
    p.last = std::exchange(p.times, 0);
  }
  if (!twice || !absent) return;
  if (!ran_ahead.rounds++) ran_ahead.first = generation;
  ran_ahead.last = generation;
  ran_ahead.twice |= twice, ran_ahead.absent |= absent;
}

std::string NamedBarrier::completed_by() const {
  std::string text;
  for (unsigned w = 0; w < parts.size(); ++w)
    if (const uint32_t n = parts[w].last)
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", w, n > 1 ? fmt::format(" ({} times)", n) : "");
  return text;
}

std::string NamedBarrier::describe(const Cta& cta) const {
  std::string missing, exited;
  for (unsigned w = 0; w < cta.warps.size(); ++w) {
    bool here = w < parts.size() && parts[w].waiting;
    if (!live_lanes(cta, w))
      exited += fmt::format("{}{}", exited.empty() ? "" : ", ", w);
    else if (!here)
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", w);
  }
  std::string text = fmt::format("{} of {} threads have arrived", arrived, required(cta));
  if (expected > cta.warps.size() * kLanes)  // legal: a warp may arrive twice
    text += fmt::format(", more than the CTA's {} warps", cta.warps.size());
  if (!missing.empty()) text += fmt::format("; warps not waiting here: {}", missing);
  if (!exited.empty()) text += fmt::format("; exited: {}", exited);
  return text;
}

}  // namespace fp4lab::emu
