// The state of a CTA for the engines: its mbarriers, named barriers, groups of asynchronous operations, and
// tensor-memory allocations.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/core/async.h"
#include "emulator/core/machine.h"
#include "emulator/core/mbarrier.h"
#include "emulator/core/named_barrier.h"
#include "emulator/core/tmem.h"

namespace fp4lab::emu {

// Groups of asynchronous copies of one thread (cp.async.bulk's bulk groups; cp.async; wgmma). Operations
// belong to the open group until the next commit. A group is done when all its operations are.
struct AsyncGroups {
  struct Group {
    uint32_t reading = 0;  // operations that have not read all their sources yet
    uint32_t writing = 0;  // operations that have not finished
  };
  std::vector<Group> groups = {Group{}};  // the last one is open
  uint64_t first = 0;                     // number of groups[0]; older ones are done and forgotten

  uint64_t open() const { return first + groups.size() - 1; }
  Group& at(uint64_t number) { return groups[number - first]; }
  void commit();
  // All but the `newest` committed groups are done (sources read, for `read`).
  bool reached(uint32_t newest, bool read) const;
  unsigned unfinished() const;
};

// A tcgen05.ld result that becomes defined at tcgen05.wait::ld.
struct PendingRegister {
  Operand operand;
  uint32_t lanes;
};

// A wait for a phase of an mbarrier that was answered with yes.
struct PassedWait {
  const Instr* at = nullptr;
  uint32_t function = 0;
  uint32_t offset = 0, parity = 0;
  uint32_t phase = 0;         // that was over: kNoPhase: the one before the first
  bool at_once = false;       // the first answer was yes
  bool again = false;         // the warp had passed a wait for that phase before
  uint64_t instructions = 0;  // of the warp, then
};

struct WarpEngines {                 // per warp
  std::array<PassedWait, 8> passed;  // the last ones
  uint32_t passes = 0;
  uint64_t arrived_at = 0;  // the warp's instructions at its last arrival on an mbarrier
  void pass(PassedWait p) {
    newest_pass_first([&](const PassedWait& old) {
      p.again |= old.offset == p.offset && old.phase == p.phase;
      return p.again;
    });
    passed[passes++ % passed.size()] = p;
  }
  // f(wait), the newest first; until it returns true.
  template <class F>
  void newest_pass_first(F&& f) const {
    const auto size = static_cast<uint32_t>(passed.size());
    for (uint32_t k = 0; k < std::min(passes, size); ++k)
      if (f(passed[(passes - 1 - k) % size])) return;
  }
  uint32_t tmem_loads = 0, tmem_stores = 0;  // issued and not carried out
  std::vector<PendingRegister> loaded;
  // wgmma: this warp's groups; accumulator registers of unfinished ones (with the last group that writes
  // each); the number of wgmma.mma_async issued; whether a wgmma.fence preceded them.
  AsyncGroups wgmma;
  struct Accumulator {
    Operand operand;
    uint64_t group;
  };
  std::vector<Accumulator> accumulators;
  uint64_t wgmma_count = 0;
  bool wgmma_fenced = false;
  const Instr* setmaxnreg = nullptr;  // the last one, and how many registers it asked for
  uint32_t registers = 0;
};

struct TmemAllocation {
  uint32_t column, columns, group;
  const Instr* origin;
  uint32_t function;
};

struct Collector {  // of tcgen05.mma: the A or B that it holds
  bool filled = false;
  uint64_t matrix = 0;  // descriptor or TMEM address
  int kind = 0;
};

struct CtaState {
  explicit CtaState(Cta&);
  ~CtaState();

  Cta& cta;
  MbarrierTable mbarriers;
  std::string mbarriers_text(uint32_t where) const;
  uint32_t ptx_line(uint32_t function, const Instr&) const;
  std::array<NamedBarrier, 16> named;
  std::vector<ClusterBarrierPart> cluster_barrier;     // by warp
  std::vector<WarpEngines> warps;                      // by warp
  std::unordered_map<uint32_t, AsyncGroups> bulk;      // by thread: warp * 32 + lane
  std::unordered_map<uint32_t, AsyncGroups> cp_async;  // by thread
  std::vector<TmemAllocation> tmem;
  uint32_t last_alloc_columns = 0;   // sizes must not grow
  bool alloc_permit = true;          // tcgen05.relinquish_alloc_permit gives it up
  uint32_t pair_wanted = 0;          // columns of a pending tcgen05.alloc.cta_group::2 of the pair
  int pair_granted = -1;             // their first column, once the other CTA has allocated for both
  bool launch_control_over = false;  // saw a failed clusterlaunchcontrol.try_cancel
  Collector collector_a, collector_b[4];
  int tmem_group = 0;  // cta_group of this CTA's tcgen05 instructions, 0 before the first

  WarpEngines& warp(unsigned id);

  // Faults (uninitialised, invalidated or overwritten object) unless a live mbarrier is at `offset`.
  Mbarrier& mbarrier(uint32_t offset, const char* what);
  // Copies the mbarrier's state into its simulated bytes. Call it after every change.
  void store(uint32_t offset, const Mbarrier&);
  // Arrivals and bytes from engines: checks, settles, tells watchers and wakes waiters.
  void engine_arrive(uint32_t offset, const AsyncOp&);
  // `phase`: the mbarrier's phase at the operation's issue. Bytes delivered in another phase are noted.
  void engine_complete_tx(uint32_t offset, uint32_t bytes, const AsyncOp&, uint32_t phase = kNoPhase);
  // Called at the issue of an operation that will signal here; faults like mbarrier(), also for mbarriers of
  // other CTAs. Hardware starts the CTAs of a cluster together and a copy takes longer than their setup, so
  // programs without a cluster barrier work in practice. A tolerant schedule therefore gives a note, and the
  // operation is held (`ahead_of_init`) until the mbarrier exists; the phase is then kNoPhase. Returns the
  // mbarrier's phase.
  uint32_t expect_signal(const Warp& issuer, uint32_t offset, const char* what);
  bool ahead_of_init(const AsyncOp&, uint32_t offset) const;
  // One of count and bytes is 0. Only changes the state, and tells watchers if that completes the phase.
  void signal(Mbarrier&, uint32_t offset, uint32_t count, int64_t bytes);
  // Runs f(), an arrival on `b`. If its count faults, the message lists the lines of the init and the
  // arrivals.
  template <class F>
  bool counted(const Mbarrier& b, F&& f) const {
    try {
      return f();
    } catch (const Fault& e) {
      throw Fault(e.kind, e.lane, e.what() + history(b));
    }
  }
  // Faults when [offset, offset + bytes) overlaps a live mbarrier: called for every write that is not an
  // mbarrier operation.
  void check_payload(uint32_t offset, uint32_t bytes, const char* what) const {
    if (int64_t b = mbarriers.overlapping(offset, bytes); b >= 0) [[unlikely]]
      payload_fault(offset, bytes, static_cast<uint32_t>(b), what);
  }
  // Called when the CTA's last warp has exited; faults when tensor memory is still allocated.
  void at_exit() const;

 private:
  std::string history(const Mbarrier&) const;
  void signal_by(const AsyncOp&, uint32_t offset, uint32_t count, int64_t bytes);
  void check_registers() const;
  void too_few_bytes(const Mbarrier&, uint32_t offset, uint32_t bytes, const AsyncOp&, uint32_t phase) const;
  [[noreturn]] void payload_fault(uint32_t, uint32_t, uint32_t, const char*) const;
};

}  // namespace fp4lab::emu
