// What the race checker keeps of one cluster.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "emulator/core/machine.h"
#include "emulator/watch/vector_clock.h"

namespace fp4lab::emu {

// Who made an access, and when.
struct Origin {
  bool is_op = false;
  uint32_t agent = 0, step = 0;  // of a warp
  uint64_t op = 0;               // sequence number of an operation
  const Instr* instr = nullptr;
  uint32_t function = 0;
};

struct ShadowEntry {
  Origin from;
  uint16_t mask = 0;  // bytes of the granule
  bool write = false;
  bool async = false;  // by the async proxy
};

// Accesses that a later one may conflict with, by granule. A granule is 16 bytes of shared memory, or one
// column of tensor memory (whose mask counts groups of 8 lanes).
using Shadow = std::unordered_map<uint32_t, std::vector<ShadowEntry>>;

// How an operation's effects get known.
enum class Publication : uint8_t { barrier, commit, bulk_group, tmem_load, tmem_store, wgmma, cp_async };

struct OpRecord {
  Publication by = Publication::barrier;
  Queue queue;
  uint32_t warp = 0;  // agent that issued it
  bool touched = false;
  std::vector<std::pair<uint32_t, uint32_t>>
      published;  // agent and step: whoever knows one knows the effects
  std::shared_ptr<const Knowledge> issue;
};

struct BarrierClock {
  uint32_t agent = 0;
  Knowledge pending, done;
  Origin init;          // who initialised it
  bool fenced = false;  // ... and executed fence.mbarrier_init or fence.proxy.async since
};

struct NamedClock {
  uint32_t generation[2] = {~0u, ~0u};
  Knowledge arrived[2];
};

struct WarpClock {
  uint32_t step = 1;
  Knowledge knows;
  std::shared_ptr<const Knowledge> snapshot;  // of `knows`, shared by the operations issued since it changed
  Publication waiting =
      Publication::barrier;  // kind of wait instruction that was just executed; barrier = none
  const Instr* wait = nullptr;
  std::map<uint32_t, uint32_t> generation;  // by named barrier: in which it arrived
  uint32_t cluster_phase = 0, cluster_arrived = 0, cluster_done = 0;
};

}  // namespace fp4lab::emu
