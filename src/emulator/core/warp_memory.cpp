// One lane's memory access: resolves the address and checks whether the access is allowed.
#include <bit>

#include "emulator/core/cta_state.h"
#include "emulator/core/machine.h"
#include "emulator/core/warp.h"

namespace fp4lab::emu {

namespace {

const char* verb(AccessKind k) {
  return k == AccessKind::read ? "read" : k == AccessKind::write ? "write" : "atomic access";
}

void check_aligned(AccessKind kind, const char* space, uint64_t address, uint32_t bytes, unsigned lane) {
  const bool power_of_two = (bytes & (bytes - 1)) == 0;
  const bool aligned = power_of_two ? (address & (bytes - 1)) == 0 : address % bytes == 0;
  if (!aligned) [[unlikely]]
    fault(FaultKind::misaligned_address, lane, "misaligned {} of {} bytes at {} address {:#x} (lane {})",
          verb(kind), bytes, space, address, lane);
}

bool in_window(uint64_t address, uint64_t window) { return address - window < kWindowBytes; }

}  // namespace

std::byte* Warp::memory(const Instr& i, Space space, AccessKind kind, uint64_t address, uint32_t bytes,
                        unsigned lane, bool strong) {
  switch (space) {
    case Space::generic:
      if (in_window(address, kSharedWindow))
        return shared_memory(i, Space::shared_cluster, kind, address - kSharedWindow, bytes, lane, strong);
      if (in_window(address, kLocalWindow)) return local_memory(kind, address - kLocalWindow, bytes, lane);
      if (in_window(address, kParamWindow)) return param_memory(kind, address - kParamWindow, bytes, lane);
      return device_memory(kind, "global", address, address, bytes, lane, strong);
    case Space::constant:
      return device_memory(kind, "constant", address, cta.cluster.grid.memory.constants() + address, bytes,
                           lane, false);
    case Space::global:
      // The parameters' window lies in that of .global (PTX ISA 6.4.1.1).
      if (in_window(address, kParamWindow)) return param_memory(kind, address - kParamWindow, bytes, lane);
      return device_memory(kind, "global", address, address, bytes, lane, strong);
    case Space::shared:
    case Space::shared_cluster:
      return shared_memory(i, space, kind, address, bytes, lane, strong);
    case Space::local:
      return local_memory(kind, address, bytes, lane);
    case Space::param:
      return param_memory(kind, address, bytes, lane);
  }
  return nullptr;
}

// An access outside of every allocation is a fault. Hardware only protects pages: a read in the rest of an
// allocation's page succeeds there (CuTe DSL's masked grouped GEMM reads one group ahead), and so does an
// atomic of the word in which an allocation ends (libcu++ builds byte atomics from one). A tolerant schedule
// makes these notes.
void Warp::outside_device(AccessKind kind, const char* space, uint64_t address, uint64_t place,
                          uint32_t bytes, unsigned lane) {
  const Grid& grid = cta.cluster.grid;
  const bool is_generic = place != address && grid.memory.owns(address);
  const Fault outside(
      FaultKind::illegal_address, lane,
      fmt::format("illegal {} of {} bytes at {} address {:#x} (lane {}): {}{}", verb(kind), bytes, space,
                  address, lane, grid.memory.describe(place),
                  is_generic ? "; it is a valid generic address: convert it with cvta.to.const" : ""));
  const bool begins_inside = kind == AccessKind::atomic && grid.memory.find(place, 1).end != 0;
  if (!grid.schedule.tolerant || (kind != AccessKind::read && !begins_inside) ||
      !grid.memory.map_rest_of_pages(place, bytes))
    throw outside;
  cta.cluster.tolerated(outside, *this);
}

std::byte* Warp::device_memory(AccessKind kind, const char* space, uint64_t address, uint64_t place,
                               uint32_t bytes, unsigned lane, bool strong) {
  check_aligned(kind, space, address, bytes, lane);
  Cluster& cluster = cta.cluster;
  bool known = false;
  for (const GlobalMemory::Range& r : recent_ranges_) known |= r.contains(place, bytes);
  if (!known) {
    GlobalMemory::Range r = cluster.grid.memory.find(place, bytes);
    if (r.end != 0)
      recent_ranges_[next_range_++ % std::size(recent_ranges_)] = r;
    else
      outside_device(kind, space, address, place, bytes, lane);
  }
  std::byte* host = cluster.grid.memory.host(place);
  if (strong && kind != AccessKind::read && cluster.grid.in_serial_phase())
    cluster.grid.watch_change(host, bytes);
  if (cluster.watcher) [[unlikely]]
    cluster.watcher->access(
        {kind, Proxy::generic, Space::global, place, bytes, nullptr, this, lane, nullptr, strong});
  return host;
}

std::byte* Warp::local_memory(AccessKind kind, uint64_t address, uint32_t bytes, unsigned lane) {
  check_aligned(kind, "local", address, bytes, lane);
  const Function& f = cta.cluster.grid.function;
  const uint64_t offset = address - f.local_base, size = f.local_bytes;
  if (offset > size || bytes > size - offset)
    fault(
        FaultKind::illegal_address, lane,
        "illegal {} of {} bytes at local address {:#x} (lane {}): the thread's local memory is {} bytes from "
        "{:#x} on",
        verb(kind), bytes, address, lane, size, f.local_base);
  return local_ + lane * size + offset;
}

std::byte* Warp::param_memory(AccessKind kind, uint64_t offset, uint32_t bytes, unsigned lane) {
  if (offset >= kCallParam) return local_memory(kind, offset - kCallParam, bytes, lane);
  check_aligned(kind, "param", offset, bytes, lane);
  const std::vector<std::byte>& block = cta.cluster.grid.config.params;
  if (offset > block.size() || bytes > block.size() - offset)
    fault(FaultKind::illegal_address, lane,
          "illegal {} of {} bytes at parameter offset {:#x} (lane {}): the parameter block has {} bytes",
          verb(kind), bytes, offset, lane, block.size());
  if (kind != AccessKind::read)
    fault(FaultKind::illegal_address, lane,
          "{} of the kernel's parameters at offset {:#x} (lane {}): they are read-only", verb(kind), offset,
          lane);
  return const_cast<std::byte*>(block.data()) + offset;
}

Warp::SharedPlace Warp::shared_place(const Instr&, Space space, uint64_t address, uint32_t bytes,
                                     unsigned lane) {
  if (space == Space::generic) {
    if (!in_window(address, kSharedWindow))
      fault(FaultKind::illegal_address, lane, "generic address {:#x} (lane {}) is not in shared memory",
            address, lane);
    address -= kSharedWindow;
    space = Space::shared_cluster;
  }
  address = static_cast<uint32_t>(address);  // ptxas truncates a wider register too
  Cta* owner = &cta;
  const uint32_t offset = static_cast<uint32_t>(address) & ((1u << kRankShift) - 1);
  const uint64_t rank = address >> kRankShift;
  if (rank != cta.rank) {
    if (space == Space::shared)
      fault(FaultKind::illegal_address, lane,
            "shared::cta address {:#x} (lane {}) belongs to the CTA of rank {}, not to this one of rank {}; "
            "shared::cluster reaches it",
            address, lane, rank, cta.rank);
    owner = &cta.cluster.owner(static_cast<uint32_t>(address), "access");
  }
  const uint32_t size = static_cast<uint32_t>(owner->shared.size());
  if (!owner->owns(offset, bytes)) [[unlikely]] {
    if (offset < kReservedShared)
      fault(FaultKind::illegal_address, lane,
            "shared address {:#x} (lane {}, {} bytes) is in the first {:#x} bytes, which are reserved for "
            "the system",
            address, lane, bytes, kReservedShared);
    fault(FaultKind::illegal_address, lane,
          "shared address {:#x} (lane {}, {} bytes) is outside of shared memory: the CTA's ends at offset "
          "{:#x} ({} bytes static and dynamic)",
          address, lane, bytes, size, size - kReservedShared);
  }
  return {owner, offset, owner->shared.data() + offset};
}

static uint32_t first_unwritten(const Cta& cta, uint32_t offset) {
  while (cta.is_defined(offset, 1)) ++offset;
  return offset;
}

std::byte* Warp::shared_memory(const Instr& i, Space space, AccessKind kind, uint64_t address, uint32_t bytes,
                               unsigned lane, bool strong) {
  check_aligned(kind, "shared", address, bytes, lane);
  const SharedPlace p = shared_place(i, space, address, bytes, lane);
  if (kind != AccessKind::write && !p.cta->is_defined(p.offset, bytes)) [[unlikely]] {
    cta.cluster.note_or_throw(
        Fault(FaultKind::uninitialized, lane,
              fmt::format("{} of {} bytes of shared memory at {:#x} (lane {}) that was never written",
                          verb(kind), bytes, address, lane))
            .at(*p.cta, first_unwritten(*p.cta, p.offset)),
        *this);
  }
  if (kind != AccessKind::read) {
    p.cta->state->check_payload(p.offset, bytes, "a generic write");
    p.cta->define(p.offset, bytes);
  }
  if (cta.cluster.watcher) [[unlikely]]
    cta.cluster.watcher->access(
        {kind, Proxy::generic, Space::shared, p.offset, bytes, p.cta, this, lane, nullptr, strong});
  return p.host;
}

}  // namespace fp4lab::emu
