// What a parked group waits for, in words: the deadlock report is made of these lines.
#include "emulator/engine/operand.h"

namespace fp4lab::emu {

namespace {

// "(bars+0x18)" when a shared variable of the kernel covers the offset.
std::string symbol_of(const Cta& cta, uint32_t offset) {
  for (const Symbol& v : cta.cluster.grid.function.variables)
    if (v.space == Space::shared && offset >= v.address &&
        offset - v.address < std::max<uint64_t>(v.size, 1)) {
      const uint64_t in = offset - v.address;
      return in ? fmt::format(" ({}+{:#x})", v.name, in) : fmt::format(" ({})", v.name);
    }
  return {};
}

std::string operations_of(const Warp& w) {
  std::string text;
  const_cast<Cluster&>(w.cta.cluster).pending([&](const AsyncOp& op) {
    if (op.cta == &w.cta && op.warp == w.id) text += fmt::format("{}{}", text.empty() ? "" : ", ", op.name());
    return false;
  });
  return text.empty() ? "none pending" : "pending: " + text;
}

}  // namespace

std::string describe_wait(const Warp& w, const Wait& wait) {
  const Cta& cta = w.cta;
  switch (wait.kind) {
    case Wait::Kind::mbarrier: {
      const Mbarrier* b = cta.state->mbarriers.find(wait.address);
      const std::string name = fmt::format("mbarrier at shared {:#x}{}", cta.address_of(wait.address),
                                           symbol_of(cta, wait.address));
      if (!b) return name + ", which was invalidated";
      return fmt::format("{}, for the phase of parity {} to complete; it is in {}", name, wait.value,
                         b->describe());
    }
    case Wait::Kind::named_barrier: {
      const NamedBarrier& b = cta.state->named[wait.address];
      return fmt::format("barrier {}{}: {}", wait.address,
                         wait.value ? fmt::format(" of {} threads", wait.value) : std::string(),
                         b.describe(cta));
    }
    case Wait::Kind::cluster_barrier: {
      std::string missing;
      for (const auto& other : cta.cluster.ctas)
        for (const auto& warp : other->warps) {
          const auto& parts = other->state->cluster_barrier;
          const uint32_t arrived = parts.empty() ? 0 : parts[warp->id].arrived,
                         live = warp->lanes & ~warp->exited;
          if ((arrived & live) != live)
            missing += fmt::format("{}{}/{}", missing.empty() ? "" : ", ", other->rank, warp->id);
        }
      return "barrier.cluster; not arrived (CTA rank/warp): " + missing;
    }
    case Wait::Kind::tmem_alloc: {
      if (wait.address)
        return fmt::format(
            "tcgen05.alloc of {} columns by the pair's other CTA (.cta_group::2), or for free columns",
            wait.value);
      unsigned taken = 0;
      if (cta.sm.tmem)
        for (const Cta* owner : cta.sm.tmem->owner) taken += owner != nullptr;
      return fmt::format("{} free columns of tensor memory, aligned to their number; {} of {} are taken",
                         wait.value, taken, kTmemColumns);
    }
    case Wait::Kind::async_ops:
      return "its asynchronous operations (" + operations_of(w) + ")";
    default:
      return {};
  }
}

}  // namespace fp4lab::emu
