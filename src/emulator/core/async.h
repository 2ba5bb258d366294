// Asynchronous operations: issued by an instruction, carried out later at a time that the scheduler chooses
// among those the ordering rules allow. Operands are captured at issue, memory is read when the operation
// runs.
#pragma once

#include <cstdint>
#include <memory>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

class Warp;
class Cta;
struct WatchedOp;
class Cluster;

// Operations of one queue run in issue order; different queues in any order. A queue is named by its kind and
// an owner. kUnordered operations have no order at all (two TMA loads, say).
struct Queue {
  enum Kind : uint32_t { unordered, tensor_pipe, tmem_load, bulk_group, wgmma, cp_async, other };
  Kind kind = unordered;
  uint32_t owner = 0;  // for instance CTA rank, or warp and lane
  auto operator<=>(const Queue&) const = default;
};

struct AsyncOp {
  AsyncOp();
  virtual ~AsyncOp();
  // Carries the operation (or its next part) out: reads memory, writes memory, signals barriers. Returns true
  // when it is finished; false to be scheduled again later (a TMA store that has read shared memory but not
  // yet written global).
  virtual bool run(Cluster&) = 0;
  virtual const char* name() const = 0;          // the mnemonic's family, for reports: "cp.async.bulk.tensor"
  virtual bool serial() const { return false; }  // touches global memory atomically: run in the serial phase
  // Asked when every warp of its CTA has exited: true = still running then is a fault.
  virtual bool holds_exit() const { return true; }
  // True: it would only change registers of the CTA or tensor memory that the CTA has freed. A tolerant
  // schedule drops such an operation at the CTA's exit, with a note.
  virtual bool lost_at_exit() const { return false; }
  // A store that has not read its CTA's shared memory yet.
  virtual bool reads_shared() const { return false; }
  // A load of tensor memory.
  virtual bool loads_registers() const { return false; }
  // A matrix product: it reads shared memory some time after its issue.
  virtual bool is_product() const { return false; }
  // It reads shared memory of both CTAs of a pair (see Cluster::ranks_that_go_on).
  virtual bool of_pair() const { return false; }
  // The mbarrier that counts its bytes, if one does, and the phase that this was in at issue.
  struct Counted {
    const Cta* cta = nullptr;
    uint32_t mbarrier = 0, phase = 0;
  };
  virtual Counted counted() const { return {}; }
  // True: not now, as long as warps can run (see Cluster::all_moved_since, CtaState::ahead_of_init).
  virtual bool held(const Cluster&) const { return false; }

  Queue queue;
  const Instr* origin = nullptr;
  uint32_t function = 0;  // index of origin's function in its module
  Cta* cta = nullptr;     // the issuing CTA, warp and lane
  unsigned warp = 0, lane = 0;
  uint64_t sequence = 0;  // issue order within the cluster, set by Cluster::submit
  uint64_t turn = 0;      // the cluster's turn number at issue
  std::unique_ptr<struct WatchedOp> watched;
  bool due = false;   // set by the cluster: runs in the next serial phase
  bool rest = false;  // second part of a split operation; watchers only see the first
};

}  // namespace fp4lab::emu
