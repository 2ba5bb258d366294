// The accesses of all active lanes at once. The common cases (all in this CTA's shared memory, or all in one
// allocation) are checked as one span; whatever is not plainly right goes lane by lane through memory(),
// which words the fault.
#include <algorithm>
#include <bit>

#include "emulator/core/hooks.h"
#include "emulator/core/machine.h"
#include "emulator/core/warp.h"

namespace fp4lab::emu {

// Smallest and largest address, and all of them or-ed.
struct Warp::Span {
  uint64_t low = ~uint64_t(0), high = 0, bits = 0;
};

namespace {

template <class Span>
Span span_of(uint32_t lanes, const uint64_t* address) {
  Span s;
  if (lanes == ~0u) {  // neighbours, mostly
    uint64_t step = address[1] - address[0], odd = 0;
    for (unsigned l = 0; l < kLanes; ++l) odd |= address[l] ^ (address[0] + l * step);
    if (odd == 0 && step < (uint64_t(1) << 32)) {
      s.low = address[0];
      s.high = address[kLanes - 1];
      for (unsigned l = 0; l < kLanes; ++l) s.bits |= address[l];
      return s;
    }
  }
  for_lanes(lanes, [&](unsigned l) {
    s.low = std::min(s.low, address[l]);
    s.high = std::max(s.high, address[l]);
    s.bits |= address[l];
  });
  return s;
}

bool consecutive(uint32_t lanes, const uint64_t* address, uint32_t bytes) {
  if (lanes != ~0u) return false;
  uint64_t odd = 0;
  for (unsigned l = 0; l < kLanes; ++l) odd |= address[l] ^ (address[0] + l * bytes);
  return odd == 0;
}

constexpr uint64_t kDenseSpan = 8192;  // bytes of shared memory that are worth checking as one span

}  // namespace

bool Warp::shared_lanes(AccessKind kind, const uint64_t* address, Span s, uint64_t base, uint32_t bytes,
                        std::byte** host) {
  const uint64_t own = base + cta.address_of(0);
  const uint64_t size = cta.shared.size();
  if (s.low < own + kReservedShared || s.high - own > size || bytes > size - (s.high - own)) return false;
  const uint32_t low = static_cast<uint32_t>(s.low - own);
  const uint64_t length = s.high - s.low + bytes;
  const bool dense = length <= kDenseSpan;
  if (kind != AccessKind::write && !(dense && cta.is_defined(low, static_cast<uint32_t>(length))))
    for (uint32_t left = active; left; left &= left - 1)
      if (!cta.is_defined(static_cast<uint32_t>(address[std::countr_zero(left)] - own), bytes)) return false;
  if (kind != AccessKind::read) {
    if (!hooks::payload_free(*cta.state, low, static_cast<uint32_t>(length))) return false;
    if (length == uint64_t(bytes) * kLanes && consecutive(active, address, bytes))
      cta.define(low, static_cast<uint32_t>(length));
    else
      for (uint32_t left = active; left; left &= left - 1)
        cta.define(static_cast<uint32_t>(address[std::countr_zero(left)] - own), bytes);
  }
  std::byte* const window = cta.shared.data();
  for_lanes(active, [&](unsigned l) { host[l] = window + (address[l] - own); });
  return true;
}

void Warp::memory(const Instr& i, Space space, AccessKind kind, const uint64_t* address, uint32_t bytes,
                  std::byte** host, bool strong) {
  if (!cta.cluster.watcher && active && std::has_single_bit(bytes)) [[likely]] {
    const Span s = span_of<Span>(active, address);
    if ((s.bits & (bytes - 1)) == 0) {
      if (space == Space::shared || space == Space::shared_cluster) {
        if (shared_lanes(kind, address, s, 0, bytes, host)) return;
      } else if (space == Space::generic && s.low - kSharedWindow < kWindowBytes) {
        if (shared_lanes(kind, address, s, kSharedWindow, bytes, host)) return;
      } else if ((space == Space::global || space == Space::constant || space == Space::generic) &&
                 !(strong && kind != AccessKind::read)) {
        for (const GlobalMemory::Range& r : recent_ranges_)
          if (s.low >= r.begin && s.high < r.end && bytes <= r.end - s.high) {
            for_lanes(active, [&](unsigned l) { host[l] = reinterpret_cast<std::byte*>(address[l]); });
            return;
          }
      }
    }
  }
  for (uint32_t left = active; left; left &= left - 1) {
    const unsigned lane = static_cast<unsigned>(std::countr_zero(left));
    host[lane] = memory(i, space, kind, address[lane], bytes, lane, strong);
  }
}

}  // namespace fp4lab::emu
