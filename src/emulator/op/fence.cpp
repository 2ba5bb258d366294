// membar and fence (PTX ISA 9.7.13.4), tcgen05.fence (9.7.16.11.1). Memory is sequentially consistent within
// a cluster's turn, and strong accesses to global memory are serialised, so a fence changes no value. It only
// notifies watchers.
#include "emulator/core/machine.h"
#include "emulator/isa/opcode.h"
#include "emulator/op/addresses.h"

namespace fp4lab::emu {

namespace {

void fence(Warp& w, const Instr& i) {
  if (i.op[0].kind == Operand::Kind::address) static_cast<void>(Addresses(w, i.op[0]));
  if (Watcher* watcher = w.cta.cluster.watcher) watcher->fence(w, i);
}

}  // namespace

Body bind_fence(Instr&, const Source&) { return fence; }
Body bind_fence_restricted(Instr&, const Source&) { return fence; }
Body bind_fence_mbarrier_init(Instr&, const Source&) { return fence; }
Body bind_fence_proxy(Instr&, const Source&) { return fence; }
Body bind_fence_proxy_tensormap_release(Instr&, const Source&) { return fence; }
Body bind_fence_proxy_tensormap_acquire(Instr& i, const Source&) {
  if (i.op[1].displacement != 128)
    fail("a tensor map has 128 bytes: fence.proxy.tensormap takes the size 128, not {}",
         i.op[1].displacement);
  return fence;
}
Body bind_fence_proxy_restricted(Instr&, const Source&) { return fence; }
Body bind_tcgen05_fence(Instr&, const Source&) { return fence; }
Body bind_membar(Instr&, const Source&) { return fence; }
Body bind_membar_proxy(Instr&, const Source&) { return fence; }

}  // namespace fp4lab::emu
