// The accesses of all active lanes at once. The common cases (all in this CTA's shared memory, or all in one
// allocation) are checked as one span. All other accesses go lane by lane through memory(), which also words
// the faults.
#include <algorithm>
#include <bit>

#include "emulator/core/cta_state.h"
#include "emulator/core/machine.h"
#include "emulator/core/warp.h"

namespace fp4lab::emu {

// The smallest and the largest address, and the bitwise or of all. `regular`: all lanes are active, with the
// same distance between neighbours.
struct Warp::Span {
  uint64_t low = ~uint64_t(0), high = 0, bits = 0, step = 0;
  bool regular = false;
};

namespace {

template <class Span>
Span span_of(uint32_t lanes, const uint64_t* address) {
  Span s;
  if (lanes == ~0u) {  // mostly contiguous
    s.step = address[1] - address[0];
    uint64_t odd = 0;
    for (unsigned l = 1; l < kLanes; ++l) odd |= (address[l] - address[l - 1]) ^ s.step;
    if (odd == 0 && s.step < (uint64_t(1) << 32)) {
      s.regular = true;
      s.low = address[0];
      s.high = address[kLanes - 1];
      s.bits = address[0] | s.step;
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

constexpr uint64_t kDenseSpan = 8192;  // bytes of shared memory: longer spans are checked lane by lane

}  // namespace

// Whether all lanes' data lie in this CTA's shared memory (its window begins at `base` plus the CTA's own
// address) and may be read. Writing defines them.
bool Warp::shared_lanes(AccessKind kind, const uint64_t* address, const Span& s, uint64_t base,
                        uint32_t bytes) {
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
    if (cta.state->mbarriers.overlapping(low, static_cast<uint32_t>(length)) >= 0) return false;
    if (s.regular && s.step <= bytes)
      cta.define(low, static_cast<uint32_t>(length));
    else
      for (uint32_t left = active; left; left &= left - 1)
        cta.define(static_cast<uint32_t>(address[std::countr_zero(left)] - own), bytes);
  }
  return true;
}

// Whether all lanes' data lie in one live allocation.
bool Warp::global_lanes(const Span& s, uint32_t bytes) {
  const uint64_t length = s.high - s.low + bytes;
  for (const GlobalMemory::Range& r : recent_ranges_)
    if (r.contains(s.low, length)) return true;
  const GlobalMemory::Range r = cta.cluster.grid.memory.find(s.low, length);
  if (r.end == 0) return false;
  recent_ranges_[next_range_++ % std::size(recent_ranges_)] = r;
  return true;
}

// Whether the accesses can be checked together and are allowed; if so, fills in `places`.
bool Warp::lanes_together(Space space, AccessKind kind, const uint64_t* address, bool strong,
                          Places& places) {
  const uint32_t bytes = places.bytes;
  const Span s = span_of<Span>(active, address);
  if (s.bits & (bytes - 1)) return false;
  // `first` is the place of the lowest address; consecutive lanes' local memories are `apart` bytes apart.
  auto found = [&](std::byte* first, uint64_t apart = 0) {
    places.first = first;
    if (s.regular && s.step + apart == bytes)
      places.shape = Places::Shape::row;
    else if (s.regular && s.step + apart == 0)
      places.shape = Places::Shape::same;
    else
      for_lanes(active, [&](unsigned l) { places.host[l] = first + (address[l] - s.low) + l * apart; });
    return true;
  };
  auto shared = [&](uint64_t window) {
    return shared_lanes(kind, address, s, window, bytes) &&
           found(cta.shared.data() + (s.low - window - cta.address_of(0)));
  };
  auto local = [&](uint64_t window) {
    const Function& f = cta.cluster.grid.function;
    const uint64_t base = window + f.local_base, size = f.local_bytes;
    return s.low >= base && s.high - base <= size && bytes <= size - (s.high - base) &&
           found(local_ + (s.low - base), size);
  };
  switch (space) {
    case Space::shared:
    case Space::shared_cluster:
      return shared(0);
    case Space::local:
      return local(0);
    case Space::param:
      if (s.low == s.high && s.low < kCallParam)
        return found(param_memory(kind, s.low, bytes, static_cast<unsigned>(std::countr_zero(active))));
      return local(kCallParam);
    case Space::constant: {
      const GlobalMemory& memory = cta.cluster.grid.memory;
      Span device = s;
      device.low += memory.constants(), device.high += memory.constants();
      return global_lanes(device, bytes) && found(memory.host(device.low));
    }
    case Space::generic:
      if (s.low - kSharedWindow < kWindowBytes) return shared(kSharedWindow);
      if (s.high >= kSharedWindow && s.low < kParamWindow + kWindowBytes) return false;
      [[fallthrough]];
    case Space::global:
      return !(strong && kind != AccessKind::read) && global_lanes(s, bytes) &&
             found(cta.cluster.grid.memory.host(s.low));
  }
  return false;
}

Warp::Places Warp::memory(const Instr& i, Space space, AccessKind kind, const uint64_t* address,
                          uint32_t bytes, bool strong) {
  Places places;
  places.shape = Places::Shape::scattered;
  places.bytes = bytes;
  const bool together = !cta.cluster.watcher && active && (bytes & (bytes - 1)) == 0;
  if (together && lanes_together(space, kind, address, strong, places)) [[likely]]
    return places;
  for (uint32_t left = active; left; left &= left - 1) {
    const unsigned lane = static_cast<unsigned>(std::countr_zero(left));
    places.host[lane] = memory(i, space, kind, address[lane], bytes, lane, strong);
  }
  return places;
}

}  // namespace fp4lab::emu
