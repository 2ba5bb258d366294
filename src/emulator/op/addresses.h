// An address operand's values in all lanes, fetched once per instruction, and the state space and strength
// given by the modifiers of a memory instruction.
#pragma once

#include <algorithm>

#include "emulator/core/machine.h"
#include "emulator/op/map.h"

namespace fp4lab::emu {

class Addresses {
 public:
  Addresses(Warp& w, const Operand& o) : displacement_(uint64_t(o.displacement)) {
    if (!o.has_base) return;
    if (bits_of(o.type) == 64)
      wide_ = w.source<uint64_t>(o);
    else
      narrow_ = w.source<uint32_t>(o);
  }
  // 32-bit bases wrap at 32 bits.
  uint64_t operator[](unsigned lane) const {
    if (wide_) return wide_[lane] + displacement_;
    if (narrow_) return uint32_t(narrow_[lane] + uint32_t(displacement_));
    return displacement_;
  }
  // The addresses of `lanes`, for Warp::memory of all lanes at once.
  void all(uint32_t lanes, uint64_t* address) const {
    const uint64_t d = displacement_;
    if (wide_)
      for_lanes(lanes, [&](unsigned l) { address[l] = wide_[l] + d; });
    else if (narrow_)
      for_lanes(lanes, [&](unsigned l) { address[l] = uint32_t(narrow_[l] + uint32_t(d)); });
    else
      for_lanes(lanes, [&](unsigned l) { address[l] = d; });
  }

 private:
  const uint64_t* wide_ = nullptr;
  const uint32_t* narrow_ = nullptr;
  uint64_t displacement_;
};

inline Space space_of(const Source& s) {
  for (const std::string_view t : s.tokens) {
    if (t == "global") return Space::global;
    if (t == "shared" || t == "shared::cta") return Space::shared;
    if (t == "shared::cluster") return Space::shared_cluster;
    if (t == "local") return Space::local;
    if (t == "param" || t == "param::entry" || t == "param::func") return Space::param;
    if (t == "const") return Space::constant;
  }
  return Space::generic;
}

// volatile, mmio, relaxed or stronger: takes part in synchronisation between threads.
inline bool is_strong(const Source& s) {
  for (const std::string_view t : s.tokens)
    if (t == "volatile" || t == "mmio" || t == "relaxed" || t == "acquire" || t == "release" ||
        t == "acq_rel")
      return true;
  return false;
}

// Whether a strong access may interact with another cluster's: not if its scope ends at the cluster.
inline bool beyond_cluster(const Source& s) { return !s.has("cta") && !s.has("cluster"); }

inline bool is_global(Space space, uint64_t address) {
  if (space != Space::generic) return space == Space::global;
  return address - kSharedWindow >= kWindowBytes && address - kLocalWindow >= kWindowBytes &&
         address - kParamWindow >= kWindowBytes;
}

// The global memory that the active lanes access, see Warp::saw.
inline Look look_of(const Warp& w, const Instr& i, Space space, const Addresses& at, uint32_t bytes) {
  constexpr uint64_t kMost = 1024;
  uint64_t low = ~uint64_t(0), high = 0;
  for_lanes(w.active, [&](unsigned l) { low = std::min(low, at[l]), high = std::max(high, at[l]); });
  if (high - low > kMost || !is_global(space, low)) return {};
  return {&i, low, uint32_t(high - low) + bytes};
}

// Strong accesses to global memory that other clusters may see happen in the serial phase of a round. False:
// the warp is parked and the body must return.
inline bool may_proceed(Warp& w, Space space, const Addresses& at) {
  if (space != Space::global && space != Space::generic) return true;
  if (w.in_serial_phase()) return true;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    if (!is_global(space, at[unsigned(std::countr_zero(lanes))])) continue;
    Wait wait;
    wait.kind = Wait::Kind::serial;
    w.block(wait);
    return false;
  }
  return true;
}

}  // namespace fp4lab::emu
