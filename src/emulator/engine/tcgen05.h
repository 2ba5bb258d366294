// What the tcgen05 instructions share.
#pragma once

#include "emulator/core/tmem.h"
#include "emulator/engine/descriptors.h"
#include "emulator/engine/operand.h"

namespace fp4lab::emu {

// The SM's tensor memory; faults on a device that has none. tcgen05.alloc makes it.
TensorMemory& tensor_memory(Cta&);

// cta_group::1 or ::2 of an instruction. One kernel uses one of them throughout.
inline uint8_t cta_group(const Source& s) { return s.has("cta_group::2") ? 2 : 1; }
void use_group(Cta&, unsigned group);

// The other CTA of the pair (ranks 2i and 2i + 1); faults when the cluster has none or it has exited.
Cta& pair_of(Cta&, const char* what);
// The CTA of the pair with the even rank.
Cta& leader_of(Cta&, const char* what);

// The queue of cp, mma, shift and commit: in issue order for one thread (PTX ISA 9.7.16.6.2). Where the
// schedule is tolerant, for all threads of the CTA or of the pair, which share one tensor core: CUTLASS's
// kernels that load B by cp.async let both CTAs of a pair copy the scale factors, and nothing but issue
// orders the copies.
inline Queue pipe_of(const Warp& w, unsigned lane) {
  const Cta& cta = w.cta;
  if (!cta.cluster.grid.schedule.tolerant) return {Queue::tensor_pipe, cta.rank << 16 | w.id << 5 | lane};
  return {Queue::tensor_pipe, (cta.state->tmem_group == 2 ? cta.rank & ~1u : cta.rank) << 16};
}

// For warp-collective instructions: all threads of the warp are here, and none has exited.
void require_whole(Warp&, const Instr&);
// The same value in all active lanes, for warp-collective instructions.
uint32_t uniform_operand(Warp&, const Operand&, const char* what);
uint32_t uniform_address(Warp&, const Operand&, const char* what);

// A shared-memory descriptor. Where the schedule is tolerant, its constant field may be 0, as wgmma's is,
// with a note: mayankagarwals' gated delta networks v3 and v4, which their author measured on a B200, leave
// it out. Swizzles have tcgen05's codes all the same.
SharedMatrix shared_matrix(Warp&, unsigned lane, uint64_t bits, const char* what);

inline void watch_tmem(Cluster& cluster, bool write, Cta* cta, unsigned lane0, unsigned lanes,
                       unsigned column, unsigned columns, const AsyncOp& op) {
  if (cluster.watcher) [[unlikely]]
    cluster.watcher->tmem({write ? TmemAccess::What::write : TmemAccess::What::read, cta, lane0, lanes,
                           column, columns, nullptr, &op});
}

}  // namespace fp4lab::emu
