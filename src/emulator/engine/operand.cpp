#include "emulator/engine/operand.h"

namespace fp4lab::emu {

SharedRef shared_ref(Warp& w, Space space, uint64_t address, unsigned lane, const char* what) {
  Cluster& cluster = w.cta.cluster;
  if (space == Space::generic) {
    if (address < kSharedWindow || address - kSharedWindow >= kWindowBytes) {
      const bool shared = address >> 32 == 0;
      const Fault outside(
          FaultKind::illegal_address, lane,
          fmt::format("{}: the generic address {:#x} is not in shared memory{}", what, address,
                      shared ? "; a .shared address wants the state space named, or cvta.shared" : ""));
      if (!shared) throw outside;
      cluster.note_or_throw(outside, w);
    }
    space = Space::shared_cluster;
  }
  uint32_t a = static_cast<uint32_t>(address);
  uint32_t offset = a & ((1u << kRankShift) - 1);
  if (space == Space::shared_cluster) return {&cluster.owner(a, what), offset};
  // Every mbarrier instruction without .shared::cluster traps on such an address on an H100 (driver 580).
  if (a >> kRankShift != w.cta.rank)
    fault(
        std::string_view(what).starts_with("mbarrier.") ? FaultKind::illegal_instruction
                                                        : FaultKind::illegal_address,
        lane,
        "{}: the .shared::cta address {:#x} belongs to CTA rank {}, the executing CTA has rank {}; what mapa "
        "gives is for .shared::cluster",
        what, a, a >> kRankShift, w.cta.rank);
  return {&w.cta, offset};
}

SharedRef beside(Warp& w, const SharedRef& destination, const SharedRef& mbarrier, unsigned lane,
                 const char* what) {
  if (destination.cta != mbarrier.cta)
    w.cta.cluster.note_or_throw(
        Fault(FaultKind::multicast, lane,
              fmt::format("{}: the destination is in CTA rank {}, the mbarrier in rank {}; "
                          "they must be in the same CTA",
                          what, destination.cta->rank, mbarrier.cta->rank)),
        w);
  return {destination.cta, mbarrier.offset};
}

void require_peers(Warp& w, const char* what, unsigned lane) {
  if (w.cta.cluster.ctas.size() == 1 && w.cta.cluster.grid.device.major == 9)
    fault(FaultKind::illegal_instruction, lane,
          "{} to shared::cluster in a launch whose clusters have one CTA: an H200 traps on it", what);
}

GlobalMemory::Range global_range(const Grid& grid, uint64_t address, uint64_t bytes, const char* what) {
  GlobalMemory::Range r = grid.memory.find(address, bytes);
  if (r.begin == r.end)
    fault(FaultKind::illegal_address, 0, "{} touches global [{:#x}, {:#x}): {}", what, address,
          address + bytes, grid.memory.describe(address));
  return r;
}

GlobalMemory::Range global_source(Cluster& cluster, uint64_t address, uint64_t bytes, const AsyncOp& op) {
  try {
    return global_range(cluster.grid, address, bytes, op.name());
  } catch (const Fault& outside) {
    if (!cluster.grid.schedule.tolerant || !cluster.grid.memory.map_rest_of_pages(address, bytes)) throw;
    cluster.tolerated(outside, op);
  }
  return {address, address + bytes};
}

}  // namespace fp4lab::emu
