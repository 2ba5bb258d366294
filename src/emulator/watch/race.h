// The race checker: two accesses to the same bytes of shared memory (or cells of tensor memory), at least one
// a write, must be ordered by synchronisation that the program executed, whatever the schedule happened to
// be. It also demands fence.proxy.async between a write by a thread and a later access of the async proxy
// (PTX ISA 8.6, "proxies"). The first violation is thrown as a Fault from the event, so the launch fails with
// both places.
//
// The order is kept with vector clocks. Agents are the warps and the mbarriers: an asynchronous operation
// knows what its thread knew at its issue, and its effects become known through what publishes them: the
// mbarrier phase that its bytes, or the tcgen05.commit behind it, count in; or the wait_group, wait::ld,
// wait::st of its thread.
//
// Not seen: races between lanes of one warp, and in global memory. Strong accesses (volatile, atomics) order
// everything around them and never race. tcgen05.fence is not demanded: shipped kernels leave it out.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "emulator/core/watch.h"

namespace fp4lab::emu {

class RaceChecker final : public Watcher {
 public:
  RaceChecker();
  ~RaceChecker() override;

  bool thread_safe() const override { return true; }
  void launch_begin(const Grid&) override;
  void launch_end(const Grid&) override;
  void step(Warp&, const Instr&, uint32_t active) override;
  void access(const Access&) override;
  void tmem(const TmemAccess&) override;
  void barrier(const BarrierEvent&) override;
  void fence(Warp&, const Instr&) override;
  void issue(Warp&, const AsyncOp&) override;
  void cta_start(Cta&) override;
  void cta_exit(Cta&) override;

 private:
  class History;  // of one cluster
  History& history(const Cluster&);
  void forget(const Cluster*);  // null: all
  std::mutex mutex_;
  std::unordered_map<const Cluster*, std::unique_ptr<History>> histories_;
};

}  // namespace fp4lab::emu
