// A warp: 32 lanes over structure-of-arrays registers, split into groups that diverged and will reconverge.
//
// What instruction bodies use:
//   source<T>(operand)  32 lanes of a value operand     target<T>(operand)  the row to write
//   mask(operand)       a predicate operand's lanes     active              lanes that execute now (guard
//   applied) for_lanes(w.active, [&](unsigned lane) { d[lane] = a[lane] + b[lane]; });
// A body that cannot proceed yet calls block(...) and returns: the group parks and runs the same instruction
// again once the condition holds.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulator/core/error.h"
#include "emulator/core/ir.h"
#include "emulator/core/memory.h"
#include "emulator/core/reschedule.h"
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

// Why a group does not run. The scheduler polls `ready` whenever something in the cluster (or, for serial, in
// the grid) has happened; the deadlock report names the wait by `text`.
struct Wait {
  enum class Kind : uint8_t {
    none,
    mbarrier,       // address, phase parity or state: what the group waits for
    named_barrier,  // address = barrier id
    cluster_barrier,
    warp_sync,   // missing lanes of a member mask
    reconverge,  // siblings of a divergent branch
    async_ops,   // tcgen05.wait, bulk wait_group, wgmma wait_group: own asynchronous operations
    tmem_alloc,  // columns of the SM are taken
    serial,      // a strong access to global memory: waits for the serial phase of the round
    sleep,       // nanosleep, yield: runnable again when the scheduler decides
  };
  Kind kind = Kind::none;
  uint32_t address = 0;
  uint64_t value = 0;
  bool (*ready)(Warp&, const struct LaneGroup&) = nullptr;
};

// A join point where the lanes of a divergent branch wait. Not a guarantee, since PTX promises reconvergence
// nowhere: lanes that wait too long for siblings are released and continue alone.
struct Join {
  uint32_t pc = 0, depth = 0;              // depth: call depth of the function that contains it
  uint32_t participants = 0, arrived = 0;  // lanes; participants 0 = this entry is free
  struct LaneGroup* waiting = nullptr;     // holds the arrived lanes
  uint64_t since = 0;                      // Warp::instructions when the first lanes arrived
};

struct Frame {
  uint32_t function, return_pc;
};  // caller's function and the pc after the call

// The last mbarrier wait that failed: on which mbarrier, for which phase, and when.
struct Asked {
  const Instr* at = nullptr;
  uint32_t offset = 0, phase = 0;
  uint64_t instructions = 0;  // of the warp
};

// The target of a poll of global memory: an instruction, and the range of its lanes' data (empty if they lie
// far apart).
struct Look {
  const Instr* at = nullptr;
  uint64_t low = 0;
  uint32_t length = 0;
  bool operator==(const Look&) const = default;
};
// The last poll that a group executed, without changing anything.
struct Polled {
  Look look;
  uint64_t contents = 0;      // a hash of the contents
  uint64_t instructions = 0;  // of the warp, then
  uint32_t repeats = 0;       // number of earlier polls with the same contents
};

// Lanes that execute together. Wait::ready gets the waiting group.
struct LaneGroup {
  uint32_t mask = 0;
  uint32_t pc = 0;
  uint32_t function = 0;
  uint64_t quiet = 0;           // instructions since the last yield or strong access
  std::vector<uint32_t> joins;  // indices into Warp's joins, innermost last
  std::vector<Frame> frames;
  Wait wait;
  Asked asked;
  Look wanted;  // the last poll that had to wait for the serial phase
  Polled polled;
  bool timed_out = false;  // of an mbarrier.try_wait: the next one returns false
};

class Warp {
 public:
  Warp(Cta& cta, unsigned id, uint32_t lanes);
  ~Warp();
  Warp(const Warp&) = delete;

  Cta& cta;
  const unsigned id;     // %warpid: index in the CTA
  const uint32_t lanes;  // lanes that exist (the last warp of a block may be partial)
  uint32_t exited = 0;
  uint32_t active = 0;         // lanes executing the current instruction
  LaneGroup* group = nullptr;  // the group executing now

  // --- values
  // Checked for uninitialised reads: faults with the register's PTX line if an active lane was never written.
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
  // The carry flag CC.CF of each lane (add.cc, addc, ...). A read before any write faults, as for a register.
  uint32_t carry() {
    if (active & ~carry_defined_) [[unlikely]]
      undefined_carry();
    return carry_;
  }
  void set_carry(uint32_t lanes) {
    carry_ = (carry_ & ~active) | (lanes & active);
    carry_defined_ |= active;
  }
  // The instruction leaves an arbitrary value there (shfl from a lane that takes no part).
  void leave_undefined(const Operand& o, uint32_t lanes) {
    const size_t row = o.offset / kRowBytes;
    defined_[row] &= ~lanes;
    if (!partly_.empty()) forget_parts(row, lanes);
    if (row < awaited_.size()) awaited_[row] &= ~lanes;
  }
  // For moves, which pack and unpack partly written values, and other readers of some bytes of a register:
  // source() without its check, whether the check would pass, and the unwritten bytes by lane (bit 0 is the
  // lowest). Pending results are checked as by source().
  using Bytes = std::array<uint8_t, kLanes>;
  template <class T>
  const LaneOf<T>* unchecked_source(const Operand& o) const {
    return reinterpret_cast<const LaneOf<T>*>(registers_ + o.offset);
  }
  // source() of an instruction that reads only these bytes, one bit each.
  template <class T>
  const LaneOf<T>* source_bytes(const Operand& o, uint8_t bytes) {
    if (!written(o) && unwritten_among(o, bytes)) [[unlikely]]
      undefined_source(o);
    return unchecked_source<T>(o);
  }
  bool written(const Operand& o) const { return (defined_[o.offset / kRowBytes] & active) == active; }
  Bytes unwritten_bytes(const Operand& o);
  bool unwritten_among(const Operand& o, uint8_t bytes);
  void leave_unwritten(const Operand& o, const Bytes&);  // in the active lanes; `o`'s other bytes are written
  // A pending result (tcgen05.ld, wgmma).
  void await(const Operand& o, uint32_t lanes) {
    const size_t row = o.offset / kRowBytes;
    defined_[row] &= ~lanes;
    if (!partly_.empty()) forget_parts(row, lanes);
    if (awaited_.size() <= row) awaited_.resize(row + 1);
    awaited_[row] |= lanes;
  }
  // Its destination, and the lanes that have been written since.
  uint32_t* awaited_row(const Operand& o) { return reinterpret_cast<uint32_t*>(registers_ + o.offset); }
  uint32_t written_since(const Operand& o, uint32_t awaited) const {
    return defined_[o.offset / kRowBytes] & awaited;
  }
  // The lanes whose predicate is true, negation applied; only meaningful for active lanes.
  uint32_t mask(const Operand& o) {
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
  // Called by the bodies of bra, call, ret, exit. `taken` is a subset of active.
  void branch(const Instr&, uint32_t target_pc, uint32_t taken);
  void branch_indexed(const Instr&, const std::vector<uint32_t>& target_of_lane);
  // call and ret only move control: arguments and results share their places (kCallParam). A ret of the entry
  // is an exit.
  void call(const Instr&, uint32_t function);
  void ret(uint32_t lanes);
  void exit(uint32_t lanes);
  // The lane's stack pointer (alloca), an address in local memory; only where the kernel has a stack.
  uint32_t& stack_top(unsigned lane) { return stack_->top[lane]; }
  uint32_t stack_base() const { return stack_->base; }
  uint32_t live() const { return lanes & ~exited; }
  // Parks the current group until `wait.ready` is true; the instruction then executes again. The body must
  // return at once.
  void block(const Wait& wait);
  // Makes the parked mbarrier.try_waits of this warp return false. True if there was one.
  bool time_out_waits();
  bool blocked() const { return events_ & kBlocked; }
  // Ends the group's turn after this instruction, so that others run: for polls (test_wait, nanosleep,
  // volatile loads).
  void yield() { events_ |= kYield; }
  // Ends the group's turn before this instruction, which executes again after others have run. The body must
  // return at once and have done nothing.
  void again(const Instr& i) {
    group->pc = i.pc;
    yield();
  }
  // Records a poll, for the deadlock report and so that a poll that would see the same again can be delayed.
  void saw(const Look&);
  // For sync instructions with a member mask. Gathers lanes of other groups that wait at the same
  // instruction. True when all live lanes of `members` are here (active then covers them); false after
  // parking the group. Faults if an active lane is not in its own mask. With `elsewhere` it is also true when
  // the missing lanes wait at other instructions of the same kind: the manual asks for "a bar.warp.sync with
  // the same membermask", and an H200 lets shfl, vote, match, redux and elect of two branches meet as well.
  // active then covers the lanes that are here, and the caller releases the others.
  struct Party {
    LaneGroup* group;
    const Instr* instr;
    uint32_t lanes;
  };
  bool converge(const Instr&, uint32_t members, std::vector<Party>* elsewhere = nullptr);
  void let_go(const std::vector<Party>&);  // they continue after their instructions
  // Runs what such lanes do, as if their instruction were the current one, so that faults and notes name it.
  template <class F>
  void in_place_of(const Party& p, F&& what) {
    LaneGroup* const own_group = std::exchange(group, p.group);
    const uint32_t own_lanes = std::exchange(active, p.lanes);
    const Instr*& last = recent_[(recorded_ - 1) % kRecent];
    const Instr* const own_instr = std::exchange(last, p.instr);
    const auto back = [&] { group = own_group, active = own_lanes, last = own_instr; };
    try {
      what();
    } catch (const Reschedule&) {  // it waits for an operand; both execute again
      back();
      throw;
    }
    back();
  }
  // The fault of lanes that execute a collective instruction whose mask does not name them.
  Fault not_named(uint32_t members) const;
  // For `.aligned` and warp-collective instructions; call it first. All live lanes of the warp are active
  // when it returns. It leaves the body (by an exception of the core) to wait for lanes that can still
  // arrive, and faults if some cannot.
  void require_full(const Instr&);
  // The same for matrix instructions, whose operands span all 32 lanes: lanes that have exited or do not
  // exist (a block of fewer threads) are a fault too, or a note.
  void require_whole(const Instr&);
  bool in_serial_phase() const;  // false: block({serial}) and return

  // --- memory
  // Resolves one lane's access: checks bounds, alignment, window and liveness, tells watchers, and returns
  // the host address. `space` is the instruction's; generic addresses are resolved to their window. Faults
  // with address, values and lane.
  std::byte* memory(const Instr&, Space, AccessKind, uint64_t address, uint32_t bytes, unsigned lane,
                    bool strong = false);
  // The same for all active lanes at once, which is much faster. The result says whether all 32 lanes are
  // active with contiguous places (a row of 32 * bytes), or with one and the same place.
  struct Places {
    enum class Shape : uint8_t { scattered, row, same } shape;
    uint32_t bytes;           // of a lane
    std::byte* first;         // unless scattered
    std::byte* host[kLanes];  // if scattered
    std::byte* operator[](unsigned lane) const {
      return shape == Shape::scattered ? host[lane] : shape == Shape::row ? first + lane * bytes : first;
    }
  };
  Places memory(const Instr&, Space, AccessKind, const uint64_t* address, uint32_t bytes,
                bool strong = false);
  // The address operand's value in one lane, displacement added; 32-bit bases wrap.
  uint64_t address(const Operand& o, unsigned lane) {
    if (!o.has_base) return static_cast<uint64_t>(o.displacement);
    if (bits_of(o.type) == 64) return source<uint64_t>(o)[lane] + static_cast<uint64_t>(o.displacement);
    return static_cast<uint32_t>(source<uint32_t>(o)[lane] + static_cast<uint32_t>(o.displacement));
  }

  // Shared memory only: which CTA and offset a generic, shared::cta or shared::cluster address names, with
  // the checks of memory() except those of contents (uninitialised bytes, live mbarriers).
  struct SharedPlace {
    Cta* cta;
    uint32_t offset;
    std::byte* host;
  };
  SharedPlace shared_place(const Instr&, Space, uint64_t address, uint32_t bytes, unsigned lane);

  uint64_t instructions = 0;  // executed by this warp
  bool put_off = false;       // its last poll of this turn returned false although the phase was over

  // --- for schedulers, reports and engines
  bool runnable() const;  // some group can execute
  const std::vector<std::unique_ptr<LaneGroup>>& groups() const { return groups_; }
  // The instruction that executed last, or that is executing; null before the first.
  const Instr* current() const { return recent_[(recorded_ - 1) % kRecent]; }
  // The event (Cluster::next_event) by which a named or cluster barrier last released it; 0: none.
  uint64_t synchronised = 0;
  // Remembers the current instruction for reports: bodies call it when they have synchronised or issued
  // something. Keeps the last few, the oldest first; repetitions count once.
  struct Noted {
    const Instr* at = nullptr;
    uint32_t function = 0, times = 0;
  };
  void note() {
    Noted& last = noted_[(notes_ + kNoted - 1) % kNoted];
    if (notes_ && last.at == current()) {
      ++last.times;
      return;
    }
    noted_[notes_++ % kNoted] = {current(), group ? group->function : 0, 1};
  }
  template <class F>
  void for_noted(F&& f) const {
    for (uint64_t k = notes_ > kNoted ? notes_ - kNoted : 0; k < notes_; ++k) f(noted_[k % kNoted]);
  }

 private:
  friend class Cluster;
  friend class Scheduler;
  static constexpr uint32_t kRowBytes = 128;
  static constexpr unsigned kRecent = 8;
  static constexpr uint32_t kQuiet = 256;
  // The group has executed everything that the warp executed since the last call.
  void count_quiet(LaneGroup& g) { g.quiet += instructions - std::exchange(counted_, instructions); }
  uint64_t counted_ = 0;
  enum Event : uint32_t { kBlocked = 1, kYield = 2, kSwitch = 4 };  // kSwitch: control flow was not linear
  enum class Turn : uint8_t { spent, yielded, parked };             // why run() returned

  // Groups take turns, `first` first, until the budget is used up, one yields, or all are parked.
  Turn run(uint64_t& budget, LaneGroup* first = nullptr);
  template <bool kWatch>
  void steps(LaneGroup&, uint64_t& budget);
  LaneGroup* next_group();
  LaneGroup* fork(LaneGroup& like, uint32_t mask, uint32_t pc);
  void remove(LaneGroup*);
  void part(const Instr&, uint32_t target, uint32_t taken);
  uint32_t push_join(LaneGroup&, uint32_t pc, uint32_t depth);
  LaneGroup* arrive(LaneGroup&);  // at its innermost join, if its pc is there
  void settle(uint32_t join);     // completes the join if all lanes have arrived
  void leave_joins(LaneGroup&, uint32_t lanes,
                   size_t keep);  // lanes no longer take part in joins [keep, end)
  bool release_joins(bool all);   // releases the arrived lanes of incomplete joins (old ones, or all)
  void release_join(Join&);
  uint32_t join_pc(const LaneGroup&) const;
  void wake_gathering();
  std::string where(uint32_t lanes) const;  // "lanes 1-31 at line 40 (bar.sync)", for messages
  std::byte* local_memory(AccessKind, uint64_t address, uint32_t bytes, unsigned lane);
  struct Span;
  bool shared_lanes(AccessKind, const uint64_t* address, const Span&, uint64_t base, uint32_t bytes);
  bool global_lanes(const Span&, uint32_t bytes);
  bool lanes_together(Space, AccessKind, const uint64_t* address, bool strong, Places&);
  std::byte* param_memory(AccessKind, uint64_t offset, uint32_t bytes, unsigned lane);
  std::byte* shared_memory(const Instr&, Space, AccessKind, uint64_t address, uint32_t bytes, unsigned lane,
                           bool strong);
  // In global or constant memory: `place` is the device address, `address` the program's address.
  std::byte* device_memory(AccessKind, const char* space, uint64_t address, uint64_t place, uint32_t bytes,
                           unsigned lane, bool strong);
  void outside_device(AccessKind, const char* space, uint64_t address, uint64_t place, uint32_t bytes,
                      unsigned lane);  // a fault, or a note

  void check_defined(const Operand& o) {
    if ((defined_[o.offset / kRowBytes] & active) != active) [[unlikely]]
      undefined_source(o);
  }
  void check_predicate(const Operand& o) {
    if ((predicates_defined_[o.index] & active) != active) [[unlikely]]
      undefined_predicate(o.index);
  }
  // Faults, or with a tolerant schedule makes a note and chooses a value.
  void undefined_source(const Operand&);
  void undefined_predicate(uint32_t index);
  void undefined_carry();
  void forget_parts(size_t row, uint32_t lanes);

  // One allocation: rows, then one word per row with the lanes that were written, then the predicates and the
  // lanes in which each was written.
  std::byte* registers_ = nullptr;
  uint32_t carry_ = 0, carry_defined_ = 0;
  uint32_t *defined_ = nullptr, *predicates_ = nullptr, *predicates_defined_ = nullptr;
  std::vector<uint32_t> awaited_;   // by row: lanes that ever had a pending result
  std::map<size_t, Bytes> partly_;  // by row: the unwritten bytes of undefined lanes; 0 = all
  std::byte* local_ = nullptr;      // lanes x local_bytes
  struct Stack {
    uint32_t base = 0, top[kLanes] = {};
    std::vector<uint32_t> callers[kLanes];  // the callers' stack pointers
  };
  std::unique_ptr<Stack> stack_;
  std::vector<std::unique_ptr<LaneGroup>> groups_, spare_;
  std::vector<Join> joins_;
  GlobalMemory::Range recent_ranges_[4];  // of the last global accesses
  uint32_t next_range_ = 0, next_group_ = 0;
  uint32_t events_ = 0;
  uint64_t ready_turn_ = 0;                 // the cluster's turn when it last became runnable
  uint64_t moved_turn_ = 0, moved_at_ = 0;  // the cluster's turn, and instructions, see all_moved_since
  uint64_t taken_turn_ = 0, taken_at_ = 0;  // the same, see Cluster::in_turn
  bool queued_ = false;                     // is in the cluster's list of runnable warps
  static constexpr unsigned kNoted = 6;
  Noted noted_[kNoted];
  uint64_t notes_ = 0;
  const Instr* recent_[kRecent] = {};
  uint64_t recorded_ = 0;
};

}  // namespace fp4lab::emu
