// A warp: 32 lanes over structure-of-arrays registers, split into groups that diverged and will reconverge.
//
// What instruction bodies use:
//   source<T>(operand)  32 lanes of a value operand     target<T>(operand)  the row to write
//   mask(operand)       a predicate operand's lanes     active              lanes that execute now (guard
//   applied) for_lanes(w.active, [&](unsigned lane) { d[lane] = a[lane] + b[lane]; });
// A body that cannot proceed yet calls block(...) and returns: the group parks and runs the same instruction
// again once the condition holds.
#pragma once

#include <bit>
#include <cstring>
#include <vector>

#include "emulator/core/error.h"
#include "emulator/core/ir.h"
#include "emulator/core/memory.h"
#include "emulator/core/watch.h"

namespace fp4lab::emu {

class Cta;
class Cluster;
class Grid;

// The row type of a register of sizeof(T) bytes: 8- and 16-bit values live zero-extended in 32 bits.
template <class T>
using LaneOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Runs f(lane) for every lane of the mask; the full mask is a plain loop that the compiler can vectorise:
// ivdep, because the rows of two operands are the same row or do not overlap.
template <class F>
inline void for_lanes(uint32_t mask, F&& f) {
  if (mask == 0xffffffffu) {
#pragma GCC ivdep
    for (unsigned lane = 0; lane < kLanes; ++lane) f(lane);
  } else {
    for (; mask; mask &= mask - 1) f(static_cast<unsigned>(std::countr_zero(mask)));
  }
}

// Why a group does not run. `ready` is polled by the scheduler whenever something in the cluster (or, for
// serial, in the grid) has happened; `text` names it in the deadlock report.
struct Wait {
  enum class Kind : uint8_t {
    none,
    mbarrier,       // address, phase parity or state: what the group waits for
    named_barrier,  // address = barrier id
    cluster_barrier,
    warp_sync,   // lanes named in a member mask that have not come yet
    reconverge,  // siblings of a divergent branch
    async_ops,   // tcgen05.wait, bulk wait_group, wgmma wait_group: own asynchronous operations
    tmem_alloc,  // columns of the SM are taken
    serial,      // a strong access to global memory: waits for the serial phase of the round
    sleep,       // nanosleep, yield: runnable again at the scheduler's will
  };
  Kind kind = Kind::none;
  uint32_t address = 0;
  uint64_t value = 0;
  bool (*ready)(Warp&, const struct LaneGroup&) = nullptr;
};

// A join point that the lanes of a divergent branch wait at.
struct Join {
  uint32_t pc;
  uint32_t participants, arrived;
};

struct Frame {
  uint32_t function, return_pc;
};  // caller's function and the pc behind the call

struct LaneGroup {
  uint32_t mask = 0;
  uint32_t pc = 0;
  uint32_t function = 0;
  std::vector<uint32_t> joins;  // indices into Warp::joins, innermost last
  std::vector<Frame> frames;
  Wait wait;
};

class Warp {
 public:
  Warp(Cta& cta, unsigned id, uint32_t lanes);

  Cta& cta;
  const unsigned id;     // %warpid: index in the CTA
  const uint32_t lanes;  // lanes that exist (the last warp of a block may be partial)
  uint32_t exited = 0;
  uint32_t active = 0;         // lanes executing the current instruction
  uint32_t carry = 0;          // the carry flag CC.CF of each lane (add.cc, addc, ...)
  LaneGroup* group = nullptr;  // the group executing now

  // --- values
  // ------------------------------------------------------------------------------------------------- Checked
  // against uninitialised reads: faults with the register's PTX line when an active lane was never written.
  template <class T>
  const LaneOf<T>* source(const Operand& o) {
    check_defined(o);
    return reinterpret_cast<const LaneOf<T>*>(registers_ + o.offset);
  }
  template <class T>
  LaneOf<T>* target(const Operand& o) {
    defined_[o.offset / kRowBytes] |= active;
    return reinterpret_cast<LaneOf<T>*>(registers_ + o.offset);
  }
  void set_undefined(const Operand& o, uint32_t lanes) { defined_[o.offset / kRowBytes] &= ~lanes; }
  uint32_t mask(
      const Operand& o) {  // lanes whose predicate holds, negation applied; meaningful for active lanes only
    check_predicate(o);
    return o.negated ? ~predicates_[o.index] : predicates_[o.index];
  }
  void set_mask(const Operand& o, uint32_t value) {  // writes the active lanes only
    if (o.kind != Operand::Kind::predicate) return;  // sink or absent
    predicates_[o.index] = (predicates_[o.index] & ~active) | (value & active);
    predicates_defined_[o.index] |= active;
  }
  const Function& function() const;
  const Operand& element(const Operand& vector, unsigned i) const;  // i-th element of a { } operand
  const Source& source_of(const Instr&) const;

  // --- control
  // ------------------------------------------------------------------------------------------------ Called
  // by bodies of bra, call, ret, exit. `taken` is a subset of active.
  void branch(const Instr&, uint32_t target_pc, uint32_t taken);
  void branch_indexed(const Instr&, const std::vector<uint32_t>& target_of_lane);
  void call(const Instr&, uint32_t function);
  void ret(uint32_t lanes);
  void exit(uint32_t lanes);
  // Parks the current group until `wait.ready` says so; the instruction then executes again. The body must
  // return at once.
  void block(const Wait& wait);
  bool blocked() const { return blocked_; }
  // Ends the group's turn behind this instruction, so that others run: for polls (test_wait, nanosleep,
  // volatile loads).
  void yield() { yield_ = true; }
  // For sync instructions with a member mask. Gathers lanes of other groups that wait at the same
  // instruction; true when all live lanes of `members` are here (active then covers them); false after
  // parking the group. Faults when an active lane is not in its own mask.
  bool converge(const Instr&, uint32_t members);
  // `.aligned` and warp-collective instructions: faults unless every live lane of the warp is active.
  void require_full(const Instr&);
  bool in_serial_phase() const;  // false: block({serial}) and return

  // --- memory
  // ------------------------------------------------------------------------------------------------- Resolve
  // one lane's access: bounds, alignment, window and liveness checked, watchers told; returns the host
  // address. `space` is the instruction's; generic addresses are resolved to their window. Faults with
  // address, values and lane.
  std::byte* memory(const Instr&, Space, AccessKind, uint64_t address, uint32_t bytes, unsigned lane,
                    bool strong = false);
  // The address operand's value in one lane, displacement added; 32-bit bases wrap.
  uint64_t address(const Operand& o, unsigned lane) {
    if (!o.has_base) return static_cast<uint64_t>(o.displacement);
    if (bits_of(o.type) == 64) return source<uint64_t>(o)[lane] + static_cast<uint64_t>(o.displacement);
    return static_cast<uint32_t>(source<uint32_t>(o)[lane] + static_cast<uint32_t>(o.displacement));
  }

  uint64_t instructions = 0;  // executed by this warp

 private:
  friend class Cluster;
  friend class Scheduler;
  static constexpr uint32_t kRowBytes = 128;
  void check_defined(const Operand& o) {
    if ((defined_[o.offset / kRowBytes] & active) != active) [[unlikely]]
      undefined_source(o);
  }
  void check_predicate(const Operand& o) {
    if ((predicates_defined_[o.index] & active) != active) [[unlikely]]
      undefined_predicate(o);
  }
  [[noreturn]] void undefined_source(const Operand&);
  [[noreturn]] void undefined_predicate(const Operand&);

  std::byte* registers_ = nullptr;  // rows, 64-byte aligned
  std::vector<uint32_t> defined_;   // per row: lanes that were written
  std::vector<uint32_t> predicates_, predicates_defined_;
  std::vector<std::byte> register_storage_, local_;  // local: lanes x local_bytes
  std::vector<LaneGroup> groups_;
  std::vector<Join> joins_;
  GlobalMemory::Range last_range_;  // of the last global access
  bool blocked_ = false, yield_ = false;
};

}  // namespace fp4lab::emu
