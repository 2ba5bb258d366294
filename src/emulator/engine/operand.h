// What the engines' instruction bodies share: where a shared-memory operand points, and per-lane submission.
#pragma once

#include <bit>

#include "emulator/core/async.h"
#include "emulator/core/cta_state.h"
#include "emulator/core/error.h"
#include "emulator/core/machine.h"
#include "emulator/core/warp.h"

namespace fp4lab::emu {

struct SharedRef {
  Cta* cta = nullptr;
  uint32_t offset = 0;  // in that CTA's window
};

// The state space that the instruction's modifiers name: generic when none does.
inline Space shared_space(const Source& s) {
  if (s.has("shared::cluster")) return Space::shared_cluster;
  if (s.has("shared") || s.has("shared::cta")) return Space::shared;
  return Space::generic;
}

// Resolves one lane's shared-memory address; faults when it is not in the shared window, or names a CTA that
// is not there. A .shared::cta address must be one of the executing CTA.
SharedRef shared_ref(Warp&, Space, uint64_t address, unsigned lane, const char* what);

inline SharedRef shared_ref(Warp& w, Space space, const Operand& o, unsigned lane, const char* what) {
  return shared_ref(w, space, w.address(o, lane), lane, what);
}

// The mbarrier that a copy without .cta_group::2, or st.async, signals is in the CTA of its destination. An
// H200 takes the offset of the mbarrier's address, and the CTA from the destination's (2026-11-23): where
// that is tolerated, a note. Modular's kernels clear the lowest bit of the mbarrier's CTA rank whatever the
// cta_group.
SharedRef beside(Warp&, const SharedRef& destination, const SharedRef& mbarrier, unsigned lane,
                 const char* what);

// What sends from one CTA's shared memory to another's (st.async, red.async, bulk copies from shared::cta to
// shared::cluster) may send to its own CTA too, but an H200 traps where clusters have one CTA, launched with
// the attribute or without (2026-11-24). Not so a B200: TransformerEngine's Blackwell kernels (d0067d0,
// graph_safe_group_row_cast_col_hadamard) do it in clusters of 1x1x1.
void require_peers(Warp&, const char* what, unsigned lane);

// Tells the watcher, if there is one, of an engine's access to shared or global memory.
inline void watch_access(Cluster& cluster, AccessKind kind, Space space, uint64_t address, uint32_t bytes,
                         Cta* cta, const AsyncOp& op, Proxy proxy = Proxy::async,
                         Layout layout = Layout::unknown) {
  if (cluster.watcher) [[unlikely]]
    cluster.watcher->access({kind, proxy, space, address, bytes, cta, nullptr, op.lane, &op, false, layout});
}

// The range of live global memory that holds [address, address + bytes); faults when there is none.
GlobalMemory::Range global_range(const Grid&, uint64_t address, uint64_t bytes, const char* what);
// The same for one that is read. Behind an allocation, but in pages that a device has mapped, it is a note
// where that is tolerated: novus677's contest dual GEMM fills four stages though K has fewer tiles.
GlobalMemory::Range global_source(Cluster&, uint64_t address, uint64_t bytes, const AsyncOp&);

// Where unwritten values are tolerated (see Schedule), before the warp arrives somewhere: carries out the
// tcgen05.ld and tcgen05.st that it has under way. The manual wants a tcgen05.wait there, and --check says
// so; hardware keeps the accesses to tensor memory of an SM in order, and library kernels (CUTLASS's FMHA)
// count on it.
void settle_tensor_memory(Warp&);

// aux carries a small trivially copyable struct.
template <class T>
uint64_t pack_aux(const T& t) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &t, sizeof(T));
  return bits;
}
template <class T>
T unpack_aux(const Instr& in) {
  T t;
  __builtin_memcpy(&t, &in.aux, sizeof(T));
  return t;
}

}  // namespace fp4lab::emu
