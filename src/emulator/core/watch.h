// Watchers stand outside the core, which reports events to them; they never change it. With none attached the
// core pays one test of a null pointer per event.
#pragma once

#include <cstdint>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

class Warp;
class Cta;
class Cluster;
class Grid;
struct AsyncOp;

enum class Proxy : uint8_t { generic, async, tensormap };
enum class AccessKind : uint8_t { read, write, atomic };
// The permutation (swizzle) of a tile's bytes in shared memory: by the tensor map that writes it, or the
// descriptor that reads it. `unknown`: the access implies none.
enum class Layout : uint8_t { unknown, none, b32, b64, b128, b128_atom32, other };

// One contiguous piece of memory accessed by one lane, or by an engine for an asynchronous operation.
struct Access {
  AccessKind kind;
  Proxy proxy;
  Space space;       // global, shared, local, param; TMEM has its own event
  uint64_t address;  // shared: the offset in `cta`'s window
  uint32_t bytes;
  Cta* cta;    // owner of shared memory; null for global
  Warp* warp;  // the thread's, with `lane`; null for an engine
  unsigned lane;
  const AsyncOp* op;  // the asynchronous operation, if any
  bool strong;        // volatile, relaxed or stronger: takes part in synchronisation
  Layout layout = Layout::unknown;
};

struct TmemAccess {
  enum class What : uint8_t { read, write, alloc, dealloc } what;
  Cta* cta;
  unsigned lane0, lanes, column0, columns;
  Warp* warp;
  const AsyncOp* op;
};

struct BarrierEvent {
  enum class What : uint8_t {
    init,
    inval,
    arrive,
    expect_tx,
    complete_tx,
    phase,
    wait_done,
    bar_arrive,
    bar_done,
    cluster_arrive,
    cluster_done,
    warp_sync,    // bar.warp.sync, shfl, vote, match, redux: `lanes` continue together
    elected,      // elect.sync: the same, but the manual promises no memory ordering
    tmem_waited,  // tcgen05.wait: amount 0 ::ld, 1 ::st
    bulk_commit,  // cp.async.bulk.commit_group
    bulk_waited,  // ... wait_group of the newest `amount`; phase 1: .read
    copy_commit,  // cp.async.commit_group
    copy_waited,  // ... wait_group of the newest `amount`
    wgmma_commit,
    wgmma_waited,  // wgmma.wait_group of the newest `amount`
  } what;
  Cta* cta;          // owner of the barrier
  uint32_t address;  // mbarrier: shared offset; named barrier: its id
  int64_t amount;    // arrivals or bytes; wait_done: 1 where the first answer was yes
  uint32_t phase;    // wait_done: the one that is over, kNoPhase for the one before the first
  Warp* warp;        // null when an engine arrives
  uint32_t lanes;
  const AsyncOp* op;
};

// A watcher's data of an asynchronous operation.
struct WatchedOp {
  virtual ~WatchedOp() = default;
};

struct Watcher {
  virtual ~Watcher() = default;
  // May its functions be called from several host threads at once (for different clusters)?
  virtual bool thread_safe() const { return false; }
  virtual void launch_begin(const Grid&) {}
  virtual void launch_end(const Grid&) {}
  virtual void step(Warp&, const Instr&, uint32_t /*active*/) {}
  virtual void access(const Access&) {}
  virtual void tmem(const TmemAccess&) {}
  virtual void barrier(const BarrierEvent&) {}
  virtual void fence(Warp&, const Instr&) {}
  virtual void issue(Warp&, const AsyncOp&) {}
  virtual void complete(const AsyncOp&) {}
  virtual void cta_start(Cta&) {}
  virtual void warp_exit(Warp&) {}                        // all its lanes have; before cta_exit
  virtual void exit_before_read(Cta&, const AsyncOp&) {}  // see AsyncOp::reads_shared; before cta_exit
  virtual void cta_exit(Cta&) {}
};

}  // namespace fp4lab::emu
