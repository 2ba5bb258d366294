#include <algorithm>
#include <cstring>

#include "emulator/core/cta_state.h"
#include "emulator/core/machine.h"
#include "emulator/core/poison.h"

namespace fp4lab::emu {

Sm::Sm() = default;
Sm::~Sm() = default;

Cta::Cta(Cluster& cluster, uint32_t rank, Dim3 index, Sm& sm)
    : cluster(cluster),
      rank(rank),
      index(index),
      sm(sm),
      shared(cluster.grid.shared_bytes(), std::byte{kPoison}),
      defined_((shared.size() + 63) / 64 + 1) {
  // cooperative_groups uses its barriers in this memory without initialising them.
  if (cluster.grid.lends_shared()) {
    std::fill_n(shared.begin(), kLentShared, std::byte{0});
    define(0, kLentShared);
  }
  const uint64_t threads = cluster.grid.config.block.count();
  state = std::make_unique<CtaState>(*this);
  for (unsigned id = 0; id * kLanes < threads; ++id) {
    const uint64_t here = std::min<uint64_t>(kLanes, threads - id * kLanes);
    warps.push_back(std::make_unique<Warp>(*this, id, here == kLanes ? ~0u : (1u << here) - 1));
  }
  live_warps = static_cast<unsigned>(warps.size());
}

Cta::~Cta() = default;

std::string Cta::name() const {
  std::string text = fmt::format("CTA ({},{},{})", index.x, index.y, index.z);
  if (cluster.ctas.size() > 1) text += fmt::format(", rank {} of cluster {}", rank, cluster.id);
  return text;
}

// Calls f with each 64-bit word that [offset, offset + bytes) touches and the mask of its bits; f returns
// whether to continue.
template <class F>
static inline bool each_word(uint32_t offset, uint32_t bytes, F&& f) {
  uint32_t word = offset / 64, bit = offset % 64;
  if (bit + bytes <= 64) [[likely]]
    return f(word, (bytes == 64 ? ~uint64_t(0) : (uint64_t(1) << bytes) - 1) << bit);
  while (bytes) {
    const uint32_t n = std::min(bytes, 64 - bit);
    if (!f(word, (n == 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1) << bit)) return false;
    bytes -= n, bit = 0, ++word;
  }
  return true;
}

bool Cta::is_defined(uint32_t offset, uint32_t bytes) const {
  return each_word(offset, bytes, [&](uint32_t w, uint64_t m) { return (defined_[w] & m) == m; });
}
void Cta::define(uint32_t offset, uint32_t bytes) {
  each_word(offset, bytes, [&](uint32_t w, uint64_t m) { return defined_[w] |= m, true; });
}
void Cta::undefine(uint32_t offset, uint32_t bytes) {
  each_word(offset, bytes, [&](uint32_t w, uint64_t m) { return defined_[w] &= ~m, true; });
}

bool Cta::owns(uint32_t offset, uint32_t bytes) const {
  if (offset < kReservedShared)
    return cluster.grid.lends_shared() && bytes <= kLentShared && offset <= kLentShared - bytes;
  return offset <= shared.size() && bytes <= shared.size() - offset;
}

std::byte* Cta::window(uint32_t offset, uint32_t bytes, const char* what) {
  if (!owns(offset, bytes))
    fault(FaultKind::illegal_address, kLanes,
          "{}: {} bytes at shared offset {:#x} are outside of the shared memory of {}, [{:#x}, {:#x})", what,
          bytes, offset, name(), kReservedShared, shared.size());
  return shared.data() + offset;
}

}  // namespace fp4lab::emu
